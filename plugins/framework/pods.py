"""Pieces of pods that several plugins put in: env entries, owner references, the rendezvous address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names

if TYPE_CHECKING:
    from plugins.framework.info import Container, Info

INDEX_REF: Final[dict[str, Any]] = {"fieldRef": {"fieldPath": names.COMPLETION_INDEX}}
"""Where a pod of an Indexed Job finds its rank."""


def env(name: str, value: str) -> dict[str, Any]:
    """A literal entry."""
    return {"name": name, "value": value}


def env_from_index(name: str) -> dict[str, Any]:
    """An entry that holds the pod's completion index."""
    return {"name": name, "valueFrom": INDEX_REF}


def trainer_container(info: Info) -> Container | None:
    """The trainer's container ``node``, under construction."""
    trainer = info.trainer
    return trainer.edit(names.NODE) if trainer is not None else None


def trainer_env(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of a TrainJob as the Trainer puts them into pods (semantics 3.7).

    With ``valueFrom`` the value is dropped; of a reference only the four old kinds survive, and of each only
    the fields below.
    """
    return [_entry(entry) for entry in entries]


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    name = values.text(entry.get("name"))
    source = entry.get("valueFrom")
    if type(source) is not dict:
        return {"name": name, "value": values.text(entry.get("value"))}
    out: dict[str, Any] = {}
    ref = source.get("fieldRef")
    if type(ref) is dict:
        out["fieldRef"] = {"fieldPath": values.text(ref.get("fieldPath"))}
    ref = source.get("resourceFieldRef")
    if type(ref) is dict:
        out["resourceFieldRef"] = {
            "containerName": values.text(ref.get("containerName")),
            "resource": values.text(ref.get("resource")),
            "divisor": str(ref.get("divisor", "0")),
        }
    for kind in ("configMapKeyRef", "secretKeyRef"):
        ref = source.get(kind)
        if type(ref) is dict:
            out[kind] = {"key": values.text(ref.get("key")), "name": values.text(ref.get("name"))}
            if type(ref.get("optional")) is bool:
                out[kind]["optional"] = ref["optional"]
    return {"name": name, "valueFrom": out}


def master_address(info: Info) -> str:
    """The first pod of the job ``node``; fixed to that name and to the TrainJob's name as subdomain (G11)."""
    name = info.job.name
    return f"{name}-{names.NODE}-0-0.{name}"


def owner(info: Info) -> list[dict[str, Any]]:
    """The owner reference that every built object carries. The uid is empty before the object is stored."""
    return [
        {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAIN_JOB,
            "name": info.job.name,
            "uid": values.text(info.job.metadata.get("uid")),
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def metadata(info: Info, namespace: str, name: str) -> dict[str, Any]:
    """Metadata of a built object."""
    return {"name": name, "namespace": namespace, "ownerReferences": owner(info)}


def made(info: Info, namespace: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """An object of the core API that the controller makes for a TrainJob: a ConfigMap or a Secret."""
    head = {"apiVersion": "v1", "kind": kind, "metadata": metadata(info, namespace, name)}
    return {**head, **fields}


def set_trainer_count(info: Info) -> None:
    """``trainer.numNodes``, if set, becomes the count of the first pod set with the ancestor ``trainer``."""
    count = info.job.num_nodes
    trainer = info.trainer
    if count is not None and trainer is not None:
        trainer.count = count
