"""Effective requests of one pod: what the scheduler will see once the API server has worked on the pod.

In this order (resource-totals, 2.1): round up to milli, limits become requests, pod-level resources, defaults
of the LimitRanges, then the formula of init containers and sidecars, then overhead. Rounding comes first
because a TrainJob's pods come from Jobs, and a Job's template is rounded when it is stored. Mutating webhooks
may change a pod after that; no estimate can know those.

The formula is that of ``k8s.io/component-helpers/resource``; what is refused and why follows
``pkg/apis/core/validation`` of ``k8s.io/kubernetes``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from plugins.framework import values
from plugins.framework.field import Path
from plugins.framework.quantity import (
    MILLI,
    NANO,
    Quantity,
    QuantityError,
    add,
    canonical,
    parse,
    round_up_milli,
    value,
)

Requests: TypeAlias = dict[str, Quantity]
"""Amounts by resource name: cores, bytes or devices."""
Amounts: TypeAlias = Mapping[str, Quantity]

_Where: TypeAlias = tuple[str | int, ...]

_HUGEPAGES: Final = "hugepages-"
_CPU_AND_MEMORY: Final = frozenset({"cpu", "memory"})
_STANDARD: Final = _CPU_AND_MEMORY | {"ephemeral-storage"}
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = re.compile(
    rf"(?=[^/]{{1,253}}/[^/]{{1,63}}\Z){_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDefaults:
    """What the LimitRanges of one namespace give to a container that says nothing, rounded up to milli."""

    limits: Amounts
    requests: Amounts
    ambiguous: tuple[str, ...] = ()
    """Names that two LimitRanges set to different values. Here the first wins; the API server's order is not
    fixed, so this is worth a warning."""


def compile_limit_ranges(objects: Iterable[Mapping[str, Any]]) -> LimitDefaults:
    """Merge the raw LimitRanges of one namespace, each first defaulted as the API server does at its door.

    Per Container item ``default`` falls back to ``max``, ``defaultRequest`` to ``default`` and then to ``min``;
    other types give no defaults. (SetDefaults_LimitRangeItem, and LimitRanger's mutation.)

    Raises:
        QuantityError: with ``field`` such as ``limitRanges[0].spec.limits[1].max[cpu]``.
    """
    limits: Requests = {}
    requests: Requests = {}
    ambiguous: set[str] = set()
    for i, limit_range in enumerate(objects):
        own_limits: Requests = {}
        own_requests: Requests = {}
        for j, item in enumerate(values.items(values.at(limit_range, "spec", "limits"))):
            if values.obj(item).get("type") != "Container":
                continue
            where = ("limitRanges", i, "spec", "limits", j)
            most, least = _rounded(item, "max", where), _rounded(item, "min", where)
            default = _rounded(item, "default", where)
            request = _rounded(item, "defaultRequest", where)
            own_limits |= most | default
            own_requests |= least | most | default | request
        for kept, own in ((limits, own_limits), (requests, own_requests)):
            ambiguous.update(n for n in own.keys() & kept.keys() if own[n].nano != kept[n].nano)
            kept.update({n: amount for n, amount in own.items() if n not in kept})
    return LimitDefaults(limits=limits, requests=requests, ambiguous=tuple(sorted(ambiguous)))


class _Container(NamedTuple):
    """One container's amounts, rounded up to milli."""

    name: str
    is_sidecar: bool
    requests: Amounts
    """With what the LimitRanges add."""
    declared: Amounts
    """Without it: the requests, and the limits where there is no request."""
    limits: Amounts
    """As written."""

    @classmethod
    def of(
        cls, raw: Mapping[str, Any], limits: LimitDefaults | None, *, where: _Where = ()
    ) -> _Container:
        """Read a raw container whose resources stand at ``where``."""
        resources = values.obj(raw.get("resources"))
        own_limits = _rounded(resources, "limits", where)
        declared = own_limits | _rounded(resources, "requests", where)
        requests = declared if limits is None else {**limits.requests, **declared}
        name = values.text(raw.get("name"))
        return cls(name, _is_sidecar(raw), requests, declared, own_limits)


class _Level(NamedTuple):
    """Pod-level requests and limits as written, rounded up to milli."""

    requests: Amounts
    limits: Amounts


class _Startup(NamedTuple):
    """What the formula needs of the init containers: those that stay, and the most that one step needs."""

    sidecars: Sequence[Amounts]
    peak: Amounts

    @classmethod
    def of(cls, inits: Iterable[tuple[bool, Amounts]]) -> _Startup:
        """Walk them in their order; True marks a sidecar (``restartPolicy: Always``)."""
        sidecars: list[Amounts] = []
        running: Requests = {}
        peak: Requests = {}
        for is_sidecar, requests in inits:
            if is_sidecar:
                sidecars.append(requests)
                _add(running, requests)
                _raise_to(peak, running)
            else:
                step = dict(requests)
                _add(step, running)
                _raise_to(peak, step)
        return cls(sidecars, peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPod:
    """One pod's amounts per container, so that other resources for one container cost little.

    Made by `compile_pod`. Holds integers, nothing of the raw spec.
    """

    containers: tuple[_Container, ...]
    inits: tuple[_Container, ...]
    limits: LimitDefaults | None
    level: _Level | None
    """The pod-level resources, where there are any."""
    overhead: Amounts
    startup: _Startup = field(init=False)
    requests: Amounts = field(init=False)
    """Effective requests of the pod as it was compiled."""

    def __post_init__(self) -> None:
        """Work out what no change of a container touches, then the requests."""
        startup = _Startup.of((c.is_sidecar, c.requests) for c in self.inits)
        object.__setattr__(self, "startup", startup)
        object.__setattr__(self, "requests", self._effective(self.containers))

    def with_container(self, name: str, resources: Mapping[str, Any]) -> Requests:
        """The pod's requests if the regular container ``name`` had these raw resources instead of its own.

        A name that no regular container has changes nothing, as in the Trainer.

        Raises:
            QuantityError: with ``field`` relative to the resources, such as ``limits[nvidia.com/gpu]``.
        """
        changed = _Container.of({"name": name, "resources": dict(resources)}, self.limits)
        return self._effective([changed if c.name == name else c for c in self.containers])

    def _effective(self, containers: Sequence[_Container]) -> Requests:
        total = _formula([c.requests for c in containers], self.startup)
        if self.level is not None:
            total |= self._level_requests(self.level, containers)
        _add(total, self.overhead)
        return total

    def _level_requests(self, level: _Level, containers: Sequence[_Container]) -> Requests:
        """Pod-level requests as the API server fills them in, before any LimitRange.

        (defaultHugePagePodLimits, then defaultPodRequests, in ``pkg/apis/core/v1/defaults.go``.)
        """
        limits = dict(level.limits)
        requests = dict(level.requests)
        for name, amount in self._total(containers, "limits").items():
            if name.startswith(_HUGEPAGES) and name not in requests:
                limits.setdefault(name, amount)
        if limits:
            totals = self._total(containers, "declared").items()
            requests = (
                limits | {n: amount for n, amount in totals if n in _CPU_AND_MEMORY} | requests
            )
        return {name: amount for name, amount in requests.items() if _is_pod_level(name)}

    def _total(self, containers: Sequence[_Container], part: str) -> Requests:
        startup = _Startup.of((c.is_sidecar, getattr(c, part)) for c in self.inits)
        return _formula([getattr(c, part) for c in containers], startup)


def compile_pod(
    spec: Mapping[str, Any],
    *,
    limits: LimitDefaults | None = None,
    overhead: Mapping[str, Any] | None = None,
) -> CompiledPod:
    """Read a raw ``PodSpec`` once. Missing keys and wrong shapes count as nothing; a wrong amount does not.

    ``overhead`` is ``overhead.podFixed`` of the RuntimeClass that the pod names: not rounded again, and not
    used where the pod has an ``overhead`` of its own (if the two differ, the pod is refused).

    Raises:
        QuantityError: with ``field`` such as ``containers[0].resources.limits[nvidia.com/gpu]``.
    """
    containers, inits = (
        tuple(_Container.of(raw, limits, where=where) for where, raw in _containers(spec, key))
        for key in ("containers", "initContainers")
    )
    given = values.obj(spec.get("resources"))
    level = _Level(*(_rounded(given, key, ("resources",)) for key in ("requests", "limits")))
    from_class = _parsed({"overhead": dict(overhead or {})}, "overhead")
    return CompiledPod(
        containers=containers,
        inits=inits,
        limits=limits,
        level=level if any(level) else None,
        overhead=_rounded(spec, "overhead") or from_class,
    )


def template_requests(spec: Mapping[str, Any]) -> Requests:
    """What the Trainer counts into its PodGroups: the formula alone, on the raw ``PodSpec`` as written.

    Raises:
        QuantityError: with ``field`` relative to the spec.
    """
    containers, inits = (
        [
            (_is_sidecar(raw), _parsed(values.obj(raw.get("resources")), "requests", where))
            for where, raw in _containers(spec, key)
        ]
        for key in ("containers", "initContainers")
    )
    total = _formula([requests for _, requests in containers], _Startup.of(inits))
    level = _parsed(values.obj(spec.get("resources")), "requests", ("resources",))
    total |= {name: amount for name, amount in level.items() if _is_pod_level(name)}
    _add(total, _parsed(spec, "overhead"))
    return total


def _formula(containers: Iterable[Amounts], startup: _Startup) -> Requests:
    """Per name the larger of all that runs together and of the greediest step of the start."""
    total: Requests = {}
    for requests in containers:
        _add(total, requests)
    for requests in startup.sidecars:
        _add(total, requests)
    _raise_to(total, startup.peak)
    return total


def _add(total: Requests, more: Amounts) -> None:
    if not total:
        total.update(more)
        return
    for name, amount in more.items():
        kept = total.get(name)
        total[name] = amount if kept is None else add(kept, amount)


def _raise_to(total: Requests, floor: Amounts) -> None:
    for name, amount in floor.items():
        kept = total.get(name)
        if kept is None or amount.nano > kept.nano:
            total[name] = amount


def _parsed(holder: Mapping[str, Any], key: str, where: _Where = ()) -> Requests:
    """The amounts of one raw map of them, as written."""
    amounts: Requests = {}
    for name, raw in values.obj(holder.get(key)).items():
        try:
            amounts[name] = parse(raw)
        except QuantityError as error:
            raise error.under(Path(*where, key).key(name)) from None
    return amounts


def _rounded(holder: Mapping[str, Any], key: str, where: _Where = ()) -> Requests:
    """The same, rounded up to milli as the API server does with all that a Job or Pod holds."""
    amounts = _parsed(holder, key, where)
    for name, amount in amounts.items():
        if amount.nano % MILLI:
            amounts[name] = round_up_milli(amount)
    return amounts


def _containers(spec: Mapping[str, Any], key: str) -> Iterator[tuple[_Where, dict[str, Any]]]:
    """The containers of one list, and where the resources of each stand.

    What is no object is for the API server to name.
    """
    for i, raw in enumerate(values.items(spec.get(key))):
        if type(raw) is dict:
            yield (key, i, "resources"), raw


def _is_sidecar(init: Mapping[str, Any]) -> bool:
    return init.get("restartPolicy") == "Always"


def _is_pod_level(name: str) -> bool:
    return name in _CPU_AND_MEMORY or name.startswith(_HUGEPAGES)


class Problem(NamedTuple):
    """One reason for which the API server will refuse the pod."""

    path: Path
    """Relative to what was checked: a pod spec, or one container's ``resources``."""
    value: Any
    """The raw value there; None where something is missing or comes from a LimitRange."""
    detail: str
    """What would be right; begins lower case."""


def problems(spec: Mapping[str, Any], *, limits: LimitDefaults | None = None) -> list[Problem]:
    """Why the API server will refuse pods with this raw ``PodSpec``, as its containers' resources show.

    Amounts that are no quantity are among the reasons, so this never raises. What only the pod as a whole
    shows (pod-level resources, minima and maxima of a LimitRange) is not looked at. (resource-totals, 2.7)
    """
    found: list[Problem] = []
    for key in ("containers", "initContainers"):
        for where, raw in _containers(spec, key):
            here = container_problems(values.obj(raw.get("resources")), limits)
            found += (p._replace(path=Path(*where, *p.path)) for p in here)
    return found


def container_problems(
    resources: Mapping[str, Any], limits: LimitDefaults | None = None
) -> list[Problem]:
    """The same for one regular or init container's raw ``resources``, as they are after merging.

    (ValidateContainerResourceRequirements, on what limits-to-requests and the LimitRanges leave.)
    """
    found: list[Problem] = []
    own_limits = _readable(resources, "limits", found)
    own_requests = _readable(resources, "requests", found)
    all_limits = {**limits.limits, **own_limits} if limits else own_limits
    all_requests = {**(limits.requests if limits else {}), **own_limits, **own_requests}
    written = values.obj(resources.get("requests"))
    unread = values.obj(resources.get("limits")).keys() - own_limits | written.keys() - own_requests
    for name, request in all_requests.items():
        limit = all_limits.get(name)
        if name in unread or (limit is not None and limit.nano == request.nano):
            continue
        here = Path("requests").key(name)
        if limit is None and _is_exact(name):
            wanted = f"must be set, and equal to the request of {canonical(request)}"
            found.append(Problem(Path("limits").key(name), None, wanted))
        elif limit is not None and _is_exact(name):
            found.append(
                Problem(
                    here, written.get(name), f"must be equal to the limit of {canonical(limit)}"
                )
            )
        elif limit is not None and request.nano > limit.nano:
            found.append(
                Problem(here, written.get(name), f"must be at most the limit of {canonical(limit)}")
            )
    if (
        any(name.startswith(_HUGEPAGES) for name in all_requests)
        and not _CPU_AND_MEMORY & all_requests.keys()
    ):
        found.append(Problem(Path(), None, "must have cpu or memory beside hugepages"))
    return found


def amount_problems(resources: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with each amount of raw ``resources`` that the schema takes, whatever they are merged with."""
    for key in ("limits", "requests"):
        for name, raw in values.obj(resources.get(key)).items():
            try:
                amount = parse(raw)
            except QuantityError:
                continue
            for detail in _wrong(name, round_up_milli(amount)):
                yield Problem(Path(key).key(name), raw, detail)


def _readable(resources: Mapping[str, Any], key: str, found: list[Problem]) -> Requests:
    """The amounts that can be read, rounded up to milli; what is wrong with each of them goes to ``found``."""
    amounts: Requests = {}
    for name, raw in values.obj(resources.get(key)).items():
        try:
            amounts[name] = amount = round_up_milli(parse(raw))
        except QuantityError as error:
            found.append(Problem(Path(key).key(name), raw, error.detail))
            continue
        found += (Problem(Path(key).key(name), raw, detail) for detail in _wrong(name, amount))
    return amounts


def _wrong(name: str, amount: Quantity) -> Iterator[str]:
    """What is wrong with one amount whatever stands beside it, as details."""
    if "/" in name:
        if not _QUALIFIED.fullmatch(name) or (name.startswith("requests.") and _is_extended(name)):
            yield "must be of a resource named as DOMAIN/NAME, such as nvidia.com/gpu"
    elif name not in _STANDARD and not name.startswith(_HUGEPAGES):
        yield "must be of cpu, memory, ephemeral-storage, hugepages-SIZE or a DOMAIN/NAME such as nvidia.com/gpu"
    if amount.nano < 0:
        yield "must be 0 or more"
    if _is_extended(name) and amount.nano % NANO:
        yield "must be a whole number"
    if name.startswith(_HUGEPAGES) and not _is_multiple(amount, name.removeprefix(_HUGEPAGES)):
        yield "must be a multiple of the page size, which the name of the resource ends with"


def _is_multiple(amount: Quantity, page_text: str) -> bool:
    try:
        page = parse(page_text)
    except QuantityError:
        return False
    return page.nano > 0 and page.nano % NANO == 0 and value(amount) % value(page) == 0


def _is_extended(name: str) -> bool:
    """Whether this is a device or the like: a name with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


def _is_exact(name: str) -> bool:
    """Whether request and limit must be equal, because the resource cannot be overcommitted."""
    return _is_extended(name) or name.startswith(_HUGEPAGES)
