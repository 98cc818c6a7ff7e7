"""Has the options of outside packages called for a job: one question a policy, one batch a mode and round."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policies.cel import Answers, EvaluationError
from policies.custom.protocol import Call, OptionQuestion
from policies.options import Custom

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.draft import Draft
    from plugins.framework.field import Path
    from plugins.framework.info import Info
    from policies.compile import CompiledPolicy
    from policies.document import Key
    from policies.options import Option

NOTES: Final = "policies/options"
_LOST: Final = frozenset({"memory", "timeout", "crash", "quarantined"})

Outcomes: TypeAlias = Mapping["Path", Any]
"""Where an option stands in its policy -> what it wrote, or an EvaluationError."""

Calls: TypeAlias = Generator[Sequence[Any], Sequence[Any], dict["Key", Outcomes]]


def call(
    ctx: Context,
    draft: Draft,
    wanted: Iterable[tuple[CompiledPolicy, Iterable[Option]]],
) -> Calls:
    """What each policy's options wrote for the job as the draft has it.

    What hung or crashed is not called again for the same request, whose time it would use up.
    """
    given_up: dict[Key, EvaluationError] = ctx.notes.setdefault(NOTES, {})
    asked: list[tuple[CompiledPolicy, list[Custom]]] = []
    for compiled, options in wanted:
        found = [option for option in options if type(option) is Custom]
        if found:
            asked.append((compiled, found))
    if not asked:
        return {}
    info, job = draft.info, _shown(draft.raw)
    open_ = [(each, found) for each, found in asked if each.key not in given_up]
    questions = [_question(each, found, ctx.namespace, info, job) for each, found in open_]
    answers = (yield questions) if questions else ()
    answered: dict[Key, Answers] = {}
    for (each, _), found in zip(open_, answers, strict=True):
        answered[each.key] = found
        if lost := _lost(found):
            given_up[each.key] = lost
    return {
        each.key: {
            option.path: answered[each.key].get(str(option.path))
            if each.key in answered
            else given_up[each.key]
            for option in options
        }
        for each, options in asked
    }


def _lost(answers: Answers) -> EvaluationError | None:
    """The error of what took its worker down."""
    for one in answers.values():
        if isinstance(one, EvaluationError) and one.reason in _LOST:
            return one
    return None


def _question(
    compiled: CompiledPolicy,
    options: list[Custom],
    namespace: str,
    info: Info,
    job: Mapping[str, Any],
) -> OptionQuestion:
    return OptionQuestion(
        policy=str(compiled.key),
        digest=compiled.digest,
        calls=[Call(str(o.path), o.declared.name, o.keywords, o.trainer(info)) for o in options],
        namespace=namespace,
        train_job=job,
    )


def _shown(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The TrainJob without what the API server keeps for itself."""
    metadata = raw.get("metadata")
    shown = {key: value for key, value in raw.items() if key != "status"}
    if isinstance(metadata, dict):
        shown["metadata"] = {k: v for k, v in metadata.items() if k != "managedFields"}
    return shown
