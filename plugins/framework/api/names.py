"""The names that the Kubeflow Trainer's API and controller reserve (trainer-semantics, section 7)."""

from __future__ import annotations

from typing import Final

GROUP: Final = "trainer.kubeflow.org"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"
DEFAULT_NAMESPACE: Final = "default"
"""Where an object from a file goes that names no namespace, as with kubectl."""

TRAIN_JOB: Final = "TrainJob"
TRAINING_RUNTIME: Final = "TrainingRuntime"
CLUSTER_TRAINING_RUNTIME: Final = "ClusterTrainingRuntime"
RUNTIME_KINDS: Final = (CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME)
JOB_SET: Final = "JobSet"
POD_GROUP: Final = "PodGroup"
GANG_GROUPS: Final = {"coscheduling": "scheduling.x-k8s.io", "volcano": "scheduling.volcano.sh"}
"""API groups of the PodGroups, by the policy of a runtime that asks for one."""

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

FLUX_SCRIPTS: Final = "-flux-entrypoint"
"""Behind the TrainJob's name: the ConfigMap of Flux's scripts, and the volume that holds it."""

TRAINER_PORT: Final = 29500
COMPLETION_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
KUEUE_MANAGER: Final = "kueue.x-k8s.io/manager"

TOTALS_ANNOTATION: Final = "stationmaster.dev/podgroup-totals"
APPLIED_ANNOTATION: Final = "stationmaster.dev/applied"
POLICIES_ANNOTATION: Final = "stationmaster.dev/policies"
OUR_ANNOTATIONS: Final = (TOTALS_ANNOTATION, APPLIED_ANNOTATION, POLICIES_ANNOTATION)
OUR_MANAGERS: Final = ("stationmaster.dev/defaults", "stationmaster.dev/overrides")

POLICY_GROUP: Final = "stationmaster.dev"
POLICY: Final = "TrainJobPolicy"
NAMESPACED_POLICY: Final = "NamespacedTrainJobPolicy"
EXCEPTION: Final = "PolicyException"
POLICY_DOCUMENTS: Final = (POLICY, NAMESPACED_POLICY, EXCEPTION)
POLICY_TEST: Final = "PolicyTest"
"""Of files alone: no cluster knows it."""
CONFIG_MAP: Final = "ConfigMap"
PARAMS_LABEL: Final = "stationmaster.dev/params"
"""ConfigMaps with this label, whatever its value, may be a policy's params; no other is ever read."""
