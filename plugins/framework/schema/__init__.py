"""What the API server does to a TrainJob or a runtime before anybody else sees it, from tables of its facts.

Offline nobody stands in front of us, so an object from a file first meets here what it would meet there::

    schemas = schema.load("2.3")
    admitted = schemas.admit("TrainJob", obj)            # or admit(kind, obj, old) for an update
    admitted.obj      # a new object: nulls and unknown fields out, defaults in; parts of obj may be shared
    admitted.errors   # list[FieldError], in the order of the schema, worded as the API server words them
    admitted.pruned   # ["spec.trainer.foo", ...]: fields that no schema knows and that are gone from obj
    admitted.partial  # True: list keys and rules not looked at, since types, required fields, ... are wrong

In the cluster the API server has done that already (types excepted, before the mutating call), so the server only
asks whether the object can be read at all::

    fits = schemas.fits("TrainJob")     # once
    if not fits(obj):                   # about 15 us, no messages
        errors = schemas.check("TrainJob", obj, old)

``fits`` looks at JSON types alone, wants whole numbers as ints, and does not look at fields that it does not know, nor at
``managedFields``. Where ``fits`` is True, every known field that is present has the type of the schema and is
not null; where it is False, ``check`` has something to say (unless ``old`` holds the same). Kinds are ``TrainJob``,
``TrainingRuntime`` and ``ClusterTrainingRuntime``; lines those of ``LINES``. Nothing given is changed, and work and
messages are bounded for input of any size and shape.

The parts, in the order in which an object meets them: ``object_meta`` (metadata as Go decodes it), ``shape`` (prune,
default), ``meta`` and ``syntax`` (metadata as the API server judges it), ``check`` (the schema), ``lists`` (keys of
list-maps), ``cel`` (rules); ``node`` reads the tables, ``walk`` pairs an object with its old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from plugins.framework import field
from plugins.framework.field import FieldError
from plugins.framework.schema import cel, lists, meta, object_meta
from plugins.framework.schema.check import Checker, json_type
from plugins.framework.schema.fits import Fits, compile_root
from plugins.framework.schema.node import Node, read_nodes
from plugins.framework.schema.shape import Shaper

__all__ = ["LINES", "Admitted", "Fits", "Schemas", "load"]

LINES: Final = ("2.0", "2.1", "2.2", "2.3")
_TABLES: Final = Path(__file__).resolve().parent.parent / "tables"
"""Read as a file: ``importlib.resources`` would cost a command more time than the table does."""
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"

_BLOCKING: Final = frozenset(
    {
        field.ErrorType.NOT_SUPPORTED,
        field.ErrorType.REQUIRED,
        field.ErrorType.TOO_LONG,
        field.ErrorType.TOO_MANY,
        field.ErrorType.TYPE_INVALID,
        field.ErrorType.INTERNAL,
    }
)
"""After an error of these types the API server leaves the CEL rules alone (``hasBlockingErr``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An object as the API server would keep it, and what it would say about it."""

    obj: dict[str, Any]
    errors: list[FieldError]
    pruned: list[str]
    partial: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    root: Node
    namespaced: bool
    has_status: bool


class Schemas:
    """The facts of one line."""

    def __init__(self, raw: dict[str, Any]) -> None:
        """Read a table of ``plugins/framework/tables``."""
        nodes = read_nodes(raw["nodes"], raw["rules"])
        self._kinds = {
            name: _Kind(name, nodes[kind["root"]], kind["namespaced"], kind["status"])
            for name, kind in raw["kinds"].items()
        }
        self._fits: dict[str, Fits] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that have a schema."""
        return tuple(self._kinds)

    def root(self, kind: str) -> Node:
        """The schema of a kind, for whoever takes pieces of its objects from elsewhere (policies do)."""
        return self._kinds[kind].root

    def admit(self, kind: str, obj: Any, old: Any = None) -> Admitted:
        """What the API server makes of ``obj`` on create, or on update where ``old`` is given.

        ``old`` is what is stored, or a file that stands for it; it is brought into shape too.
        """
        facts = self._kinds[kind]
        if type(obj) is not dict:
            return Admitted(obj={}, errors=[_no_object(kind, obj)], pruned=[], partial=True)
        stored = None
        if type(old) is dict:
            stored, _, _ = _shape(facts, old)
        new, pruned, errors = _shape(facts, obj)
        if facts.has_status:
            # Only the status subresource writes it (PrepareForCreate, PrepareForUpdate).
            new.pop("status", None)
            if stored is not None and "status" in stored:
                new["status"] = stored["status"]
        errors += _check_type_meta(kind, new)
        if stored is None:
            for name in meta.WIPED:
                new["metadata"].pop(name, None)
            errors += meta.check_create(new["metadata"], namespaced=facts.namespaced)
        else:
            errors += meta.check_update(new["metadata"], stored["metadata"])
        checker = Checker()
        checker.check_root(facts.root, new, stored)
        errors += checker.errors
        if stored is None or not lists.duplicates(facts.root, stored):
            errors += lists.duplicates(facts.root, new)
        partial = any(error.type in _BLOCKING for error in errors)
        if not partial:
            errors += cel.breaches(facts.root, new, stored)
        return Admitted(obj=new, errors=errors, pruned=pruned, partial=partial)

    def check(self, kind: str, obj: Any, old: Any = None) -> list[FieldError]:
        """Why an object from the API server cannot be read: its types, required fields and bounds.

        What ``old``, the stored object, holds as well is not checked again: a line may have changed the type.
        Apart from that, never empty where ``fits`` is False.
        """
        facts = self._kinds[kind]
        if type(obj) is not dict:
            return [_no_object(kind, obj)]
        errors = [
            field.type_invalid(name, obj[name], f"{name} in body must be of type string")
            for name in ("apiVersion", "kind")
            if name in obj and type(obj[name]) is not str
        ]
        if "metadata" in obj:
            errors += object_meta.check_types(obj["metadata"])
        checker = Checker(strict=True)
        checker.check_root(facts.root, obj, old if type(old) is dict else None)
        return errors + checker.errors

    def fits(self, kind: str) -> Fits:
        """The compiled check of types for objects of this kind."""
        if kind not in self._fits:
            self._fits[kind] = compile_root(self._kinds[kind].root, object_meta.fits)
        return self._fits[kind]


def _shape(facts: _Kind, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[FieldError]]:
    pruned: list[str] = []
    metadata, errors = object_meta.coerce(obj.get("metadata"), pruned)
    if not facts.namespaced:
        metadata.pop("namespace", None)  # cleared for clients that set it anyway (rest/meta.go)
    shaper = Shaper()
    shaped = shaper.root(facts.root, obj) | {"metadata": metadata}
    return shaped, pruned + sorted(shaper.pruned), errors


def _no_object(kind: str, value: Any) -> FieldError:
    return field.type_invalid("", json_type(value), f"must be an object of kind {kind}")


def _check_type_meta(kind: str, obj: dict[str, Any]) -> list[FieldError]:
    errors = []
    if obj.get("kind") != kind:
        errors.append(field.invalid("kind", obj.get("kind", ""), f"must be {kind}"))
    if obj.get("apiVersion") != API_VERSION:
        errors.append(
            field.invalid("apiVersion", obj.get("apiVersion", ""), f"must be {API_VERSION}")
        )
    return errors


@lru_cache(maxsize=len(LINES))
def load(line: str) -> Schemas:
    """The schemas of one line (``2.0`` to ``2.3``), read when first asked for."""
    if line not in LINES:
        message = f"no tables for the line {line!r}; there are: {', '.join(LINES)}"
        raise ValueError(message)
    return Schemas(orjson.loads((_TABLES / f"schema-{line}.json").read_bytes()))
