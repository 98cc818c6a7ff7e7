"""Has the options of outside packages called for a job: one question a policy, one batch a mode and round."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policies.cel import Answers, EvaluationError
from policies.custom.protocol import Call, OptionQuestion
from policies.options import Custom

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.field import Path
    from plugins.framework.info import Info
    from policies.document import Key
    from policies.options import Option

NOTES: Final = "policies/options"

Outcomes: TypeAlias = Mapping["Path", Any]
"""Where an option stands in its policy -> what it wrote, or an EvaluationError."""

Calls: TypeAlias = Generator[Sequence[Any], Sequence[Any], dict["Key", Outcomes]]


def call(
    ctx: Context,
    info: Info,
    raw: Mapping[str, Any],
    wanted: Iterable[tuple[Key, Iterable[Option]]],
) -> Calls:
    """What each policy's options wrote for the job, ``raw`` as it is and ``info`` the same resolved.

    What hung or crashed is not called again for the same request, whose time it would use up.
    """
    given_up: dict[str, Answers] = ctx.notes.setdefault(NOTES, {})
    asked: list[tuple[Key, list[Custom]]] = []
    for key, options in wanted:
        found = [option for option in options if isinstance(option, Custom)]
        if found:
            asked.append((key, found))
    if not asked:
        return {}
    job = _shown(raw)
    questions = [_question(key, options, ctx.namespace, info, job) for key, options in asked]
    open_ = [question for question in questions if question.digest not in given_up]
    answers = (yield open_) if open_ else ()
    known = {**given_up, **{q.digest: found for q, found in zip(open_, answers, strict=True)}}
    given_up.update((digest, found) for digest, found in known.items() if _is_lost(found))
    return {
        key: {option.path: known[question.digest].get(str(option.path)) for option in options}
        for (key, options), question in zip(asked, questions, strict=True)
    }


def _is_lost(answers: Answers) -> bool:
    return any(
        isinstance(one, EvaluationError) and one.reason in {"timeout", "crash", "quarantined"}
        for one in answers.values()
    )


def _question(
    key: Key, options: list[Custom], namespace: str, info: Info, job: Mapping[str, Any]
) -> OptionQuestion:
    calls = [Call(str(o.path), o.declared.name, o.keywords, o.trainer(info)) for o in options]
    about = [[c.path, c.name, c.args] for c in calls]
    packages = [option.declared.installed.package for option in options]
    return OptionQuestion(
        policy=str(key),
        digest=hashlib.sha256(
            repr([str(key), about, packages]).encode("utf-8", "replace")
        ).hexdigest(),
        calls=calls,
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
