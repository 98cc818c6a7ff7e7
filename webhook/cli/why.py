"""What ``explain`` shows of policies: as text that fits the terminal, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plugins.framework.api import names
from plugins.framework.draft import ABSENT
from plugins.framework.field import show
from webhook.cli.page import Page

if TYPE_CHECKING:
    from plugins.framework.field import FieldError
    from policies.cel import Part
    from policies.document import Key
    from policies.explaining import Evaluated, Explanation
    from policies.trace import Ruled, Wrote

Unread: TypeAlias = "Mapping[Key, tuple[FieldError, ...]]"

_LET_BE: Final = "the stored job breaks it no less, so this update may"
_NOT_JUDGED: Final = "only metadata changed, and it is about more than that"


def text(policies: Iterable[Explanation], unread: Unread) -> str:
    """Each policy: those that matched first, then why the others did not; then what cannot be read."""
    page = Page()
    found = sorted(policies, key=lambda e: not _took_part(e))
    for explanation in found:
        if page.lines:
            page.lines.append("")
        _policy(page, explanation)
    for key, problems in unread.items():
        page.lines.append("")
        effect = "loosens nothing" if key.kind == names.EXCEPTION else "does nothing"
        page.say(0, f"{key.kind} {key}: cannot be read, and {effect}")
        for problem in problems:
            page.say(2, f"not Ready: {problem}")
    return page.text


def _took_part(explanation: Explanation) -> bool:
    return explanation.matched or bool(explanation.faults or explanation.wrote)


def _policy(page: Page, explanation: Explanation) -> None:
    policy = explanation.policy
    title = f"{policy.key.kind} {policy.key}"
    if policy.priority:
        title += f" (priority {policy.priority})"
    page.say(0, _verdict(explanation), head=f"{title}: ")
    for problem in explanation.problems:
        page.say(2, f"not Ready: {problem}")
    _match(page, explanation)
    for wrote in explanation.wrote:
        page.say(2, _written(wrote))
    width = max((len(r.outcome) for r in explanation.rules), default=0) + 2
    for ruled in explanation.rules:
        _rule(page, ruled, explanation.evaluated.get(ruled.name, ()), width)
    for note in explanation.notes:
        about = f" for rule {note.rule}" if note.rule else ""
        page.say(2, f"exception {note.exception.name} has no effect{about}: {note.reason}")
    if explanation.conflicts:
        page.say(2, "conflict: another policy of the same priority wants another value")
    follows = "the job hears of it" if policy.failure_policy == "Fail" else "it is passed over"
    for fault in explanation.faults:
        page.say(2, f"fault (failurePolicy {policy.failure_policy}: {follows}): {fault}")


def _verdict(explanation: Explanation) -> str:
    if explanation.matched:
        return f"matched{_does(explanation)}"
    return "not about this job" if explanation.misses else "cannot tell"


def _match(page: Page, explanation: Explanation) -> None:
    for miss in explanation.misses:
        page.say(2, str(miss))
    for evaluated in explanation.conditions:
        page.say(2, f"matchConditions[{evaluated.name}]")
        _parts(page, 4, evaluated.parts)
    used = explanation.params
    if used is not None:
        value = f"cannot be used: {used.fault}" if used.fault else show(used.value)
        page.say(2, f"params ({used.source}): {value}")


def _does(explanation: Explanation) -> str:
    """What it does here, and which stage of the rollout says so."""
    stage = explanation.stage
    if stage is None:
        return ""
    actions = ", ".join(stage.effect.actions) or "no actions"
    told = f"; actions {actions}; mutate {stage.effect.mutate}"
    rollout = explanation.policy.rollout
    if not rollout:
        return told
    where = f"this namespace stands at {stage.share} of 100"
    if stage.effect.stage is None:
        at = f" ({where})" if any(each.percent is not None for each in rollout) else ""
        return (
            f"{told}; no stage of rollout is for this namespace{at}, so the policy itself decides"
        )
    percent = rollout[stage.effect.stage].percent
    at = "" if percent is None else f" (percent {percent}, and {where})"
    return f"{told}; as rollout[{stage.effect.stage}] says{at}"


def _written(wrote: Wrote) -> str:
    effect = wrote.effect
    verb = "would set" if wrote.is_announced else "set"
    was = "" if effect.before is ABSENT else f", was {show(effect.before)}"
    whose = " of the user" if effect.replaces_users else ""
    return f"{wrote.mode}: {verb} {effect.place} to {show(effect.after)}{was}{whose}"


def _rule(page: Page, ruled: Ruled, evaluated: Iterable[Evaluated], width: int) -> None:
    what = f"{ruled.kind} {ruled.name}"
    if ruled.outcome in {"broken", "excepted"}:
        what += f" ({', '.join(ruled.actions) or 'no actions'})"
    if ruled.exception:
        part = "the rest of it " if ruled.outcome == "broken" else ""
        what += f", {part}let through by exception {ruled.exception}"
    elif ruled.outcome == "let be":
        what += f": {_LET_BE}"
    elif ruled.outcome == "not judged":
        what += f": {_NOT_JUDGED}"
    elif ruled.fault:
        what += f": {ruled.fault}"
    page.say(2, what, head=ruled.outcome, width=width)
    for measure in ruled.measures:
        page.say(2 + width, str(measure))
    for error in ruled.errors:
        page.say(2 + width, str(error))
    for each in evaluated:
        _parts(page, 2 + width, each.parts)


def _parts(page: Page, indent: int, parts: Iterable[Part]) -> None:
    """Deeper parts stand below what they are parts of."""
    for part in parts:
        page.say(
            indent + 2 * min(part.level, 6),
            f"{' '.join(part.text.split())}  =  {_value(part.value)}",
        )


def _value(value: Any) -> str:
    from policies.cel import EvaluationError  # noqa: PLC0415  # the engine, and not for `--help`

    return f"no value: {value.message}" if isinstance(value, EvaluationError) else show(value)


# JSON


def unread_as_json(unread: Unread) -> list[dict[str, Any]]:
    """The same for what cannot be read."""
    return [
        {
            "kind": key.kind,
            "name": key.name,
            **({"namespace": key.namespace} if key.namespace else {}),
            "notReady": [str(problem) for problem in problems],
        }
        for key, problems in unread.items()
    ]


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Everything that is known; what does not apply has no key."""
    policy = explanation.policy
    out: dict[str, Any] = {
        "kind": policy.key.kind,
        "name": policy.key.name,
        "priority": policy.priority,
        "failurePolicy": policy.failure_policy,
        "matched": explanation.matched,
    }
    if policy.key.namespace:
        out["namespace"] = policy.key.namespace
    optional: dict[str, Any] = {
        "misses": [{"part": m.part, "reason": m.reason} for m in explanation.misses],
        "matchConditions": [_evaluated(each) for each in explanation.conditions],
        "rollout": _rollout(explanation),
        "params": _params(explanation),
        "wrote": [_wrote(wrote) for wrote in explanation.wrote],
        "rules": [
            _ruled(ruled, explanation.evaluated.get(ruled.name, ())) for ruled in explanation.rules
        ],
        "exceptionsWithoutEffect": [
            {
                "exception": n.exception.name,
                "reason": n.reason,
                **({"rule": n.rule} if n.rule else {}),
            }
            for n in explanation.notes
        ],
        "conflict": explanation.conflicts,
        "faults": list(explanation.faults),
        "notReady": [str(problem) for problem in explanation.problems],
    }
    return {**out, **{key: value for key, value in optional.items() if value}}


