"""Who refuses later what only we refuse: JobSet and the API server, asked about what the controller would build.

A generated case is wrong in more ways than one, so a refusal alone proves nothing. The case is asked about as it
is and with the offence mended; what is said of the first and not of the second is what the offence brings.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tests.conformance import compare, ledger
from tests.conformance.build import build_later
from tests.conformance.oracle import LONGEST_SECONDS, OracleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tests.conformance.oracle import Oracle

Json = dict[str, Any]
Mend: TypeAlias = "Callable[[Json, Json], None]"
Reason: TypeAlias = "Callable[[Json], bool]"

STAGES: Final[Mapping[str, str]] = {
    "webhook": "the Trainer's webhook",
    "controller": "the Trainer's controller",
    "jobSetSchema": "JobSet's schema",
    "jobSet": "JobSet's webhook",
    "jobs": "the API server (Job)",
    "pods": "the API server (Pod)",
    "configMaps": "the API server (ConfigMap)",
}
"""Who is asked, in the order in which objects meet them."""
ASKED: Final = 50
"""Cases of a row that are asked about."""
OVERRIDES: Final = ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
BUILT_BY_NOBODY: Final = frozenset({"S14-controller-fails", "S22-runtimes-for-the-controller"})
CHANGES: Final = "S19-jobset-refuses-the-change"
LEFT_BY_RECONCILES: Final = frozenset({"JobSet", "PodGroup"})
"""What a reconcile may find from the one before, and then not build again."""


class Later:
    """The Go program ``oracle/later``; building it, if it must, happens on first use."""

    def run(self, cases: Sequence[Json]) -> list[Json]:
        """Return one answer per case, in order."""
        if not cases:
            return []
        built = build_later()
        text = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
        done = subprocess.run(
            [str(built.binary), "-crd", str(built.crd)],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
        if done.returncode != 0:
            raise OracleError(f"later: exit status {done.returncode}\n{done.stderr[-4000:]}")
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for case, answer in zip(cases, answers, strict=True):
            if "error" in answer:
                raise OracleError(f"later, case {case.get('id')!r}: {answer['error']}")
        return answers


@dataclass(slots=True, kw_only=True)
class Proof:
    """What became of the cases of one row that were asked about."""

    by: Counter[str] = field(default_factory=Counter)
    """The first to refuse what the offence brings -> cases."""
    anyway: int = 0
    """Cases that are refused for such a reason, and would be without the offence: the runtime has it too."""
    idle: int = 0
    """Cases in which the offence changes nothing that is built, so that there is nothing to refuse."""
    undone: int = 0
    """Cases in which it is built and nobody says so, for the reason that the row has in ``UNDONE``."""
    unbuilt: int = 0
    """Cases of which the controller builds nothing, because of something else."""
    passed: list[str] = field(default_factory=list)
    """Cases in which nobody refuses what we refuse, and no rule says why."""

    @property
    def asked(self) -> int:
        """All of them."""
        reasoned = self.anyway + self.idle + self.undone + self.unbuilt
        return self.by.total() + reasoned + len(self.passed)

    def __str__(self) -> str:
        """Print on one line."""
        who = [f"{name} {count}" for name, count in self.by.most_common()]
        who += [f"as without it {self.anyway}"] * bool(self.anyway)
        text = f"asked {self.asked}, later refused {self.by.total() + self.anyway}"
        text += f" ({', '.join(who)})" * bool(who)
        if self.idle:
            text += f", without effect {self.idle}"
        if self.undone:
            text += f", undone {self.undone}"
        if self.unbuilt:
            text += f", not built {self.unbuilt}"
        if self.passed:
            text += f", NOT refused {len(self.passed)}: {', '.join(self.passed[:3])}"
        return text


@dataclass(slots=True)
class Samples:
    """Cases that only we refuse, by the row that explains it; no more than it takes."""

    kept: dict[str, list[tuple[Json, Json]]] = field(default_factory=dict)

    def add(self, rows: AbstractSet[str], case: Json, answer: Json) -> None:
        """Keep a case for those of its rows that can be proven by it."""
        for row in rows & PROOFS.keys():
            some = self.kept.setdefault(row, [])
            if len(some) < ASKED and is_askable(row, case, answer):
                some.append((case, answer))


def is_askable(row: str, case: Json, answer: Json) -> bool:
    """Whether there are objects to ask about: built by a runtime that exists and is not an older snapshot."""
    if not answer.get("runtime") or compare.has_snapshot(case):
        return False
    return row in BUILT_BY_NOBODY or not (answer.get("buildError") or answer.get("buildPanic"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What was built for a case, and what each stage says of it."""

    objects: Json
    said: Json


