"""Has the options of outside packages called for a job: one question a policy, one batch a mode and round."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from policies.custom.protocol import Call, OptionQuestion
from policies.options import Custom

if TYPE_CHECKING:
    from plugins.framework.field import Path
    from plugins.framework.info import Info
    from policies.document import Key
    from policies.options import Option

Outcomes: TypeAlias = Mapping["Path", Any]
"""Where an option stands in its policy -> what it wrote, or an EvaluationError."""

Calls: TypeAlias = Generator[Sequence[Any], Sequence[Any], dict["Key", Outcomes]]


def call(
    namespace: str,
    info: Info,
    raw: Mapping[str, Any],
    wanted: Iterable[tuple[Key, Iterable[Option]]],
) -> Calls:
    """What each policy's options wrote for the job, ``raw`` as it is and ``info`` the same resolved."""
    asked: list[tuple[Key, list[Custom]]] = []
    for key, options in wanted:
        found = [option for option in options if isinstance(option, Custom)]
        if found:
            asked.append((key, found))
    if not asked:
        return {}
    job = _shown(raw)
    answers = yield [_question(key, options, namespace, info, job) for key, options in asked]
    return {
        key: {option.path: found.get(str(option.path)) for option in options}
        for (key, options), found in zip(asked, answers, strict=True)
    }


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
