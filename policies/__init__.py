"""The platform's rules over resolved TrainJobs: nothing yet; TrainJobPolicy documents will be read here."""