def _rollout(explanation: Explanation) -> dict[str, Any]:
    stage = explanation.stage
    if stage is None or not explanation.matched:
        return {}
    return {
        "stage": stage.effect.stage,
        "share": stage.share,
        "actions": list(stage.effect.actions),
        "mutate": stage.effect.mutate,
    }


def _params(explanation: Explanation) -> dict[str, Any]:
    used = explanation.params
    if used is None:
        return {}
    return {"from": used.source, **({"fault": used.fault} if used.fault else {"value": used.value})}


def _wrote(wrote: Wrote) -> dict[str, Any]:
    effect = wrote.effect
    return {
        "mode": wrote.mode,
        "place": str(effect.place),
        **({} if effect.before is ABSENT else {"before": effect.before}),
        "after": effect.after,
        "by": effect.by,
        "replacesUsers": effect.replaces_users,
        "announcedOnly": wrote.is_announced,
    }


def _ruled(ruled: Ruled, evaluated: Iterable[Evaluated]) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "exception": ruled.exception,
        "messages": [str(error) for error in ruled.errors],
        "measures": [str(measure) for measure in ruled.measures],
        "fault": ruled.fault,
        "expressions": [_evaluated(each) for each in evaluated],
    }
    return {
        "rule": ruled.name,
        "kind": ruled.kind,
        "outcome": ruled.outcome,
        "actions": list(ruled.actions),
        **{key: value for key, value in optional.items() if value},
    }


def _evaluated(evaluated: Evaluated) -> dict[str, Any]:
    name = {"name": evaluated.name} if evaluated.name else {}
    parts = list(_json_parts(evaluated.parts))
    return {**name, "expression": evaluated.text, "parts": parts}


def _json_parts(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    from policies.cel import EvaluationError  # noqa: PLC0415

    for part in parts:
        is_fault = isinstance(part.value, EvaluationError)
        value = {"error": part.value.message} if is_fault else {"value": part.value}
        yield {"text": part.text, "level": part.level, **value}
