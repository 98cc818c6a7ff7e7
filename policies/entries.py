"""Our entries among the overrides of a TrainJob: one for each mode, made anew of everything that is decided.

With Trainer 2.2 and later they are known by their managers; in 2.1, whose entries have none, by the record of what we
wrote, and there is one for each job. 2.0 has no room for a second owner: it takes each job once in the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugins.framework import applied, frozen, values
from plugins.framework import field as field_errors
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.draft import ABSENT, Draft
from plugins.framework.field import FieldError, Path
from policies.entry_list import (
    MANAGERS,
    TEMPLATE,
    Entries,
    Tree,
    is_entry_pointer,
    is_of,
    normal,
    pointer_of,
)
from policies.merging import Decided, named, union
from policies.walk import index_of, is_free_map, read
from policies.writes import Item, Level, Mode, Place, Step

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime, Job
    from policies.document import Key

MOST_ENTRIES: Final = 16
"""Entries of ``runtimePatches`` that the CRD allows."""

_CHANGEABLE: Final = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
"""Fields of pods that JobSet lets change while suspended (trainer-semantics 10.2)."""
_IMMUTABLE: Final = frozenset(
    {
        "serviceAccountName",
        "volumes",
        "initContainers",
        "containers",
        "imagePullSecrets",
        "securityContext",
        "terminationGracePeriodSeconds",
    }
)
"""Fields of an entry that may come and go, but not change (CEL, trainer-semantics 6.3)."""


@dataclass(slots=True)
class Wanted:
    """What is to stand in our entry of one mode."""

    jobset: Tree = field(default_factory=dict)
    jobs: dict[str, tuple[Tree, Tree]] = field(default_factory=dict)
    """For each job its Job template and its pod template."""

    def is_empty(self) -> bool:
        """Whether no entry is needed at all."""
        return not self.jobset and not any(a or b for a, b in self.jobs.values())


class Unplaced(NamedTuple):
    """What cannot be written, at its place in the TrainJob, and which policies want it."""

    error: FieldError
    keys: tuple[Key, ...]


@dataclass(slots=True)
class Plan:
    """What is to be written, and what cannot."""

    wanted: Wanted = field(default_factory=Wanted)
    written: list[tuple[Decided, Any, bool]] = field(default_factory=list)
    """What is decided, what was there before, and whether that was another value of the user."""
    origins: dict[Place, Decided] = field(default_factory=dict)
    unplaced: list[Unplaced] = field(default_factory=list)
    by: str = ""
    """All policies that any of it comes from."""
    there: Entries | None = None
    """The list as it was planned for; None where there is nothing to do."""
    is_blocked: bool = False
    """Somebody else has put an entry under our manager: whoever judges managers refuses the job."""


def may_change(ctx: Context, raw: Tree) -> bool:
    """Whether an update may change overrides: suspended before or after, as the line has it."""
    old = TrainJob(values.obj(ctx.request.old_object))
    return TrainJob(raw).is_suspended or (ctx.line.suspended_before_or_after and old.is_suspended)


# Planning


def plan(
    ctx: Context, draft: Draft, mode: Mode, decided: list[Decided], claims: Mapping[str, str]
) -> Plan:
    """What our entry of one mode must hold, given what the others hold."""
    out = Plan()
    runtime = draft.runtime
    if runtime is None:
        return out
    line = ctx.line
    entries = values.objects(draft.get(Path("spec", line.generation)))
    if not decided and not entries:
        return out
    found = out.there = Entries(ctx, draft, claims)
    out.is_blocked = found.is_forged(mode)
    for one in decided:
        problem = _no_room(line, one.place)
        if problem:
            at = Path("spec", line.generation)
            error = field_errors.forbidden(at, f"{one.place} cannot be set: {problem}")
            out.unplaced.append(Unplaced(error, one.keys))
            continue
        _plan_one(out, found, mode, one, runtime)
    keys = tuple(dict.fromkeys(key for one in out.origins.values() for key in one.keys))
    out.by = named(keys)
    out.wanted = _build(out, runtime)
    if ctx.is_update:
        _freeze(ctx, mode, out.wanted, claims)
    is_new = line.has_managers and not found.ours(mode) and not out.wanted.is_empty()
    if is_new and len(found.all) >= MOST_ENTRIES:
        detail = f"must leave one of {MOST_ENTRIES} entries to the policies: {out.by}"
        error = field_errors.forbidden(Path("spec", line.generation), detail)
        out.unplaced.append(Unplaced(error, keys))
        out.is_blocked = True
    return out


def may_be_ours(ctx: Context, draft: Draft, claims: Mapping[str, str]) -> bool:
    """Whether there can be an entry that we wrote: of a new object a record says so."""
    return ctx.is_update or any(is_entry_pointer(at) for at in (*draft.record, *claims))


def _no_room(line: Line, place: Place) -> str:
    if line.generation == "podSpecOverrides":
        return f"Trainer {line.name} takes each job once in podSpecOverrides, which is the user's"
    if not line.has_managers and place.level:
        return f"overrides of Trainer {line.name} are of pods alone"
    return ""


def _plan_one(
    out: Plan, found: Entries, mode: Mode, one: Decided, runtime: CompiledRuntime
) -> None:
    users = found.users(one.place)
    value = one.value
    if users is not None and mode == "defaults":
        return
    if one.is_union:
        base = _base(found, mode, one.place, runtime)
        value = union(base, value)
        if values.same(value, base):
            return
        users = None  # nothing of it is lost
    replaces = users is not None and not values.same(users, value)
    before = ABSENT if users is None else users
    settled = Decided(place=one.place, value=value, is_union=one.is_union, keys=one.keys)
    out.written.append((settled, before, replaces))
    out.origins[one.place] = one


def _base(found: Entries, mode: Mode, place: Place, runtime: CompiledRuntime) -> list[Any]:
    """The atomic list as it is without our entry: the last that says anything, else the runtime's."""
    users = values.items(found.users(place))
    if users:
        return users
    if mode == "overrides":
        own = values.items(found.of_defaults(place))
        if own:
            return own
    job = runtime.job(place.target or "")
    return values.items(read(job.pod, place.steps[1:])) if job is not None else []


