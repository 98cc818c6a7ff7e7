"""The names that the Kubeflow Trainer's API and controller reserve (trainer-semantics, section 7)."""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"

TRAIN_JOB: Final = "TrainJob"
TRAINING_RUNTIME: Final = "TrainingRuntime"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"
RUNTIME_KINDS: Final = (CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME)

ANCESTOR_LABEL: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
SUPPORT_LABEL: Final = "trainer.kubeflow.org/support"

TRAINER: Final = "trainer"
DATASET_INITIALIZER: Final = "dataset-initializer"
MODEL_INITIALIZER: Final = "model-initializer"
ANCESTORS: Final = (TRAINER, DATASET_INITIALIZER, MODEL_INITIALIZER)

NODE: Final = "node"
LAUNCHER: Final = "launcher"
RESERVED_CONTAINERS: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER, NODE)
"""Containers whose env comes from the TrainJob itself; patches may not set it."""

TRAINER_PORT: Final = 29500
COMPLETION_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
KUEUE_MANAGER: Final = "kueue.x-k8s.io/manager"

TOTALS_ANNOTATION: Final = "stationmaster.dev/podgroup-totals"
APPLIED_ANNOTATION: Final = "stationmaster.dev/applied"
OUR_ANNOTATIONS: Final = (TOTALS_ANNOTATION, APPLIED_ANNOTATION)
OUR_MANAGERS: Final = ("stationmaster.dev/defaults", "stationmaster.dev/overrides")
