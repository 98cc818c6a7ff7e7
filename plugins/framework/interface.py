"""Every extension point, in the order in which a TrainJob meets them.

A plugin is a plain class that names its points on its class line::

    class QueueName(DefaultTrainJobPlugin, CustomValidationPlugin): ...

Every point takes the Context first. A plugin never awaits and does no I/O. What is wrong with the TrainJob is
returned as Findings; whatever it raises is a fault of the plugin, but for BuildError, which says that the
controller itself would fail.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.field import Findings
    from plugins.framework.info import Info
    from plugins.framework.runtime import CompiledRuntime

T = TypeVar("T")

Asking: TypeAlias = "Generator[Sequence[Any], Sequence[Any], T]"
"""What a method returns that depends on the killable workers: it yields questions and is sent their answers.

Any point of the mutating and the validating call may; the Pipeline has them answered by ``ctx.evaluate``.
"""


@runtime_checkable
class Plugin(Protocol):
    """What all plugins have: the name under which the profile, metrics and messages know them."""

    name: ClassVar[str]


@runtime_checkable
class WatchExtensionPlugin(Plugin, Protocol):
    """Start-up: say which kinds must be cached for this plugin."""

    @abstractmethod
    def watches(self) -> Sequence[str]:
        """``Kind.group`` of each kind, such as ``LimitRange.`` or ``RuntimeClass.node.k8s.io``."""


@runtime_checkable
class DefaultTrainJobPlugin(Plugin, Protocol):
    """Mutate on CREATE: fill what the TrainJob leaves unset."""

    @abstractmethod
    def default_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Write defaults to the draft; ``draft.info`` is the job resolved as the draft is now."""


@runtime_checkable
class OverrideTrainJobPlugin(Plugin, Protocol):
    """Mutate on CREATE, after all defaults: force values."""

    @abstractmethod
    def override_train_job(self, ctx: Context, draft: Draft) -> Asking[None] | None:
        """Write values to the draft, whatever is there."""


@runtime_checkable
class ReconcileUpdatePlugin(Plugin, Protocol):
    """Mutate on UPDATE: give back the old form where only the form differs."""

    @abstractmethod
    def reconcile_update(self, ctx: Context, draft: Draft, old: TrainJob) -> Asking[None] | None:
        """Put back what the stored object has, where the difference means nothing."""


@runtime_checkable
class EnforceMLPolicyPlugin(Plugin, Protocol):
    """Translate the ML policy and ``spec.trainer`` into counts, env, ports and volumes of pods."""

    @abstractmethod
    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Set counts now; leave edits of pods by ``info.later``."""


@runtime_checkable
class EnforcePodGroupPolicyPlugin(Plugin, Protocol):
    """After all ML policies: tie pods to a PodGroup."""

    @abstractmethod
    def enforce_pod_group_policy(self, ctx: Context, info: Info) -> None:
        """Add the label or annotation that the scheduler looks for."""


@runtime_checkable
class PreBuildSyncPlugin(Plugin, Protocol):
    """After the policies: what the controller does to all pods before it builds."""

    @abstractmethod
    def pre_build_sync(self, ctx: Context, info: Info) -> None:
        """Leave the last edits of pods."""


@runtime_checkable
class RecordResolutionPlugin(Plugin, Protocol):
    """Mutate, at the end: write what was resolved back to the TrainJob."""

    @abstractmethod
    def record_resolution(self, ctx: Context, draft: Draft) -> None:
        """Write annotations; nothing that changes what is built."""


@runtime_checkable
class CustomValidationPlugin(Plugin, Protocol):
    """Judge the resolved TrainJob."""

    @abstractmethod
    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """Return all that is wrong, with exact paths.

        ``info`` is None where the runtime does not exist; ``old`` is None on CREATE.
        """


@runtime_checkable
class JudgeMetadataPlugin(Plugin, Protocol):
    """Validate an UPDATE of metadata or ``suspend`` alone, which no other point may refuse."""

    @abstractmethod
    def validate_metadata(
        self, ctx: Context, info: Info | None, old: TrainJob, new: TrainJob
    ) -> Findings | Asking[Findings]:
        """Return what is wrong with the very labels and annotations that differ.

        Finalizers, owners and ``suspend`` are nobody's to judge.
        """


@runtime_checkable
class ValidateRuntimePlugin(Plugin, Protocol):
    """Judge a TrainingRuntime or ClusterTrainingRuntime."""

    @abstractmethod
    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """Return all that is wrong with the runtime itself."""


@runtime_checkable
class CorrectPodGroupPlugin(Plugin, Protocol):
    """Mutate of a PodGroup that the controller has made for a TrainJob."""

    @abstractmethod
    def correct_pod_group(self, ctx: Context, info: Info, draft: Draft) -> Findings:
        """Write to the draft, which is of the PodGroup; ``info`` is its TrainJob resolved.

        A PodGroup is never refused: errors among the findings are said as warnings.
        """


@runtime_checkable
class WarnTrainJobPlugin(Plugin, Protocol):
    """Mutate and validate: say what will happen to a TrainJob elsewhere. Text alone, so it can refuse nothing."""

    @abstractmethod
    def warn_train_job(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Sequence[str]:
        """Return warnings; called for every update that is judged at all, also one of ``suspend`` or labels.

        ``info`` is None where the runtime does not exist; ``old`` is None on CREATE.
        """


@runtime_checkable
class ComponentBuilderPlugin(Plugin, Protocol):
    """Render: build the objects that the controller would apply, in its order."""

    @abstractmethod
    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """Return whole objects as JSON values."""


@runtime_checkable
class WarnDeletionPlugin(Plugin, Protocol):
    """Validate on DELETE of a TrainJob or a runtime. Text alone: a deletion always passes."""

    @abstractmethod
    def warn_deletion(self, ctx: Context, old: dict[str, Any]) -> Sequence[str]:
        """Return warnings; ``old`` is the object as it is stored, ``ctx.request`` says of what kind."""


EXTENSION_POINTS: tuple[tuple[str, Any, str], ...] = (
    ("watchExtension", WatchExtensionPlugin, "watches"),
    ("defaultTrainJob", DefaultTrainJobPlugin, "default_train_job"),
    ("overrideTrainJob", OverrideTrainJobPlugin, "override_train_job"),
    ("reconcileUpdate", ReconcileUpdatePlugin, "reconcile_update"),
    ("enforceMLPolicy", EnforceMLPolicyPlugin, "enforce_ml_policy"),
    ("enforcePodGroupPolicy", EnforcePodGroupPolicyPlugin, "enforce_pod_group_policy"),
    ("preBuildSync", PreBuildSyncPlugin, "pre_build_sync"),
    ("recordResolution", RecordResolutionPlugin, "record_resolution"),
    ("customValidation", CustomValidationPlugin, "validate"),
    ("judgeMetadata", JudgeMetadataPlugin, "validate_metadata"),
    ("validateRuntime", ValidateRuntimePlugin, "validate_runtime"),
    ("correctPodGroup", CorrectPodGroupPlugin, "correct_pod_group"),
    ("warnTrainJob", WarnTrainJobPlugin, "warn_train_job"),
    ("componentBuilder", ComponentBuilderPlugin, "build"),
    ("warnDeletion", WarnDeletionPlugin, "warn_deletion"),
)
"""Name in a profile, Protocol (no type can say "a protocol class"), method: in the order of a TrainJob's way."""
