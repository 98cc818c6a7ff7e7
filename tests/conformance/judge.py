"""One case judged: do the prediction, the verdict and the defaults agree with the Trainer's own code?"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from plugins.framework import schema
from plugins.framework.cluster import Snapshot
from plugins.framework.runtime import CompiledRuntime
from tests.conformance import compare, ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugins.framework.field import FieldError
    from plugins.framework.pipeline import Pipeline
    from tests.conformance.compare import Difference

Json = dict[str, Any]
Built = Literal["equal", "both fail", "intended", "unexplained", "not compared"]

DISTRIBUTED: Final = ("torch", "jax", "xgboost")
DEFAULTER_LINES: Final = ("2.2", "2.3")
"""Lines whose Trainer has a defaulter, for times and managers of patches."""


@dataclass(slots=True, kw_only=True)
class Judged:
    """What came of one case."""

    id: str
    built: Built
    differences: list[Difference] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    """Rows of the ledger that explain what differs."""
    verdict: list[str] = field(default_factory=list)
    """Disagreements about refusing that no row explains."""

    @property
    def unexplained(self) -> bool:
        """Whether anything is left that nobody intended."""
        return self.built == "unexplained" or bool(self.verdict)


def is_refused_by_schema(answer: Mapping[str, Any]) -> bool:
    """Whether the API server would store neither TrainJob nor runtime."""
    keys = ("trainJobSchemaErrors", "runtimeSchemaErrors", "mutationError")
    return any(answer.get(key) for key in keys)


def is_refused_by_webhook(answer: Mapping[str, Any]) -> bool:
    """Whether the Trainer's validating webhook refuses, or panics."""
    return bool(answer.get("webhookErrors") or answer.get("webhookPanic"))


def rows(pipe: Pipeline, line: str, case: Json, answer: Json) -> set[str]:
    """The rows of the ledger that a case of any operation brings up."""
    if case["operation"] == "VALIDATE_RUNTIME":
        return judge_runtime(pipe, line, case, answer).rows
    return set() if is_refused_by_schema(answer) else judge(pipe, line, case, answer).rows


def judge(pipe: Pipeline, line: str, case: Json, answer: Json) -> Judged:
    """Compare objects and verdicts of one TrainJob case whose objects the schema lets pass."""
    judged = _built(pipe, line, case, answer)
    judged.verdict += _verdict(pipe, line, case, answer, judged.rows)
    return judged


def _built(pipe: Pipeline, line: str, case: Json, answer: Json) -> Judged:
    if answer.get("runtime") is None or compare.has_snapshot(case):
        return Judged(id=case["id"], built="not compared")
    mine = compare.ours(pipe, line, answer["trainJob"], answer["runtime"])
    found = compare.compare(mine, compare.theirs(answer), compare.existing(case))
    if not found:
        return Judged(id=case["id"], built="both fail" if mine.error else "equal")
    rows = {ledger.object_row({**case, "runtime": answer["runtime"]}, d) for d in found}
    built: Built = "unexplained" if "" in rows else "intended"
    return Judged(id=case["id"], built=built, differences=found, rows=rows - {""})


def _verdict(pipe: Pipeline, line: str, case: Json, answer: Json, rows: set[str]) -> list[str]:
    errors = refusals(pipe, line, case, answer)
    theirs = is_refused_by_webhook(answer)
    if theirs and not errors:
        row = _lets_pass(case)
        if row:
            rows.add(row)
            return []
        texts = [e.get("message") or e.get("detail") for e in answer.get("webhookErrors") or []]
        return [f"they refuse, we do not: {texts or answer.get('webhookPanic')}"]
    if errors and not theirs:
        found = ledger.stricter_rows(errors)
        rows |= {row for row in found if row}
        return [
            f"we refuse, they do not: {error}"
            for row, error in zip(found, errors, strict=True)
            if not row
        ]
    return []


def _lets_pass(case: Json) -> str:
    """The ratchet: on UPDATE we do not judge anew what the update leaves as it was."""
    return "R1-ratchet" if case.get("operation") == "UPDATE" else ""


def refusals(pipe: Pipeline, line: str, case: Json, answer: Json) -> list[FieldError]:
    """What our validation says of the object as the API server stores it."""
    runtime = [answer["runtime"]] if answer.get("runtime") else []
    snapshot = Snapshot.of([*runtime, *(case.get("objects") or [])])
    old = answer.get("oldObject") or case.get("oldObject")
    objects: Json = {}
    if case.get("operation") == "UPDATE" and old is not None:
        stored = schema.load(line).admit("TrainJob", old).obj
        objects["old_object"] = stored | {key: old[key] for key in ("status",) if key in old}
    operation = "UPDATE" if objects else "CREATE"
    ctx = compare.context(line, snapshot, operation=operation, object=answer["trainJob"], **objects)
    return asyncio.run(pipe.validate(ctx, answer["trainJob"])).findings.errors


