"""The platform's rules over resolved TrainJobs: TrainJobPolicy documents, CEL, options, exceptions, reports."""
