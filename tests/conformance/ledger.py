"""Where we differ from the Trainer on purpose: the rows of docs/fidelity.md, as the comparison knows them.

A row says what it covers as narrowly as it can; whatever no row covers is unexplained, and fails the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from tests.conformance.compare import Difference

Case = Mapping[str, Any]

_TO_2_1: Final = ("2.0", "2.1")
_FROM_2_1: Final = ("2.1", "2.2", "2.3")
_FROM_2_2: Final = ("2.2", "2.3")

_MOST_PRINTED: Final = 10**30
"""Nanos of 10^21, above which Go's quantities lose their suffix (resource-totals 1.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """A difference in built objects that is intended."""

    id: str
    covers: Callable[[Case, Difference], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StricterRow:
    """A refusal of ours that the Trainer's webhook does not make.

    ``later`` names who refuses the object afterwards, where nobody sees it; empty where it is our choice.
    """

    id: str
    path: str
    """A regular expression for the whole path."""
    detail: str
    """A regular expression for the beginning of the detail, or of the message where there is no detail."""
    value: str = ""
    """A regular expression for the whole value, where not any value will do."""
    later: str = ""
    proof: str = ""
    """A regular expression for what they then say: ``field: detail``."""
    lines: tuple[str, ...] = ("2.0", "2.1", "2.2", "2.3")
    """Those on which it can come; on the others there is no such field, or the Trainer refuses it too."""


def _both_gangs(case: Case, difference: Difference) -> bool:
    policy = case["runtime"]["spec"].get("podGroupPolicy") or {}
    both = policy.get("coscheduling") is not None and policy.get("volcano") is not None
    return (
        both and difference.path.startswith("PodGroup.") and ".spec.minResources" in difference.path
    )


def _past_go_text(case: Case, difference: Difference) -> bool:
    del case
    ours = str(difference.ours)
    amount = ours.removesuffix("n").lstrip("-")
    in_amounts = re.search(r"\.(minResources|limits|requests)\.", difference.path)
    return bool(in_amounts) and amount.isdigit() and int(amount) >= _MOST_PRINTED


OBJECT_ROWS: Final = (
    ObjectRow(id="F1-two-gangs", covers=_both_gangs),
    ObjectRow(id="F2-past-the-last-suffix", covers=_past_go_text),
)


def object_row(case: Case, difference: Difference) -> str:
    """The row that explains a difference; empty where none does."""
    return next((row.id for row in OBJECT_ROWS if row.covers(case, difference)), "")


_PATCH: Final = r"spec\.(runtimePatches|podTemplateOverrides|podSpecOverrides)\[\d+\]"

_IN_PATCH: Final = rf"{_PATCH}(\..*)?"

STRICTER_ROWS: Final[tuple[StricterRow, ...]] = (
    StricterRow(
        id="S1-names-in-overrides",
        path=rf"{_PATCH}.*\.name",
        detail=r"(jobs of runtime|(init )?containers of job) ",
        later="JobSet's schema (containers: Required value) or the API server (image: Required value)",
        proof=r"\.(containers|image): Required value$",
    ),
    StricterRow(
        id="S2-mount-of-nothing",
        path=rf"{_PATCH}.*\.volumeMounts\[\d+\]\.name",
        detail=r"volumes of job ",
        later="the API server, on the Pod: volumeMounts[0].name: Not found",
        proof=r"\.volumeMounts\[\d+\]\.name: Not found: ",
    ),
    StricterRow(
        id="S3-two-sources",
        path=rf"{_PATCH}.*\.(volumes|env)\[\d+\]",
        detail=r".*(volume of this name|would have (both|two))",
        later="the API server, on the Pod: may not specify more than 1 volume type / more than one source",
        proof=r"(may not specify more than 1 volume type|`value` is not empty|more than one field specified)",
    ),
    StricterRow(
        id="S4-env-of-reserved-containers",
        path=rf"{_PATCH}.*\.(containers|initContainers)\[\d+\]\.env",
        detail=r"must not have envs for the",
    ),
    StricterRow(
        id="S5-only-labels-and-annotations",
        path=rf"{_PATCH}.*\.metadata\.[A-Za-z]+",
        detail=r"only labels and annotations may be patched",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S6-label-syntax",
        path=rf"{_PATCH}.*\.metadata\.(labels|annotations)(\[.*\])?",
        detail=r"(a valid label|name part|prefix part|must be no more than|may not be more than)",
        later="the API server, on the Job or the Pod",
        proof=r"metadata\.(labels|annotations): Invalid value",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S7-ancestor-in-patch",
        path=rf"{_PATCH}.*\.metadata\.labels\[trainer\.kubeflow\.org/trainjob-ancestor-step\]",
        detail=r"the ancestor decides",
        lines=_FROM_2_2,
    ),
    StricterRow(
        id="S8-merge-directives", path=_IN_PATCH, detail=r"merge directives are not allowed"
    ),
    StricterRow(
        id="S9-negative-nodes",
        path=r"spec\.trainer\.numNodes",
        detail=r"must be at least 1",
        value=r"-\d+",
        later="the API server, on the Job",
        proof=r"\.(parallelism|completions): .*must be greater than or equal to 0$",
    ),
    StricterRow(
        id="S23-at-least-one",
        path=r"spec\.trainer\.(numNodes|numProcPerNode)",
        detail=r"must be at (least 1|most 2147483647)",
    ),
    StricterRow(
        id="S10-derived-names",
        path=r"metadata\.name",
        detail=r"may not be more than -?\d+ bytes with this runtime",
        later="JobSet's webhook: JobSet name is too long; of Flux's volume the API server, on the Job",
        proof=(
            r"(JobSet name|VolumeClaimPolicies template name) is too long"
            r"|volumes\[\d+\]\.name: .*must be no more than 63 characters"
            r"|invalid label value .* for coordinator label"
        ),
    ),
    StricterRow(
        id="S11-container-resources",
        path=r"spec\.trainer\.resourcesPerNode(\.(limits|requests)\[.*\])?",
        detail=r"must .*\(after merging with the runtime's own resources",
        later="the API server, on the Pod: spec.containers[0].resources",
        proof=r"\.containers\[\d+\]\.resources\.",
    ),
    StricterRow(
        id="S12-totals-past-int64",
        path=r"spec\.trainer\.resourcesPerNode",
        detail=r".* is more than a 64-bit number holds",
    ),
    StricterRow(
        id="S13-unreadable-amount-in-runtime",
        path=r"spec\.runtimeRef\.name",
        detail=r"the runtime asks for an amount that cannot be read",
    ),
    StricterRow(
        id="S14-controller-fails",
        path=r"spec\.(runtimeRef|trainer\.numNodes)",
        detail=r"(the Flux plugin of the Trainer reads|the Trainer's controller fails on this job)",
        later="the Trainer's controller, in every reconcile",
        proof=r"^: .+",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S15-reserved-env",
        path=r"spec\.trainer\.env\[\d+\]\.name",
        detail=r"[A-Z_]+[A-Za-z_]* is (set by|reserved for) the ",
    ),
    StricterRow(
        id="S16-initializer-without-effect",
        path=r"spec\.initializer\.(dataset|model)",
        detail=r"has no effect: ",
    ),
    StricterRow(
        id="S17-too-many-pods",
        path=r"spec\.trainer\.numNodes",
        detail=r"(makes \d+ pods in job|the MPI hostfile would take)",
        later="JobSet's webhook (replicas x parallelism), or the API server (ConfigMap of more than 1 MiB)",
        proof=r"(product of replicas and parallelism|Too long)",
    ),
    StricterRow(
        id="S18-trainer-added-or-removed",
        path=r"spec\.(trainer|initializer)",
        detail=r"cannot be (added|removed) after creation",
        lines=_FROM_2_2,
    ),
    StricterRow(
        id="S20-torchtune-rules-always",
        path=r"spec\.(runtimeRef\.name|trainer\.(numNodes|numProcPerNode|resourcesPerNode))",
        detail=r"(must be 1 for|QLoRA is not supported|must be auto or 1|must have gpu resource|must have a supported pretrained)",
        lines=_TO_2_1,
    ),
    StricterRow(
        id="S21-priority-class-behind-a-system-class",
        path=r"spec\.runtimeRef\.name",
        detail=r"job .* of the runtime names PriorityClass",
        later="the API server, on the Pod: no PriorityClass with name ... was found",
        proof=r"no PriorityClass with name \S+ was found",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S19-jobset-refuses-the-change",
        path=_IN_PATCH.replace(r"\[\d+\]", r"(\[\d+\])?"),
        detail=r"changes .* which JobSet does not let change",
        later="JobSet's webhook: field is immutable",
        proof=r"replicatedJobs: Invalid value: .*field is immutable",
    ),
    StricterRow(
        id="S19-jobset-refuses-the-change",
        path=r"spec\.(trainer|initializer)",
        detail=r"changes .* which JobSet does not let change",
        later="JobSet's webhook: field is immutable",
        proof=r"replicatedJobs: Invalid value: .*field is immutable",
    ),
    StricterRow(
        id="S24-no-image",
        path=r"spec\.trainer\.image",
        detail=r"(runtime \S+ gives container node|an empty image replaces|must not have leading)",
        later="the API server, on the Job: image: Required value",
        proof=r"\.image: (Required value|.*must not have leading)",
    ),
    StricterRow(
        id="S25-pieces-of-pods",
        path=rf"{_PATCH}.*\.tolerations\[\d+\]\.(key|operator|value|effect)",
        detail=r"",
        later="the API server, on the Job",
        proof=r"\.tolerations\[\d+\]\.",
    ),
    StricterRow(
        id="S25-pieces-of-pods",
        path=r"spec\..*\.env\[\d+\]\.valueFrom",
        detail=r"must specify one of",
        later="the API server, on the Job",
        proof=r"\.valueFrom: .*must specify one of",
    ),
    StricterRow(
        id="S25-pieces-of-pods",
        path=r"spec\..*\.resourceFieldRef\.(divisor|resource)",
        detail=r"(only divisor's values|supported values: \"limits)",
        later="the API server, on the Job",
        proof=r"\.resourceFieldRef\.(divisor|resource): ",
    ),
    StricterRow(
        id="S26-coordinator-without-pod",
        path=r"spec\.trainer\.numNodes",
        detail=r"must be more than \d+: the runtime's coordinator",
        later="JobSet's webhook: coordinator pod index is invalid",
        proof=r"coordinator (job|pod) ",
    ),
)
"""Our refusals beyond the Trainer's webhook; each is a row of docs/fidelity.md and has a test."""


CONSEQUENCES: Final = (
    StricterRow(
        id="S1-names-in-overrides",
        path=r"spec\.initializer\.(dataset|model)",
        detail=r"must have (container with name|\S+ job when)",
    ),
)
"""What follows from a finding of the same row: the Trainer looks for names in jobs that have the patch's too."""


def stricter_rows(errors: Sequence[FieldError]) -> list[str]:
    """The row that explains each refusal beyond the Trainer's; empty where none does."""
    found = [_row_of(error, STRICTER_ROWS) for error in errors]
    return [
        row or _row_of(error, [r for r in CONSEQUENCES if r.id in found])
        for row, error in zip(found, errors, strict=True)
    ]


def _row_of(error: FieldError, rows: Iterable[StricterRow]) -> str:
    text = error.detail or error.body
    for row in rows:
        if (
            re.fullmatch(row.path, error.field)
            and re.match(row.detail, text)
            and re.fullmatch(row.value or ".*", str(error.value), re.DOTALL)
        ):
            return row.id
    return ""


_RUNTIME_JOB: Final = r"spec\.template\.spec\.replicatedJobs\[\d+\]"
_RUNTIME_SPEC: Final = r"spec\.template\.spec"
_BY_JOBSET: Final = "JobSet's webhook, on the JobSet of every TrainJob"
RUNTIME_ROWS: Final = (
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_SPEC}\.(successPolicy|failurePolicy)\b.*",
        detail=r"jobs of the template",
        later=_BY_JOBSET,
        proof=r"does not appear in \.spec\.ReplicatedJobs",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_SPEC}\.coordinator\b.*",
        detail=r"",
        later=_BY_JOBSET,
        proof=r"coordinator ",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_SPEC}\.volumeClaimPolicies\b.*",
        detail=r"",
        later=_BY_JOBSET,
        proof=r"(names must be unique|volume name conflicts|have a matching volumeMount|no such key: templates)",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_SPEC}\.network\b.*",
        detail=r"",
        later=_BY_JOBSET,
        proof=r"network\.subdomain: ",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_JOB}\.dependsOn\[\d+\]\.name",
        detail=r"(the first job|must be a job that stands earlier)",
        later=_BY_JOBSET,
        proof=r"(DependsOn can't be set|cannot depend on)",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_JOB}\.(name|groupName)",
        detail=r"must be (an RFC 1035 label|lower-case letters)",
        later="JobSet's webhook, or the API server, on the labels of the Job",
        proof=r"^(spec\.replicatedJobs\[\d+\]\.(name|groupName)|metadata\.labels): Invalid value",
    ),
    StricterRow(
        id="S22-runtimes-for-jobset",
        path=rf"{_RUNTIME_JOB}\..*ontainers\[\d+\]\.ports",
        detail=r"the Trainer would make two of this one",
        later=_BY_JOBSET,
        proof=r"\.ports\[\d+\]: Duplicate value",
    ),
    StricterRow(
        id="S22-runtimes-for-the-api-server",
        path=rf"{_RUNTIME_JOB}\..*ontainers\[\d+\]\.resources\b.*",
        detail=r"",
        later="the API server, on the Jobs of every TrainJob that does not mend it",
        proof=r"ontainers\[\d+\]\.resources\b",
    ),
    StricterRow(
        id="S22-runtimes-for-the-webhook",
        path=r"spec\.(mlPolicy\.torch\.envInjection\.targets\[\d+\].*|template\.metadata\.annotations\[.*\])",
        detail=r"",
        later="the Trainer's webhook, on every TrainJob",
        proof=r"(envInjection target|Volcano queue name)",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S22-runtimes-for-the-controller",
        path=r"spec\.mlPolicy\.mpi\.mpiImplementation",
        detail=r"",
        later="the Trainer's controller, in every reconcile",
        proof=r"^: MPI implementation",
        lines=_FROM_2_1,
    ),
    StricterRow(
        id="S22-runtimes",
        path=(
            r"spec\.(mlPolicy\.(numNodes|mpi\.runLauncherAsNode)"
            r"|podGroupPolicy(\.coscheduling\.scheduleTimeoutSeconds)?"
            r"|template\.spec\.replicatedJobs\[\d+\]\."
            r"(dependsOn\[\d+\]\.name|replicas|template\.spec\.template\.spec\.containers))"
        ),
        detail=r"",
    ),
)
"""Our refusals of runtimes: the Trainer checks two rules, on creation; the rest fails later, unseen."""
ALL_ROWS: Final = (*STRICTER_ROWS, *RUNTIME_ROWS)


def rows_of(line: str) -> frozenset[str]:
    """The refusals of ours that can come on a line."""
    return frozenset(row.id for row in ALL_ROWS if line in row.lines)


def runtime_rows(errors: Iterable[FieldError]) -> list[str]:
    """The row that explains each refusal of a runtime; empty where none does."""
    return [_row_of(error, RUNTIME_ROWS) for error in errors]