def prove(
    oracle: Oracle, later: Later, samples: Mapping[str, Sequence[tuple[Json, Json]]]
) -> dict[str, Proof]:
    """For each row that names somebody: do they refuse its cases, and for the reason that the row gives?"""
    asked = [(row, case, answer) for row, some in samples.items() for case, answer in some]
    created = [_created(*one) for one in asked]
    found = _ask(oracle, later, created)
    changed = [one for one in asked if one[0] in MENDS]
    mended = iter(_ask(oracle, later, [_mended(*one) for one in changed]))
    proofs: dict[str, Proof] = {}
    for (row, case, _), before in zip(asked, found, strict=True):
        proof = proofs.setdefault(row, Proof())
        after = next(mended) if row in MENDS else None
        if who := _who(row, before.said, after.said if after else {}):
            proof.by[who] += 1
        elif _who(row, before.said, {}):
            proof.anyway += 1
        elif "controller" in before.said:
            proof.unbuilt += 1
        elif after and not any(compare.differences(before.objects, after.objects)):
            proof.idle += 1
        elif row in UNDONE and UNDONE[row](before.objects):
            proof.undone += 1
        else:
            proof.passed.append(case["id"])
    return proofs


def _who(row: str, before: Json, after: Json) -> str:
    """The first who says what the row expects more often of the case than of the mended one."""
    for stage, name in STAGES.items():
        if _matches(row, stage, before) - _matches(row, stage, after):
            return name
    return ""


def _matches(row: str, stage: str, said: Json) -> Counter[str]:
    """What is said that fits the row. Places in lists do not count: mending moves what stands behind."""
    out: Counter[str] = Counter()
    for finding in said.get(stage, ()):
        text = f"{finding['field']}: {finding['detail']}"
        if any(re.search(proof, text) for proof in PROOFS[row]):
            out[re.sub(r"\[\d+\]", "[]", f"{finding.get('object')} {text}")] += 1
    return out


def _ask(oracle: Oracle, later: Later, cases: Sequence[tuple[Json, Json | None]]) -> list[_Told]:
    """What comes of each case, if need be after what came of the one before it."""
    flat = [case for pair in cases for case in pair if case is not None]
    answers = iter(oracle.run(flat))
    questions: list[Json] = []
    failed: list[Json] = []
    for case, old in cases:
        answer = next(answers)
        before = next(answers) if old is not None else {}
        failed.append(_failed(answer))
        questions.append(
            {
                "id": case["id"],
                "objects": answer.get("objects") or [],
                "old": before.get("objects") or [],
                "cluster": case["objects"],
            }
        )
    return [
        _Told(objects=compare.keyed(question["objects"]), said=said | error)
        for question, said, error in zip(questions, later.run(questions), failed, strict=True)
    ]


def _failed(answer: Json) -> Json:
    """What the Trainer itself says of the case."""
    error = answer.get("buildError") or answer.get("buildPanic")
    found = list(answer.get("webhookErrors") or ())
    return ({"webhook": found} if found else {}) | (
        {"controller": [{"field": "", "detail": error}]} if error else {}
    )