def _build(out: Plan, runtime: CompiledRuntime) -> Wanted:
    trees: dict[tuple[str | None, Level], Tree] = {}
    for one, _, _ in out.written:
        tree = trees.setdefault((one.place.target, one.place.level), {})
        _put(tree, one.place.steps, one.value)
    jobs: dict[str, tuple[Tree, Tree]] = {}
    for job in runtime.jobs:
        above, pod = trees.get((job.name, "Job"), {}), trees.get((job.name, ""), {})
        _in_order(job, pod)
        if above or pod:
            jobs[job.name] = (above, pod)
    return Wanted(trees.get((None, "JobSet"), {}), jobs)


def _put(tree: Tree, steps: Sequence[Step], value: Any) -> None:
    node: Any = tree
    for k, step in enumerate(steps):
        is_last = k == len(steps) - 1
        if isinstance(step, Item):
            index = index_of(node, step)
            if index is None:
                node.append(values.copy(value) if is_last else {step.key: step.value})
                index = len(node) - 1
            node = node[index]
        elif is_last:
            node[step] = values.copy(value)
        else:
            node = node.setdefault(step, [] if isinstance(steps[k + 1], Item) else {})


def _in_order(job: Job, pod: Tree) -> None:
    """Containers as the runtime has them: a patch that lists them otherwise would reorder them (semantics 3.3)."""
    spec = values.obj(pod.get("spec"))
    for kind, there in (("containers", job.containers), ("initContainers", job.init_containers)):
        if kind in spec:
            position = {container.get("name"): i for i, container in enumerate(there)}
            spec[kind].sort(key=lambda one: position.get(one["name"], len(position)))


