"""Each option of the SDK that imports this, once: applied by it on the client, and by us in a worker."""

# Read by environments that the type checkers do not look into.
# mypy: disable-error-code="import-not-found, attr-defined, unused-ignore"
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeflow.trainer import options as sdk

LABELS = {"team": "nlp", "example.com/cost": "a1"}
ANNOTATIONS = {"example.com/contact": "ml platform"}
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
VOLUMES = [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]
MOUNTS = [{"name": "scratch", "mountPath": "/scratch"}]
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
            ]
        }
    }
}


def custom(job_spec: dict[str, Any], trainer: Any, backend: Any) -> None:
    """An option of the user's own: it writes where any SDK reads, and labels by the trainer that it is given."""
    del backend
    labels = job_spec.setdefault("metadata", {}).setdefault("labels", {})
    labels["trainer"] = type(trainer).__name__
    job_spec.setdefault("spec", {}).setdefault("trainer", {})["args"] = ["--custom"]


def _pod(spec: Any, container: Any) -> Any:
    return spec(
        service_account_name="trainer",
        node_selector={"pool": "a"},
        affinity=AFFINITY,
        tolerations=TOLERATIONS,
        volumes=VOLUMES,
        containers=[container(name="node", volume_mounts=MOUNTS)],
        scheduling_gates=[{"name": "example.com/quota"}],
        image_pull_secrets=[{"name": "registry"}],
    )


def _overrides() -> Any:
    pod = _pod(sdk.PodSpecOverride, sdk.ContainerOverride)
    metadata = {"labels": {"of": "pod"}, "annotations": {"example.com/of": "pod"}}
    first = sdk.PodTemplateOverride(target_jobs=["node"], metadata=metadata, spec=pod)
    later = sdk.PodSpecOverride(node_selector={"pool": "b", "more": "c"})
    return sdk.PodTemplateOverrides(
        first, sdk.PodTemplateOverride(target_jobs=["node"], spec=later)
    )


def _patch() -> Any:
    pod = _pod(sdk.PodSpecPatch, sdk.ContainerPatch)
    pod.security_context = {"runAsUser": 1000, "fsGroup": 7}
    pod.containers[0].security_context = {"runAsNonRoot": True}
    template = sdk.PodTemplatePatch(metadata={"labels": {"of": "pod"}}, spec=pod)
    job = sdk.ReplicatedJobPatch(
        name="node",
        template=sdk.JobTemplatePatch(
            metadata={"labels": {"of": "job"}}, spec=sdk.JobSpecPatch(template=template)
        ),
    )
    jobset = sdk.JobSetTemplatePatch(
        metadata={"labels": {"of": "jobset"}, "annotations": {"example.com/of": "jobset"}},
        spec=sdk.JobSetSpecPatch(replicated_jobs=[job]),
    )
    return sdk.RuntimePatch(sdk.TrainingRuntimeSpecPatch(template=jobset))


_ALL: dict[str, tuple[str, Callable[[], Any]]] = {
    "labels": ("Labels", lambda: sdk.Labels(dict(LABELS))),
    "annotations": ("Annotations", lambda: sdk.Annotations(dict(ANNOTATIONS))),
    "spec-labels": ("SpecLabels", lambda: sdk.SpecLabels(dict(LABELS))),
    "spec-annotations": ("SpecAnnotations", lambda: sdk.SpecAnnotations(dict(ANNOTATIONS))),
    "overrides": ("PodTemplateOverrides", _overrides),
    "patch": ("RuntimePatch", _patch),
    "command": ("TrainerCommand", lambda: sdk.TrainerCommand(["python", "train.py"])),
    "args": ("TrainerArgs", lambda: sdk.TrainerArgs(["--epochs", "3"])),
    "deadline": ("ActiveDeadlineSeconds", lambda: sdk.ActiveDeadlineSeconds(7200)),
    "custom": ("Name", lambda: custom),
}

OPTIONS: dict[str, Callable[[], Any]] = {
    case: make for case, (name, make) in _ALL.items() if hasattr(sdk, name)
}
"""Those that this SDK has, by the name of the case."""