def defaulted(pipe: Pipeline, line: str, case: Json, answer: Json) -> Json | None:
    """The same case with the TrainJob as our mutation leaves it; None where it is refused or unchanged."""
    if case.get("operation") != "CREATE" or not answer.get("runtime") or compare.has_snapshot(case):
        return None
    raw = copy.deepcopy(answer["trainJob"])
    ctx = compare.context(line, Snapshot.of([answer["runtime"]]), object=raw)
    result = asyncio.run(pipe.mutate(ctx, raw))
    if not result.allowed or not result.patch:
        return None
    return {**case, "trainJob": raw, "runtime": answer["runtime"]}


def compare_defaulted(before: Json, after: Json) -> list[str]:
    """What our defaults change in what the controller builds: nothing, but for the trap that they repair."""
    if is_refused_by_schema(after) or (
        is_refused_by_webhook(after) and not is_refused_by_webhook(before)
    ):
        why = after.get("trainJobSchemaErrors") or after.get("webhookErrors")
        return [f"refused once defaulted: {why}"]
    if is_g10(before):
        return []
    outcomes = compare.theirs(before)
    found: list[Difference] | None = None
    for outcome in compare.theirs(after):
        diff = compare.compare(outcome, outcomes)
        found = diff if found is None or len(diff) < len(found) else found
    return [str(d) for d in found or []]


def is_g10(answer: Json) -> bool:
    """A distributed policy without ``spec.trainer``: created, so that the processes find each other."""
    policy = (answer["runtime"]["spec"].get("mlPolicy") or {}) if answer.get("runtime") else {}
    absent = answer["trainJob"].get("spec", {}).get("trainer") is None
    return absent and any(policy.get(name) is not None for name in DISTRIBUTED)


def schema_disagreements(line: str, case: Json, answer: Json) -> list[str]:
    """Where our tables of the API's facts and the API server's own library disagree about refusing."""
    out: list[str] = []
    if (
        case.get("trainJob")
        and case.get("operation") == "CREATE"
        and not answer.get("mutationError")
    ):
        theirs = answer.get("trainJobSchemaErrors")
        found = _schema_of(line, "TrainJob", case["trainJob"], theirs)
        if theirs or not _is_rewritten(line, case):
            out += found
    runtime = case.get("runtime")
    if runtime and not case.get("oldObject"):
        out += _schema_of(line, runtime["kind"], runtime, answer.get("runtimeSchemaErrors"))
    return out


def _is_rewritten(line: str, case: Json) -> bool:
    """A1-rewritten-by-the-defaulter: it decodes and encodes jobs with patches, which mends what it reads.

    Null items become empty objects, a variable without a name has the name ``""``, ``2.5e-1`` is ``250m``.
    """
    return line in DEFAULTER_LINES and bool(case["trainJob"].get("spec", {}).get("runtimePatches"))


def _schema_of(line: str, kind: str, obj: Json, theirs: list[Json] | None) -> list[str]:
    errors = schema.load(line).admit(kind, obj).errors
    if bool(errors) == bool(theirs) or (not theirs and all(_is_newer_rule(e) for e in errors)):
        return []
    said = [e.get("message") or e.get("detail") for e in theirs or []]
    return [f"schema of {kind}: we say {[str(e) for e in errors][:3]}, the API server {said[:3]}"]


def _is_newer_rule(error: FieldError) -> bool:
    """What API servers check since 1.35, and the libraries that the older lines were built with do not."""
    return "with format int32" in error.detail or "with format int64" in error.detail


def judge_runtime(pipe: Pipeline, line: str, case: Json, answer: Json) -> Judged:
    """Whatever the Trainer's runtime webhook refuses we refuse; what only we refuse is a row of the ledger."""
    judged = Judged(id=case["id"], built="not compared")
    if answer.get("runtimeSchemaErrors") or not answer.get("runtime"):
        return judged
    ctx = compare.context(line, Snapshot.of([]))
    old = case.get("oldObject")
    compiled_old = None
    if old is not None:
        compiled_old = CompiledRuntime(
            {**schema.load(line).admit(old["kind"], old).obj, "kind": old["kind"]}, ctx.line
        )
    new = CompiledRuntime(answer["runtime"], ctx.line)
    errors = asyncio.run(pipe.validate_runtime(ctx, compiled_old, new)).findings.errors
    theirs = is_refused_by_webhook(answer)
    if theirs and not errors and old is None:
        judged.verdict = [f"they refuse the runtime, we do not: {answer.get('webhookErrors')}"]
    if errors and not theirs:
        found = ledger.runtime_rows(errors)
        judged.rows = set(found) - {""}
        judged.verdict = [
            f"we refuse the runtime, they do not: {error}"
            for row, error in zip(found, errors, strict=True)
            if not row
        ]
    return judged
