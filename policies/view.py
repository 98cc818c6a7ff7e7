"""What CEL sees of a job: the variables of an expression as plain JSON, made only as far as somebody reads them.

Those of ValidatingAdmissionPolicy (``object``, ``oldObject``, ``request``, ``namespaceObject``, ``params``), and what
only we know: ``runtime``, ``podSets`` (the pods as they will be), ``totals``, ``provenance``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import applied, field, quantity, totals, values
from policies import cel, tally
from policies.matching import namespace_labels

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info, PodSet
    from plugins.framework.quantity import Quantity

_AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage", "storage")
_NANO: Final = 1_000_000_000

USER: Final = "user"


class View:
    """One job in one round. Each variable is made when it is first asked for, and then kept."""

    __slots__ = ("_activation", "_ctx", "_kept", "_old", "_raw", "_resolved")

    def __init__(
        self,
        ctx: Context,
        resolved: Callable[[], Info],
        raw: dict[str, Any],
        old: dict[str, Any] | None,
    ) -> None:
        """``raw`` is the TrainJob as it is now, ``resolved`` gives the same resolved, ``old`` is the stored one on UPDATE."""
        self._ctx = ctx
        self._resolved = resolved
        self._raw = raw
        self._old = old
        self._kept: dict[str, Any] = {}
        self._activation: cel.Activation | None = None

    def activation(
        self, reads: frozenset[cel.ReadPath], *, params: dict[str, Any] | None = None
    ) -> cel.Activation:
        """The data for expressions that read this. Without params it is made once, for all policies.

        Raises QuantityError where the totals are read and an amount of the job cannot be.
        """
        if params is None and self._activation is not None:
            return self._activation
        data = {name: self.get(name) for name in sorted({read[0] for read in reads})}
        if params is not None:
            data["params"] = params
        made = cel.Activation(data, reads=reads)
        if params is None:
            self._activation = made
        return made

    def get(self, name: str) -> Any:
        """The value of a variable; None where there is none of that name (``oldObject`` on CREATE)."""
        if name not in self._kept:
            make = _MAKERS.get(name)
            self._kept[name] = None if make is None else make(self)
        return self._kept[name]

    def _object(self) -> Any:
        return self._raw

    def _old_object(self) -> Any:
        return self._old

    def _request(self) -> Any:
        request = self._ctx.request
        user = request.user
        _, _, version = values.text(self._raw.get("apiVersion")).partition("/")
        return {
            "kind": {"group": request.group, "version": version, "kind": request.kind},
            "resource": {
                "group": request.group,
                "version": version,
                "resource": request.resource,
            },
            "operation": request.operation,
            "name": request.name,
            "namespace": request.namespace,
            "subResource": request.subresource,
            "dryRun": request.dry_run,
            "options": dict(request.options),
            "userInfo": {
                "username": user.username,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": dict(user.extra),
            },
        }

    def _namespace(self) -> Any:
        name = self._ctx.namespace
        known = self._ctx.cluster.namespaces.get(name)
        return {
            "metadata": {"name": name, **(known or {}), "labels": namespace_labels(name, known)}
        }

    def _runtime(self) -> Any:
        runtime = self._resolved().runtime
        return {
            "kind": runtime.kind,
            "metadata": values.obj(runtime.raw.get("metadata")),
            "spec": values.obj(runtime.raw.get("spec")),
        }

    def _pod_sets(self) -> Any:
        return [_pod_set(pod_set) for pod_set in self._resolved().pod_sets]

    def _totals(self) -> Any:
        info = self._resolved()
        return {
            "nodes": tally.nodes(info),
            "pods": tally.pods(info),
            "requests": _amounts(totals.of(info).resources),
        }

    def _provenance(self) -> Any:
        written = self._ctx.written
        record = applied.read(self._raw) if written is None else written
        who = {pointer: mark.rpartition(":")[0] for pointer, mark in record.items()}
        out: dict[str, str] = {}
        for part in ("metadata", "spec"):
            for steps in _leaves(values.obj(self._raw.get(part)), (part,)):
                out[field.pointer(steps)] = _owner(steps, who)
        return out


_MAKERS: Final[Mapping[str, Callable[[View], Any]]] = {
    "object": View._object,  # noqa: SLF001  # its own
    "oldObject": View._old_object,  # noqa: SLF001
    "request": View._request,  # noqa: SLF001
    "namespaceObject": View._namespace,  # noqa: SLF001
    "runtime": View._runtime,  # noqa: SLF001
    "podSets": View._pod_sets,  # noqa: SLF001
    "totals": View._totals,  # noqa: SLF001
    "provenance": View._provenance,  # noqa: SLF001
}


def _pod_set(pod_set: PodSet) -> dict[str, Any]:
    return {
        "name": pod_set.name,
        "ancestor": pod_set.ancestor or "",
        "count": pod_set.pods,
        "metadata": pod_set.metadata,
        "spec": pod_set.spec,
        "requests": _amounts(pod_set.requests),
    }


def _amounts(amounts: Mapping[str, Quantity]) -> dict[str, Any]:
    """Whole numbers where a resource counts things, else the canonical text for ``quantity()``."""
    return {name: _amount(name, amounts[name]) for name in sorted(amounts)}


def _amount(name: str, amount: Quantity) -> int | str:
    measured = name in _AMOUNTS or name.startswith("hugepages-")
    if measured or amount.nano % _NANO or not quantity.fits_int64(name, amount):
        return quantity.canonical(amount)
    return amount.nano // _NANO


def _leaves(value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Every place that holds neither an object nor a list of objects."""
    if type(value) is dict and value:
        for key, item in value.items():
            if key not in {"managedFields", "annotations"} or steps != ("metadata",):
                yield from _leaves(item, (*steps, key))
    elif type(value) is list and any(type(item) is dict for item in value):
        for i, item in enumerate(value):
            yield from _leaves(item, (*steps, i))
    else:
        yield steps


def _owner(steps: tuple[str | int, ...], who: Mapping[str, str]) -> str:
    """Who wrote a place: the one recorded for it or for what holds it, else the user."""
    for end in range(len(steps), 0, -1):
        found = who.get(field.pointer(steps[:end]))
        if found is not None:
            return found
    return USER
