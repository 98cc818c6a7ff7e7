"""What options write, as far as it is known without a job: for conflicts that are there whatever the job, and for lint.

``Option.plan`` says it for one job; here a place is what a document names, and a value that an expression gives is
``COMPUTED``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework.field import Path
from policies.document import Expression, Policy
from policies.options import initializer, job, metadata, pods, trainer
from policies.options.shapes import expressions_in
from policies.writes import Level, Mode, Rule, Step, shown

if TYPE_CHECKING:
    from policies.options import Option
    from policies.options.shapes import Leaf

COMPUTED: Final = object()
"""A value that depends on the job."""

METADATA: Final = (
    metadata.Labels,
    metadata.Annotations,
    metadata.SpecLabels,
    metadata.SpecAnnotations,
)
TRAINER_FIELDS: Final = (
    trainer.TrainerImage,
    trainer.TrainerCommand,
    trainer.TrainerArgs,
    trainer.TrainerEnv,
    trainer.ResourcesPerNode,
)

Target = tuple[str, str]
"""Jobs by their name, or by their ancestor; both empty: all jobs."""

EVERY_JOB: Final[Target] = ("", "")


class Claim(NamedTuple):
    """One place that an option writes to."""

    mode: Mode
    target: Target | None
    """None: the TrainJob itself, or its JobSet."""
    level: Level
    steps: tuple[Step, ...]
    value: Any
    """COMPUTED where an expression gives it."""
    rule: Rule
    path: Path
    """Where it stands in the policy."""

    @property
    def where(self) -> tuple[Mode, Level, tuple[Step, ...]]:
        """What claims of one place have in common."""
        return self.mode, self.level, self.steps

    def __str__(self) -> str:
        """Print the place as messages show it."""
        text = shown(self.steps)
        if self.level == "JobSet":
            return f"{text} of the JobSet"
        if self.target is None:
            return text
        name, ancestor = self.target
        whose = f"job {name}" if name else f"ancestor {ancestor}" if ancestor else "all jobs"
        return f"{text} of {'the Job of' if self.level else 'the pods of'} {whose}"

    def meets(self, other: Claim) -> bool:
        """Whether two claims are about one place; jobs by name and by ancestor may be the same, which nobody can tell."""
        if self.where != other.where or (self.target is None) != (other.target is None):
            return False
        return self.target == other.target or EVERY_JOB in {self.target, other.target}


def claims_of(policy: Policy) -> Iterator[Claim]:
    """All claims of a policy, in the order of its document."""
    for option in policy.defaults:
        yield from _claims("defaults", option)
    for option in policy.overrides:
        yield from _claims("overrides", option)


def _claims(mode: Mode, option: Option) -> Iterator[Claim]:
    match option:
        case pods.PodTemplateOverrides() | pods.RuntimePatches():
            for part in option.parts:
                yield from _part(mode, part)
        case initializer.Initializer():
            for leaves in option.leaves.values():
                yield from _leaves(mode, None, "", leaves)
        case _:
            yield from _fields(mode, option)


def _fields(mode: Mode, option: Option) -> Iterator[Claim]:
    """Options about single fields of the TrainJob. Naming writes nothing."""
    at = Path("spec", mode, *option.key.split("."))
    match option:
        case trainer.NumNodes():
            yield from _numbers(mode, option.num_nodes, (*trainer.TRAINER, "numNodes"), at)
        case trainer.NumProcPerNode():
            wish = option.num_proc_per_node
            pairs = (("set", wish),) if isinstance(wish, str) else wish
            yield from _numbers(mode, pairs, (*trainer.TRAINER, "numProcPerNode"), at)
        case job.ActiveDeadlineSeconds():
            yield from _numbers(mode, option.seconds, job.DEADLINE, at)
        case job.Suspend() | job.ManagedBy():
            yield Claim(mode, None, "", ("spec", option.key), _known(option.value), "set", at)
        case _ if isinstance(option, METADATA):
            yield from _entries(mode, option, at)
        case _ if isinstance(option, TRAINER_FIELDS):
            yield from _leaves(mode, None, "", option.leaves)
        case _:
            pass


def _entries(
    mode: Mode,
    option: metadata.Labels | metadata.Annotations | metadata.SpecLabels | metadata.SpecAnnotations,
    at: Path,
) -> Iterator[Claim]:
    level: Level = "JobSet" if option.of_jobset else ""
    for key, value in option.entries:
        steps = ("metadata", option.kind, key)
        yield Claim(mode, None, level, steps, _known(value), "set", at.key(key))


def _known(value: Any) -> Any:
    return COMPUTED if any(True for _ in expressions_in(value)) else value


def _numbers(mode: Mode, wish: Any, steps: tuple[str, ...], at: Path) -> Iterator[Claim]:
    for rule, value in wish:
        where = at if rule == "set" else at.child(rule)
        known = COMPUTED if isinstance(value, Expression) else value
        yield Claim(mode, None, "", steps, known, rule, where)


def _leaves(
    mode: Mode, target: Target | None, level: Level, leaves: tuple[Leaf, ...]
) -> Iterator[Claim]:
    for leaf in leaves:
        rule: Rule = "union" if leaf.is_joined else "set"
        yield Claim(mode, target, level, leaf.steps, _known(leaf.value), rule, leaf.path)


def _part(mode: Mode, part: Any) -> Iterator[Claim]:
    if part.level == "JobSet":
        yield from _leaves(mode, None, "JobSet", part.leaves)
        return
    targets: list[Target] = [(one.name, one.ancestor) for one in part.targets] or [EVERY_JOB]
    for target in targets:
        yield from _leaves(mode, target, part.level, part.leaves)