def _created(row: str, case: Json, answer: Json) -> tuple[Json, Json | None]:
    """The TrainJob as stored, built as if for the first time; on an update also what was there before.

    For a runtime alone, a TrainJob that asks for nothing special.
    """
    objects = [o for o in case.get("objects") or () if o.get("kind") not in LEFT_BY_RECONCILES]
    made = {
        "id": case["id"],
        "operation": "CREATE",
        "trainJob": answer.get("trainJob") or _plain(case["runtime"]),
        "runtime": case["runtime"],
        "objects": objects,
    }
    old = answer.get("oldObject") if row == CHANGES else None
    return made, None if old is None else made | {"trainJob": old}


def _plain(runtime: Json) -> Json:
    reference = {"name": runtime["metadata"]["name"], "kind": runtime["kind"]}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"runtimeRef": reference, "trainer": {"numNodes": 1}},
    }


def _mended(row: str, case: Json, answer: Json) -> tuple[Json, Json | None]:
    made, old = _created(row, case, answer)
    job = copy.deepcopy(made["trainJob"])
    MENDS[row](job, old["trainJob"] if old else {})
    return made | {"trainJob": job}, old


def _without_overrides(job: Json, old: Json) -> None:
    del old
    for key in OVERRIDES:
        job["spec"].pop(key, None)


def _with_old_spec(job: Json, old: Json) -> None:
    for key in (*OVERRIDES, "trainer", "initializer"):
        job["spec"].pop(key, None)
        if key in old["spec"]:
            job["spec"][key] = old["spec"][key]


def _with_one_node(job: Json, old: Json) -> None:
    del old
    job["spec"]["trainer"]["numNodes"] = 1


def _with_short_name(job: Json, old: Json) -> None:
    del old
    job["metadata"]["name"] = "a"


def _with_image(job: Json, old: Json) -> None:
    del old
    job["spec"].setdefault("trainer", {})["image"] = "x"


def _without_pieces(job: Json, old: Json) -> None:
    _without_overrides(job, old)
    job["spec"].get("trainer", {}).pop("env", None)
    for source in job["spec"].get("initializer", {}).values():
        source.pop("env", None)


def _without_resources(job: Json, old: Json) -> None:
    del old
    job["spec"]["trainer"].pop("resourcesPerNode", None)


MENDS: Final[Mapping[str, Mend]] = {
    "S1-names-in-overrides": _without_overrides,
    "S2-mount-of-nothing": _without_overrides,
    "S3-two-sources": _without_overrides,
    "S6-label-syntax": _without_overrides,
    "S9-negative-nodes": _with_one_node,
    "S10-derived-names": _with_short_name,
    "S11-container-resources": _without_resources,
    "S24-no-image": _with_image,
    "S25-pieces-of-pods": _without_pieces,
    "S17-too-many-pods": _with_one_node,
    CHANGES: _with_old_spec,
}
"""How the offence of a row is taken out of a TrainJob; the second argument is the old one, for updates.

A row without one is proven by what is said of its cases alone: it is said of nothing else.
"""


def _has_no_launcher(objects: Json) -> bool:
    """The controller looks at the implementation when it sets up the launcher."""
    return all(item["name"] != "launcher" for item in _jobs(objects))


def _jobs(objects: Json) -> list[Json]:
    job_sets = [obj for key, obj in objects.items() if key.startswith("JobSet/")]
    return [item for obj in job_sets for item in obj["spec"]["replicatedJobs"]]


def _has_volume_of_two_sources(objects: Json) -> bool:
    """The API server refuses the second source of a volume (row S3), and then does not look into it."""
    pods = [job["template"]["spec"]["template"]["spec"] for job in _jobs(objects)]
    return any(
        len(volume) > len(("name", "source")) for p in pods for volume in p.get("volumes") or ()
    )


UNDONE: Final[Mapping[str, Reason]] = {
    "S22-runtimes-for-the-controller": _has_no_launcher,
    "S25-pieces-of-pods": _has_volume_of_two_sources,
}
"""Why nobody refuses some of a row's cases, as docs/fidelity.md has it; of what is built."""

PROOFS: Final[Mapping[str, Sequence[str]]] = {
    row.id: [other.proof for other in ledger.ALL_ROWS if other.id == row.id]
    for row in ledger.ALL_ROWS
    if row.proof
}
"""Row -> what they say who refuse later."""
