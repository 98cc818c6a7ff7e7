"""A TrainJob as plugins read it: the raw object with names for what is asked often."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from plugins.framework.api import names
from plugins.framework.values import EMPTY, has_directives, objects, text


def _obj(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else EMPTY


class TrainJob:
    """A read-only view. Built once per object and revision; every attribute is a plain look-up.

    ``trainer``, ``initializer`` are None where the object has none (or an unreadable one), as the Trainer's
    plugins distinguish absence from emptiness.
    """

    __slots__ = ("_directives", "_env_names", "metadata", "raw", "spec", "trainer")

    def __init__(self, raw: dict[str, Any]) -> None:
        """View ``raw``; nothing is copied."""
        self.raw = raw
        self.metadata: dict[str, Any] = _obj(raw.get("metadata"))
        self.spec: dict[str, Any] = _obj(raw.get("spec"))
        trainer = self.spec.get("trainer")
        self.trainer: dict[str, Any] | None = trainer if type(trainer) is dict else None
        self._env_names: AbstractSet[str] | None = None
        self._directives: bool | None = None

    @property
    def name(self) -> str:
        """``metadata.name``; for an object that has only ``generateName`` that prefix and ``00000``.

        The store makes the real suffix of five characters after the mutating phase.
        """
        name = self.metadata.get("name")
        if name:
            return text(name)
        prefix = self.metadata.get("generateName")
        return f"{text(prefix)}00000" if prefix else ""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, which the API server may leave out; the Context knows better."""
        return text(self.metadata.get("namespace"))

    @property
    def labels(self) -> dict[str, Any]:
        """``metadata.labels``."""
        return _obj(self.metadata.get("labels"))

    @property
    def annotations(self) -> dict[str, Any]:
        """``metadata.annotations``."""
        return _obj(self.metadata.get("annotations"))

    @property
    def runtime_ref(self) -> dict[str, Any]:
        """``spec.runtimeRef``."""
        return _obj(self.spec.get("runtimeRef"))

    @property
    def runtime_kind(self) -> str:
        """``runtimeRef.kind``; absent is the CRD's default, present and empty stays empty."""
        return text(self.runtime_ref.get("kind", names.CLUSTER_TRAINING_RUNTIME))

    @property
    def runtime_group(self) -> str:
        """``runtimeRef.apiGroup``; absent is the CRD's default."""
        return text(self.runtime_ref.get("apiGroup", names.GROUP))

    @property
    def runtime_name(self) -> str:
        """``runtimeRef.name``."""
        return text(self.runtime_ref.get("name"))

    @property
    def initializer(self) -> dict[str, Any]:
        """``spec.initializer``, empty where there is none."""
        return _obj(self.spec.get("initializer"))

    @property
    def is_suspended(self) -> bool:
        """``spec.suspend``."""
        return self.spec.get("suspend") is True

    @property
    def is_finished(self) -> bool:
        """Whether a condition says Complete or Failed."""
        conditions = objects(_obj(self.raw.get("status")).get("conditions"))
        return any(
            c.get("type") in {"Complete", "Failed"} and c.get("status") == "True"
            for c in conditions
        )

    @property
    def is_terminating(self) -> bool:
        """Whether deletion has begun."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def is_managed_elsewhere(self) -> bool:
        """Whether another controller (MultiKueue) runs this job."""
        return self.spec.get("managedBy") == names.MULTIKUEUE

    @property
    def num_nodes(self) -> int | None:
        """``trainer.numNodes``."""
        value = self.trainer.get("numNodes") if self.trainer else None
        return value if type(value) is int else None

    @property
    def num_proc_per_node(self) -> int | str | None:
        """``trainer.numProcPerNode``; a word only up to Trainer 2.1."""
        value = self.trainer.get("numProcPerNode") if self.trainer else None
        return value if type(value) is int or type(value) is str else None

    @property
    def resources_per_node(self) -> dict[str, Any] | None:
        """``trainer.resourcesPerNode``; None where it is not set at all."""
        value = self.trainer.get("resourcesPerNode") if self.trainer else None
        return value if type(value) is dict else None

    @property
    def env(self) -> list[dict[str, Any]]:
        """``trainer.env``."""
        return objects(self.trainer.get("env")) if self.trainer else []

    @property
    def env_names(self) -> AbstractSet[str]:
        """Names in ``trainer.env``; several plugins look for reserved ones among them."""
        if self._env_names is None:
            entries = self.trainer.get("env") if self.trainer else None
            self._env_names = (
                {e["name"] for e in entries if type(e) is dict and type(e.get("name")) is str}
                if type(entries) is list
                else set()
            )
        return self._env_names

    def without_directives(self) -> TrainJob:
        """Note that somebody has looked already, and found none."""
        self._directives = False
        return self

    def has_directives(self, overrides: str) -> bool:
        """Whether the field of overrides holds keys such as ``$patch`` anywhere."""
        if self._directives is None:
            self._directives = has_directives(self.spec.get(overrides))
        return self._directives

    def words(self, key: str) -> list[str] | None:
        """``trainer.command`` or ``trainer.args``; None where it is not set."""
        value = self.trainer.get(key) if self.trainer else None
        return value if type(value) is list else None