def _freeze(ctx: Context, mode: Mode, wanted: Wanted, claims: Mapping[str, str]) -> None:
    """Keep of the stored entry what an update may not change."""
    old = TrainJob(values.obj(ctx.request.old_object))
    has_jobset = frozen.has_jobset(ctx.line, old)
    stored = _stored_trees(ctx, mode, old, claims)
    for name in dict.fromkeys((*stored, *wanted.jobs)):
        before = stored.get(name, ({}, {}))
        after = wanted.jobs.get(name, ({}, {}))
        if not has_jobset and name not in wanted.jobs:
            continue
        above = before[0] if has_jobset else after[0]
        pod = _frozen_pod(before[1], after[1], has_jobset=has_jobset)
        if above or pod:
            wanted.jobs[name] = (above, pod)
        else:
            wanted.jobs.pop(name, None)


def _frozen_pod(before: Tree, after: Tree, *, has_jobset: bool) -> Tree:
    old, new = values.obj(before.get("spec")), values.obj(after.get("spec"))
    if has_jobset:
        spec = {k: v for k, v in old.items() if k not in _CHANGEABLE}
        spec |= {k: v for k, v in new.items() if k in _CHANGEABLE}
    else:
        spec = {k: old[k] if k in _IMMUTABLE and k in old else v for k, v in new.items()}
    metadata = after.get("metadata")
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def _stored_trees(
    ctx: Context, mode: Mode, old: TrainJob, claims: Mapping[str, str]
) -> dict[str, tuple[Tree, Tree]]:
    found = Entries(ctx, Draft(old.raw), claims)
    out: dict[str, tuple[Tree, Tree]] = {}
    for i in found.ours(mode):
        entry = found.all[i]
        if not ctx.line.has_managers:
            for target in values.objects(entry.get("targetJobs")):
                pod = {k: v for k, v in entry.items() if k in {"metadata", "spec"}}
                out[values.text(target.get("name"))] = ({}, pod)
            continue
        for job in values.objects(values.at(entry, *TEMPLATE, "spec", "replicatedJobs")):
            template = values.obj(job.get("template"))
            above = {k: v for k, v in template.items() if k == "metadata"}
            out[values.text(job.get("name"))] = (above, values.at_obj(template, "spec", "template"))
    return out


# Writing


def write(draft: Draft, mode: Mode, plan_: Plan) -> None:
    """Have our entry, or entries, say what is planned and stand where they must; nothing if they do."""
    found = plan_.there
    if plan_.is_blocked or found is None:
        return
    ours = found.ours(mode)
    if plan_.wanted.is_empty() and not ours:
        return
    line = found.line
    documents = _documents(line, mode, plan_.wanted)
    forced = applied.FORCED if mode == "overrides" else ""
    who = f"{applied.POLICY}{plan_.by}{forced}"
    kept = {at: mark for at, mark in draft.record.items() if is_of(line, mode, at)}
    marks: dict[str, str] = {}
    for job, entry in documents:
        at = pointer_of(line, mode, job)
        marks[at] = applied.mark(who, normal(line, entry))
    same = [normal(line, found.all[i]) for i in ours] == [normal(line, e) for _, e in documents]
    if not (same and _is_placed(found, mode, ours)):
        with draft.by(plan_.by):
            if (
                line.has_managers
                and len(ours) == 1 == len(documents)
                and _is_placed(found, mode, ours)
            ):
                _fill(draft, line, ours[0], plan_, documents[0])
            else:
                _replace(draft, line, mode, (found, ours), plan_, documents)
    for at in kept:
        draft.record.pop(at, None)
    draft.record.update(marks)


def _is_placed(found: Entries, mode: Mode, ours: list[int]) -> bool:
    """Whether ours stand before all users', or after them."""
    users = found.foreign()
    if not ours or not users:
        return True
    return max(ours) < min(users) if mode == "defaults" else min(ours) > max(users)


