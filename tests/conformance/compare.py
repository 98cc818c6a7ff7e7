"""Ours against theirs: what Stationmaster predicts and what the Trainer's own code answers, field by field.

A difference is a path, our value, their value. Amounts are compared by value; key material, script bodies and
the runtime snapshot by their keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import lines, profile, quantity
from plugins.framework.api.admission import AdmissionRequest
from plugins.framework.cluster import Snapshot
from plugins.framework.context import Context
from plugins.framework.errors import BuildError
from plugins.framework.pipeline import Pipeline
from plugins.registry import in_tree, registry

if TYPE_CHECKING:
    from collections.abc import Iterator

_AMOUNT_MAPS: Final = frozenset({"limits", "requests", "capacity", "overhead", "minResources"})
_AMOUNTS: Final = frozenset({"divisor", "sizeLimit"})
_KEYS_ONLY: Final = (
    ("Secret", ""),
    ("ConfigMap", "-runtime-snapshot"),
    ("ConfigMap", "-flux-entrypoint"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where the two disagree; ``None`` where a side has nothing."""

    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        """Print on one line."""
        return f"{self.path}: ours {self.ours!r}, theirs {self.theirs!r}"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one side makes of a case."""

    objects: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def pipeline() -> Pipeline:
    """The default profile."""
    return Pipeline(registry(), profile.default([spec.name for spec in in_tree()]))


def context(line: str, snapshot: Snapshot, *, operation: str = "CREATE", **objects: Any) -> Context:
    """The surroundings of a case in namespace ``default``."""
    request = AdmissionRequest(
        uid="conformance",
        operation=operation,
        group="trainer.kubeflow.org",
        resource="trainjobs",
        kind="TrainJob",
        namespace="default",
        **objects,
    )
    return Context(
        request=request,
        cluster=snapshot,
        line=lines.LINES[line],
        namespace="default",
        clock=lambda: 0.0,
    )


def ours(pipe: Pipeline, line: str, train_job: dict[str, Any], runtime: dict[str, Any]) -> Outcome:
    """Our prediction from the objects as the API server stores them."""
    ctx = context(line, Snapshot.of([runtime]))
    info = pipe.resolve(ctx, train_job)
    if info is None:
        return Outcome(error="no such runtime")
    try:
        return Outcome(objects=keyed(pipe.build(ctx, info)))
    except BuildError as error:
        return Outcome(error=str(error))


def existing(case: dict[str, Any]) -> frozenset[str]:
    """Keys of the objects that the cluster of a case has already, and that the controller may leave alone.

    We predict the first reconcile of a TrainJob. The controller does not apply again what exists and must
    not change (semantics 2.8, 4.4, 5.4).
    """
    keys = {_key(o) for o in case.get("objects") or []}
    if case.get("reconciles", 1) > 1:
        keys |= {"*"}
    return frozenset(keys)


def has_snapshot(case: dict[str, Any]) -> bool:
    """Whether the cluster of a case holds a runtime snapshot of this name: then that runtime counts."""
    return any(key.endswith("-runtime-snapshot") for key in existing(case))


def theirs(answer: dict[str, Any]) -> list[Outcome]:
    """Every distinct outcome of the Trainer's random plugin order."""
    found = answer.get("variants") or [answer]
    return [
        Outcome(
            objects=keyed(v.get("objects") or []),
            error=v.get("buildError") or v.get("buildPanic") or _undecodable(v),
        )
        for v in found
    ]


def _undecodable(answer: dict[str, Any]) -> str:
    """What Go says of a TrainJob that the schema lets pass and its types cannot hold."""
    details = (e.get("detail", "") for e in answer.get("webhookErrors") or [])
    return next((d for d in details if d.startswith("json: cannot unmarshal")), "")


def keyed(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Objects by kind and name, in comparable form."""
    return {_key(o): _comparable(o) for o in objects}


def _key(obj: dict[str, Any]) -> str:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = f"{obj.get('kind')}.{group}" if obj.get("kind") == "PodGroup" else obj.get("kind")
    return f"{kind}/{obj.get('metadata', {}).get('name')}"


def _comparable(obj: dict[str, Any]) -> Any:
    name = str(obj.get("metadata", {}).get("name"))
    for kind, suffix in _KEYS_ONLY:
        if obj.get("kind") == kind and name.endswith(suffix):
            obj = {**obj, "data": dict.fromkeys(obj.get("data") or {}, "")}
    return _canonical(obj, "")


def _canonical(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        if key in _AMOUNT_MAPS:
            return {k: _amount(v) for k, v in value.items()}
        return {
            k: _amount(v) if k in _AMOUNTS and not isinstance(v, dict) else _canonical(v, k)
            for k, v in value.items()
            if v is not None
        }
    if isinstance(value, list):
        return [_canonical(v, key) for v in value]
    return value


def _amount(value: Any) -> Any:
    try:
        return f"{quantity.parse(value).nano}n"
    except (quantity.QuantityError, TypeError):
        return value


def differences(a: Any, b: Any, path: str = "") -> Iterator[Difference]:
    """Where our value ``a`` and their value ``b`` disagree."""
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            yield from differences(a.get(k), b.get(k), f"{path}.{k}" if path else k)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, f"{path}[{i}]")
    elif type(a) is not type(b) or a != b:
        yield Difference(path=path, ours=a, theirs=b)


def compare(
    mine: Outcome, variants: list[Outcome], there: frozenset[str] = frozenset()
) -> list[Difference]:
    """No difference if our outcome equals one of theirs; else the differences to the nearest.

    ``there`` names objects that they may leave out, since the cluster has them.
    """
    best: list[Difference] | None = None
    for other in variants:
        if bool(mine.error) != bool(other.error):
            found = [Difference(path="error", ours=mine.error, theirs=other.error)]
        elif mine.error:
            found = []
        else:
            kept = {
                key: obj
                for key, obj in mine.objects.items()
                if key in other.objects or not (key in there or "*" in there)
            }
            found = list(differences(kept, other.objects))
        if best is None or len(found) < len(best):
            best = found
    return best or []
