"""What differs between the release lines of Kubeflow Trainer, as one frozen table.

No plugin compares versions: it asks the Line for the behaviour it needs. Facts: trainer-semantics 1.9, 1.10
and the corrections found by running each line's own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Generation = Literal["podSpecOverrides", "podTemplateOverrides", "runtimePatches"]
MergeUnit = Literal["PodSpec", "PodTemplateSpec", "JobTemplateSpec", "JobSetSpec"]

_DEPRECATION: Final = (
    "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
)
_DEPRECATION_BEFORE: Final = "https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/#runtime-deprecation-policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One release line of the Trainer and how its controller behaves."""

    name: str
    """``2.0`` to ``2.3``."""
    generation: Generation
    """The override field that the TrainJob API of this line has."""
    merge_unit: MergeUnit
    """The Go type that an override is merged into; 2.3 merges the whole JobSet and so can add jobs."""
    policies: tuple[str, ...]
    """The ML policies that the runtime API knows."""
    spec_metadata: bool
    """``spec.labels`` and ``spec.annotations`` exist."""
    deprecation_policy: str
    """Where the line's own warnings of deprecated runtimes point to; empty in a line that gives none."""
    deadline: bool
    """``spec.activeDeadlineSeconds`` exists."""
    proc_per_node_text: bool
    """``numProcPerNode`` may be a word (auto, cpu, gpu) and torch runtimes have one of their own."""
    merges_resources: bool
    """``resourcesPerNode`` is merged per resource name into the template; before, it replaced the whole."""
    needs_ml_policy_for_resources: bool
    """``resourcesPerNode`` is ignored where the runtime has no ``mlPolicy``."""
    launcher_node_resources: bool
    """With runLauncherAsNode the job ``node`` gets ``resourcesPerNode`` too."""
    launcher_node_env: bool
    """With runLauncherAsNode the job ``node`` gets ``trainer.env`` too."""
    counts_merged_requests: bool
    """PodGroup totals see ``resourcesPerNode``."""
    volcano: bool
    """The Volcano plugin exists."""
    labels_for_any_gang: bool
    """Pods get the PodGroup's label for any ``podGroupPolicy``, even an empty one without a PodGroup."""
    endpoints_per_replica: bool
    """Endpoints are listed for every replica, not only the first."""
    syncs_init_containers: bool
    """Init containers are copied back into the JobSet after the plugins, so their ports fold too."""
    mount_modes: bool
    """MPI's SSH volume has explicit file modes."""
    gpu_slots: bool
    """MPI slots follow the GPU count where the runtime says 1."""
    initializer_mount_check: bool
    """The Trainer refuses an initializer whose container has no mount called ``initializer``."""
    immutable_trainer: bool
    """``trainer`` and ``initializer`` are immutable by CEL."""
    snapshot: bool
    """The controller keeps a copy of the runtime in a ConfigMap."""
    honours_managed_by: bool
    """The controller leaves alone what ``managedBy`` gives to another."""
    holds_used_runtimes: bool
    """A finalizer keeps a runtime until no TrainJob names it."""
    suspended_before_or_after: bool
    """Overrides may change if the job is suspended before *or* after; else only after."""
    unique_targets: bool
    """A job may be named once in the whole list of overrides."""
    leaves_managed_jobs: bool
    """The controller leaves alone what ``managedBy`` gives to another; before, it ran such jobs too (G42)."""
    single_launcher: bool
    """The Trainer wants ``replicas`` of 1 of a runtime's job called ``launcher``."""

    @property
    def has_managers(self) -> bool:
        """Overrides are entries with an owner."""
        return self.generation == "runtimePatches"


_V23: Final = Line(
    name="2.3",
    generation="runtimePatches",
    merge_unit="JobSetSpec",
    policies=("torch", "mpi", "jax", "xgboost", "flux"),
    spec_metadata=False,
    deprecation_policy=_DEPRECATION,
    deadline=True,
    proc_per_node_text=False,
    merges_resources=True,
    needs_ml_policy_for_resources=True,
    launcher_node_resources=True,
    launcher_node_env=True,
    counts_merged_requests=True,
    volcano=True,
    labels_for_any_gang=False,
    endpoints_per_replica=True,
    syncs_init_containers=True,
    mount_modes=True,
    gpu_slots=True,
    initializer_mount_check=True,
    immutable_trainer=True,
    snapshot=True,
    honours_managed_by=True,
    holds_used_runtimes=False,
    suspended_before_or_after=True,
    unique_targets=False,
    leaves_managed_jobs=True,
    single_launcher=False,
)

