"""Raw objects of our group to typed documents, with every mistake by its exact path.

::

    found = reading.read(raw)
    found.document    # Policy, PolicyException, or None where there is an error
    found.errors      # list[FieldError]: spec.limits[0].total.max: Invalid value: "8 GB": must be a number, ...
    found.warnings    # list[str]: allowed, and seldom meant

Any JSON may be given. What the API server checks by the CRDs' schemas is checked here too, so that a file and a cluster
say the same; a document that is accepted here is accepted there (``tests/policies/test_crds.py``). CEL is not looked
at but for its length: expressions are compiled elsewhere.

The parts: ``fields`` takes objects apart, ``syntax`` knows names and moments, ``bounds`` numbers; ``match``, ``rules``,
``policy`` and ``exception`` read the documents' parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from plugins.framework import field as words
from plugins.framework.api.names import DEFAULT_NAMESPACE
from plugins.framework.field import FieldError, Path
from plugins.framework.schema.syntax import not_label_1123, not_subdomain
from policies.document import (
    API_VERSION,
    EXCEPTION,
    KINDS,
    NAMESPACED_POLICY,
    POLICY,
    FailurePolicy,
    Key,
    Match,
    Policy,
    PolicyException,
)
from policies.reading import exception, policy
from policies.reading.bounds import LONGEST_OBJECT_NAME
from policies.reading.fields import Fields, Notes, unsupported

__all__ = ["Read", "read"]

_SPEC: Final = {
    POLICY: policy.SPEC,
    NAMESPACED_POLICY: policy.SPEC,
    EXCEPTION: exception.SPEC,
}
_ROOT: Final = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One object, as far as it could be read."""

    document: Policy | PolicyException | None
    """None where there is an error: nothing is half in force."""
    errors: list[FieldError]
    warnings: list[str] = field(default_factory=list)
    key: Key | None = None
    """What it is known by; None where kind or name cannot be read."""
    failure_policy: FailurePolicy = "Fail"
    """What an unsound policy does to the requests that it matches; ``Fail`` unless it says otherwise."""
    match: Match | None = None
    """Which those are; None where that cannot be read either: all that it could reach."""
    partial: Policy | None = None
    """An unsound policy as far as it could be read: for lint, which looks at its expressions too. Never in force."""


def read(raw: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Read:
    """Read one object of any shape. A namespaced one that names no namespace is in ``namespace``, as with kubectl."""
    notes = Notes()
    root = notes.open(raw, Path(), _ROOT)
    if root is None:
        return Read(document=None, errors=notes.errors)
    kind = _kind(root)
    key, metadata = _key(root, kind, namespace)
    if not kind:
        return Read(document=None, errors=notes.errors)
    if not root.require("spec", f"a {kind} says all in its spec"):
        return Read(document=None, errors=notes.errors, warnings=notes.warnings, key=key)
    spec = root.object("spec", _SPEC[kind])
    if spec is None:
        return Read(document=None, errors=notes.errors, warnings=notes.warnings, key=key)
    known = key or Key(kind, "", "")
    document: Policy | PolicyException
    if kind == EXCEPTION:
        document = exception.exception(spec, known, metadata)
        return _result(notes, document, key)
    document = policy.policy(spec, known, metadata)
    if not notes.errors:
        return _result(notes, document, key)
    return Read(
        document=None,
        errors=notes.errors,
        warnings=notes.warnings,
        key=key,
        failure_policy=document.failure_policy,
        match=_sound_match(spec),
        partial=document,
    )


def _result(notes: Notes, document: Policy | PolicyException, key: Key | None) -> Read:
    return Read(
        document=None if notes.errors else document,
        errors=notes.errors,
        warnings=notes.warnings,
        key=key,
        failure_policy=document.failure_policy if isinstance(document, Policy) else "Fail",
        match=document.match if isinstance(document, Policy) else None,
    )


def _sound_match(spec: Fields) -> Match | None:
    """``match`` of a policy that is wrong elsewhere; None where it is wrong itself."""
    aside = Notes()
    found = policy.matched(Fields(aside, spec.path, spec.raw), is_namespaced=False)
    return None if aside.errors else found


def _kind(root: Fields) -> str:
    if root.require("apiVersion", API_VERSION) and root.raw["apiVersion"] != API_VERSION:
        root.invalid("apiVersion", f"must be {API_VERSION}")
    if not root.require("kind", f"one of {', '.join(KINDS)}"):
        return ""
    kind = root.raw["kind"]
    if type(kind) is str and kind in KINDS:
        return kind
    if type(kind) is str:
        root.notes.error(unsupported(Path("kind"), kind, KINDS))
    else:
        root.notes.error(words.type_invalid(Path("kind"), kind, "must be a string"))
    return ""


def _key(root: Fields, kind: str, namespace: str) -> tuple[Key | None, Mapping[str, Any]]:
    """Of ``metadata`` only the names are looked at: the API server has judged, or written, the rest."""
    root.require("metadata", "an object is known by its name")
    if "metadata" not in root:
        return None, {}
    raw, notes = root.raw["metadata"], root.notes
    if type(raw) is not dict:
        notes.error(words.type_invalid(Path("metadata"), raw, "must be an object"))
        return None, {}
    metadata = Fields(notes, Path("metadata"), {k: v for k, v in raw.items() if v is not None})
    given = "name" if "name" in metadata or "generateName" not in metadata else "generateName"
    metadata.require(given, "name or generateName is required")
    name = metadata.text(given, LONGEST_OBJECT_NAME)
    for problem in (
        not_subdomain(name.rstrip("-") or name if given != "name" else name) if name else ()
    ):
        metadata.invalid(given, problem)
    where = metadata.text("namespace", LONGEST_OBJECT_NAME)
    if kind == POLICY:
        if where:
            notes.warn(metadata.at("namespace"), f"is ignored: a {POLICY} is for all namespaces")
        where = ""
    else:
        where = where or namespace
        for problem in not_label_1123(where):
            metadata.invalid("namespace", problem)
    return (Key(kind, where, name) if kind and name else None), metadata.raw
