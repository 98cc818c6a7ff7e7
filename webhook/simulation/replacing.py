"""The cluster as it would be: with other policies, or with changed runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import schema, values
from plugins.framework.api import names
from plugins.framework.cluster import document_key, keep
from policies import reading
from policies.compile import PolicySet
from policies.document import Policy, PolicyException

if TYPE_CHECKING:
    from plugins.framework.cluster import Documents, Snapshot
    from plugins.framework.field import FieldError
    from plugins.framework.lines import Line
    from plugins.framework.runtime import CompiledRuntime

Key = tuple[str, str, str]

_ALWAYS: Final = names.POLICY
"""The kind of which a new set replaces all, also where it holds none."""


@dataclass(slots=True, kw_only=True)
class Replaced:
    """What becomes of the policies, or of the runtimes, of a cluster."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, list[str]]:
        """With names of kinds and documents."""
        return {"new": self.new, "changed": self.changed, "gone": self.gone, "same": self.same}

    def add(self, key: Key, before: CompiledRuntime | None, after: CompiledRuntime | None) -> None:
        """Note what becomes of one runtime."""
        if before is None:
            self.new.append(_title(key))
        elif after is not None and values.same(before.raw["spec"], after.raw["spec"]):
            self.same.append(_title(key))
        else:
            self.changed.append(_title(key))


def replace_policies(
    snapshot: Snapshot, new: Sequence[dict[str, Any]], *, keeps_others: bool
) -> tuple[Snapshot, Replaced]:
    """The snapshot with these documents, and how they differ from those before.

    TrainJobPolicies that are not among them are gone; so are namespaced policies and exceptions, which belong to teams,
    where ``new`` holds any of that kind. With ``keeps_others``, and of ConfigMaps, only what has the same name is
    replaced.
    """
    before = snapshot.documents
    held = {document_key(obj): _dated(keep(obj), before) for obj in new}
    kinds = {_ALWAYS, *(kind for kind, _, _ in held)} - {names.CONFIG_MAP}
    kept = {
        key: obj
        for key, obj in before.items()
        if key not in held and (keeps_others or key[0] not in kinds)
    }
    after = {**kept, **held}
    for kind in (*names.POLICY_DOCUMENTS, names.CONFIG_MAP):
        snapshot = snapshot.with_all(kind, [obj for key, obj in after.items() if key[0] == kind])
    return snapshot, _differences(before, after)


def problems(snapshot: Snapshot, new: Sequence[dict[str, Any]]) -> Iterator[tuple[int, FieldError]]:
    """All that is wrong with the new documents, each with its place among them: such policies decide nothing."""
    places = {document_key(obj): i for i, obj in enumerate(new)}
    for key, errors in PolicySet.of(snapshot.documents).problems():
        for error in errors if key in places else ():
            yield places[key], error


def who_created(snapshot: Snapshot, before: Snapshot) -> list[str]:
    """New or changed policies and exceptions that ask who created a job, which the records of stored jobs cannot say of them."""
    found: list[str] = []
    for key, raw in snapshot.documents.items():
        document = _read(raw)
        asks = (
            document.match.subjects is not None
            if isinstance(document, Policy)
            else isinstance(document, PolicyException) and bool(document.requested_by)
        )
        if asks and _asks_whom(document) != _asks_whom(_read(before.documents.get(key, {}))):
            found.append(_title(key))
    return sorted(found)


def replace_runtime(
    snapshot: Snapshot, raw: dict[str, Any], line: Line
) -> tuple[Snapshot, list[FieldError]]:
    """The snapshot with a runtime in the place of the one of its name; and why the API server would not store it."""
    kind = values.text(raw.get("kind"))
    admitted = schema.load(line.name).admit(kind, raw)
    if admitted.errors:
        return snapshot, admitted.errors
    return snapshot.replaced({**admitted.obj, "kind": kind}), []


def runtime_key(raw: dict[str, Any]) -> Key:
    """Kind, namespace ("" of a ClusterTrainingRuntime) and name of a runtime."""
    metadata = values.obj(raw.get("metadata"))
    kind = values.text(raw.get("kind"))
    namespace = values.text(metadata.get("namespace")) or names.DEFAULT_NAMESPACE
    is_everywhere = kind == names.CLUSTER_TRAINING_RUNTIME
    return kind, "" if is_everywhere else namespace, values.text(metadata.get("name"))


def _dated(obj: dict[str, Any], before: Documents) -> dict[str, Any]:
    """What is replaced keeps its age, by which exceptions expire."""
    made = values.at(before.get(document_key(obj), {}), "metadata", "creationTimestamp")
    if made is None or "creationTimestamp" in obj["metadata"]:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": made}}


def _differences(before: Documents, after: Documents) -> Replaced:
    out = Replaced()
    for key in sorted({*before, *after}):
        if key not in before:
            out.new.append(_title(key))
        elif key not in after:
            out.gone.append(_title(key))
        elif _is_same(before[key], after[key]):
            out.same.append(_title(key))
        else:
            out.changed.append(_title(key))
    return out


def _title(key: Key) -> str:
    kind, namespace, name = key
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """By what they mean: an API server writes defaults into what it stores."""
    if one.get("kind") == names.CONFIG_MAP:
        return values.same(one.get("data"), other.get("data"))
    left, right = _read(one), _read(other)
    if left is None or right is None:
        return values.same(one.get("spec"), other.get("spec"))
    return left == right


def _read(raw: dict[str, Any]) -> Policy | PolicyException | None:
    """The document, without what the API server counts."""
    metadata = values.obj(raw.get("metadata"))
    plain = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return reading.read({**raw, "metadata": plain}).document


def _asks_whom(document: Policy | PolicyException | None) -> object:
    if isinstance(document, Policy):
        return document.match.subjects
    return None if document is None else document.requested_by