_V22: Final = Line(
    name="2.2",
    generation="runtimePatches",
    merge_unit="JobTemplateSpec",
    policies=("torch", "mpi", "jax", "xgboost", "flux"),
    spec_metadata=False,
    deprecation_policy=_DEPRECATION_BEFORE,
    deadline=True,
    proc_per_node_text=False,
    merges_resources=False,
    needs_ml_policy_for_resources=False,
    launcher_node_resources=True,
    launcher_node_env=True,
    counts_merged_requests=True,
    volcano=True,
    labels_for_any_gang=False,
    endpoints_per_replica=False,
    syncs_init_containers=False,
    mount_modes=False,
    gpu_slots=True,
    initializer_mount_check=False,
    immutable_trainer=True,
    snapshot=False,
    honours_managed_by=False,
    holds_used_runtimes=True,
    suspended_before_or_after=True,
    unique_targets=False,
    leaves_managed_jobs=False,
    single_launcher=False,
)

_V21: Final = Line(
    name="2.1",
    generation="podTemplateOverrides",
    merge_unit="PodTemplateSpec",
    policies=("torch", "mpi"),
    spec_metadata=True,
    deprecation_policy=_DEPRECATION_BEFORE,
    deadline=False,
    proc_per_node_text=True,
    merges_resources=False,
    needs_ml_policy_for_resources=False,
    launcher_node_resources=True,
    launcher_node_env=True,
    counts_merged_requests=False,
    volcano=True,
    labels_for_any_gang=False,
    endpoints_per_replica=False,
    syncs_init_containers=False,
    mount_modes=False,
    gpu_slots=True,
    initializer_mount_check=False,
    immutable_trainer=False,
    snapshot=False,
    honours_managed_by=False,
    holds_used_runtimes=True,
    suspended_before_or_after=False,
    unique_targets=False,
    leaves_managed_jobs=False,
    single_launcher=False,
)

_V20: Final = Line(
    name="2.0",
    generation="podSpecOverrides",
    merge_unit="PodSpec",
    policies=("torch", "mpi"),
    spec_metadata=True,
    deprecation_policy="",
    deadline=False,
    proc_per_node_text=True,
    merges_resources=False,
    needs_ml_policy_for_resources=False,
    launcher_node_resources=False,
    launcher_node_env=False,
    counts_merged_requests=False,
    volcano=False,
    labels_for_any_gang=True,
    endpoints_per_replica=False,
    syncs_init_containers=False,
    mount_modes=False,
    gpu_slots=False,
    initializer_mount_check=False,
    immutable_trainer=False,
    snapshot=False,
    honours_managed_by=False,
    holds_used_runtimes=True,
    suspended_before_or_after=False,
    unique_targets=True,
    leaves_managed_jobs=False,
    single_launcher=True,
)

LINES: Final[dict[str, Line]] = {line.name: line for line in (_V20, _V21, _V22, _V23)}
NEWEST: Final = _V23


def named(name: str | None) -> Line | None:
    """The line of that name; None for None, which leaves it to the CRD or to the job."""
    return LINES[name] if name else None


def of_job(spec: object) -> Line:
    """The line that a TrainJob's own override field belongs to; the newest where it shows none."""
    if isinstance(spec, dict):
        if spec.get("podSpecOverrides"):
            return _V20
        if spec.get("podTemplateOverrides"):
            return _V21
    return NEWEST


def of_crd(crd: object) -> Line | None:
    """The line that a TrainJob CustomResourceDefinition belongs to, or None if it is none of ours."""
    spec = crd.get("spec") if isinstance(crd, dict) else None
    versions = spec.get("versions") if isinstance(spec, dict) else None
    if not isinstance(versions, list) or not versions or not isinstance(versions[0], dict):
        return None
    node: object = versions[0]
    for step in ("schema", "openAPIV3Schema", "properties", "spec", "properties"):
        node = node.get(step) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return None
    if "podSpecOverrides" in node:
        return _V20
    if "podTemplateOverrides" in node:
        return _V21
    if "runtimePatches" not in node:
        return None
    return _V23 if "terminationGracePeriodSeconds" in str(node["runtimePatches"]) else _V22
