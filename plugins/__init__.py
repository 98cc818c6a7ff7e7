"""Kubeflow TrainJobs resolved: the framework, and the plugins that translate each policy as the Trainer does."""