def _documents(line: Line, mode: Mode, wanted: Wanted) -> list[tuple[str, Tree]]:
    """The entries, with the job that each is recorded for."""
    if wanted.is_empty():
        return []
    if not line.has_managers:
        return [
            (name, {"targetJobs": [{"name": name}], **pod})
            for name, (_, pod) in wanted.jobs.items()
        ]
    jobs = []
    for name, (above, pod) in wanted.jobs.items():
        template = {**above, **({"spec": {"template": pod}} if pod else {})}
        jobs.append({"name": name, "template": template})
    template = {**wanted.jobset, **({"spec": {"replicatedJobs": jobs}} if jobs else {})}
    return [("", {"manager": MANAGERS[mode], "trainingRuntimeSpec": {"template": template}})]


def _replace(
    draft: Draft,
    line: Line,
    mode: Mode,
    there: tuple[Entries, list[int]],
    plan_: Plan,
    documents: list[tuple[str, Tree]],
) -> None:
    found, ours = there
    at = Path("spec", line.generation)
    for i in reversed(ours):
        draft.remove(at.index(i))
    users = [i - sum(1 for k in ours if k < i) for i in found.foreign()]
    index = 0 if mode == "defaults" else max(users, default=-1) + 1
    if mode == "overrides":
        others = [i - sum(1 for k in ours if k < i) for i in found.ours("defaults")]
        index = max(index, max(others, default=-1) + 1)
    for k, (job, entry) in enumerate(documents):
        skeleton = (
            {"manager": MANAGERS[mode]}
            if line.has_managers
            else {"targetJobs": entry["targetJobs"]}
        )
        draft.insert(at, index + k, skeleton)
        _fill(draft, line, index + k, plan_, (job, entry))
    if not draft.get(at):
        draft.remove(at)


def _fill(draft: Draft, line: Line, index: int, plan_: Plan, document: tuple[str, Tree]) -> None:
    """Write an entry piece by piece, each under the name of the policies that it comes from."""
    job, entry = document
    at = Path("spec", line.generation, index)
    if not line.has_managers:
        pod = {k: v for k, v in entry.items() if k != "targetJobs"}
        _pieces(draft, at, pod, plan_, Place(job, ()))
        return
    root = at.child(*TEMPLATE)
    draft.set(at.child("trainingRuntimeSpec"), {"template": {}})
    _pieces(draft, root, plan_.wanted.jobset, plan_, Place(None, (), "JobSet"))
    jobs = root.child("spec", "replicatedJobs")
    for k, (name, (above, pod)) in enumerate(plan_.wanted.jobs.items()):
        draft.append(jobs, {"name": name})
        here = jobs.index(k).child("template")
        _pieces(draft, here, above, plan_, Place(name, (), "Job"))
        _pieces(draft, here.child("spec", "template"), pod, plan_, Place(name, ()))


def _origin(plan_: Plan, place: Place) -> str:
    """Whose a piece of the entry is."""
    one = plan_.origins.get(place)
    return plan_.by if one is None else one.by


def _pieces(draft: Draft, at: Path, tree: Tree, plan_: Plan, place: Place) -> None:
    for key, value in tree.items():
        here = at.key(key) if is_free_map(place.steps) else at.child(key)
        below = Place(place.target, (*place.steps, key), place.level)
        if below not in plan_.origins and type(value) is dict and value:
            _pieces(draft, here, value, plan_, below)
        elif below not in plan_.origins and _is_named(value):
            for k, item in enumerate(value):
                _piece_of_list(draft, here, (k, item), plan_, below)
        else:
            with draft.by(_origin(plan_, below)):
                draft.set(here, value)


def _piece_of_list(
    draft: Draft, at: Path, item: tuple[int, Tree], plan_: Plan, place: Place
) -> None:
    k, value = item
    one = Item("name", value["name"])
    below = Place(place.target, (*place.steps, one), place.level)
    if below in plan_.origins or not any(_is_named(v) or type(v) is dict for v in value.values()):
        with draft.by(_origin(plan_, below)):
            draft.append(at, value)
        return
    draft.append(at, {"name": value["name"]})
    rest = {key: v for key, v in value.items() if key != "name"}
    _pieces(draft, at.index(k), rest, plan_, below)


def _is_named(value: Any) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(type(item) is dict and type(item.get("name")) is str for item in value)
    )
