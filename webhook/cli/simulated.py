"""What ``simulate`` prints: counts by namespace and policy, then each TrainJob, then what it means."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from plugins.framework.field import show
from webhook.cli.page import Page
from webhook.cli.tables import table
from webhook.simulation.compare import ORDER, Difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webhook.simulation.compare import What
    from webhook.simulation.replacing import Replaced
    from webhook.simulation.simulator import Row, Tally

_ABSENT: Final = "-"
_SHOWN: Final = 10
"""Names of policies and runtimes that the first lines show."""
_WIDTH: Final = max(map(len, ORDER)) + 2
_ENGINE: Final = "(no policy)"
_AGAIN: Final = "if created again"
_LATER: Final = "with its next change"


def text(tally: Tally, policies: Replaced, runtimes: Replaced, *, keeps_pods: bool | None) -> str:
    """For people; with ``keeps_pods`` whether TrainJobs keep the runtime they have, None where none changes."""
    blocks = [_replaced("POLICIES", policies), _replaced("RUNTIMES", runtimes)]
    if tally.created_again:
        blocks.append("IF CREATED AGAIN\n" + _counts(tally.created_again))
    if tally.next_change:
        blocks.append("WITH THEIR NEXT CHANGE\n" + _counts(tally.next_change))
    if tally.rows:
        blocks.append("TRAINJOBS\n" + _details(tally.rows))
    if tally.left_out:
        blocks.append(f"{tally.left_out} more TrainJobs are not shown; --most shows more\n")
    blocks.append(_summary(tally, keeps_pods=keeps_pods))
    return "\n".join(block for block in blocks if block)


def _replaced(title: str, replaced: Replaced) -> str:
    page = Page()
    for word, found in (
        ("new", replaced.new),
        ("changed", replaced.changed),
        ("gone", replaced.gone),
    ):
        if found:
            page.say(0, f"{word} ({len(found)}): {_some(found)}")
    if replaced.same:
        page.say(0, f"the same ({len(replaced.same)})")
    return f"{title}\n{page.text}" if page.lines else ""


def _some(found: list[str]) -> str:
    more = len(found) - _SHOWN
    return ", ".join(found[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _counts(counted: Mapping[tuple[str, str, What], int]) -> str:
    rows = sorted(counted.items(), key=lambda c: (c[0][0], ORDER.index(c[0][2]), c[0][1]))
    return table(
        ("NAMESPACE", "POLICY", "WHAT", ">TRAINJOBS"),
        [(namespace, by or _ENGINE, what, str(count)) for (namespace, by, what), count in rows],
    )


def _details(rows: Iterable[Row]) -> str:
    """A paragraph a TrainJob: what there is to say is too long for columns."""
    page = Page()
    for row in sorted(rows, key=lambda row: (row.namespace, row.name)):
        page.say(0, f"{row.namespace}/{row.name} ({row.state})")
        for when, differences in ((_AGAIN, row.created_again), (_LATER, row.next_change)):
            if differences:
                page.say(2, f"{when}:")
            for difference in differences:
                page.say(4, _said(difference), head=difference.what, width=_WIDTH)
    return page.text


def _said(difference: Difference) -> str:
    by = difference.by or _ENGINE
    if not difference.path:
        return f"{by}: {difference.text}"
    after = difference.text or _value(difference.after)
    return f"{by}: {difference.path}: {_value(difference.before)} -> {after}"


def _value(value: Any) -> str:
    return _ABSENT if value is None else show(value)


# What it means


def _summary(tally: Tally, *, keeps_pods: bool | None) -> str:
    states = ", ".join(
        f"{tally.states[state]} {state}"
        for state in ("running", "suspended", "finished", "terminating")
        if tally.states[state]
    )
    head = f"{_jobs(tally.jobs)} judged" + (f" ({states})" if states else "")
    lines = [head, f"If created again: {_told(tally.whats) or 'nothing would be otherwise'}."]
    blocked = tally.later["newly refused"] + tally.later["refused otherwise"]
    if blocked:
        lines.append(
            f"TrainJobs that exist: the next change of {blocked} would be REFUSED, even one that means nothing: "
            "that is a fault; please report it."
        )
    else:
        lines.append(
            "TrainJobs that exist: none is stopped or blocked; a stricter rule never refuses a change that does not "
            "worsen what it is about."
        )
    later: Counter[What] = Counter(
        {w: n for w, n in tally.later.items() if w.endswith(("changed", "changed otherwise"))}
    )
    if later:
        lines.append(f"With their next change: {_told(later)}.")
    if keeps_pods is not None:
        lines.append(
            "Their pods: TrainJobs keep the runtime that they were created with."
            if keeps_pods
            else "Their pods: those that run stay as they are; suspended TrainJobs take the changed runtime."
        )
    page = Page()
    for line in lines:
        page.say(0, line)
    return page.text


def _told(counted: Mapping[What, int]) -> str:
    return ", ".join(f"{counted[what]} {what}" for what in ORDER if counted.get(what))


def _jobs(count: int) -> str:
    return f"{count} TrainJob{'' if count == 1 else 's'}"


# JSON


def as_json(tally: Tally, policies: Replaced, runtimes: Replaced) -> dict[str, Any]:
    """Everything that is known, for programs."""
    return {
        "policies": policies.as_json(),
        "runtimes": runtimes.as_json(),
        "trainJobs": tally.jobs,
        "states": {state: tally.states[state] for state in sorted(tally.states)},
        "ifCreatedAgain": _totals(tally.whats, tally.created_again),
        "withNextChange": _totals(tally.later, tally.next_change),
        "changes": [_row(row) for row in tally.rows],
        "notShown": tally.left_out,
    }


def _totals(
    whats: Mapping[What, int], counted: Mapping[tuple[str, str, What], int]
) -> dict[str, Any]:
    return {
        "trainJobs": {what: whats[what] for what in ORDER if whats.get(what)},
        "byPolicy": [
            {"namespace": namespace, "policy": by, "what": what, "trainJobs": count}
            for (namespace, by, what), count in sorted(counted.items())
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "runtime": row.runtime,
        "state": row.state,
        "ifCreatedAgain": [_difference(each) for each in row.created_again],
        "withNextChange": [_difference(each) for each in row.next_change],
    }


def _difference(difference: Difference) -> dict[str, Any]:
    out: dict[str, Any] = {"what": difference.what, "policy": difference.by}
    if difference.text:
        out["message"] = difference.text
    if difference.path:
        values = (("before", difference.before), ("after", difference.after))
        out.update(path=difference.path, **{k: v for k, v in values if v is not None})
    return out
