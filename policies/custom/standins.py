"""The trainer and the backend that an option is given on the server. Standard library only.

The SDK's own options ask ``isinstance`` of both (sdk-options 2.4). So where an option has brought the SDK with it, these
are of the SDK's classes; elsewhere they are ours, alike in name and fields.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SDK: Final = "kubeflow.trainer"
_BACKEND: Final = "kubeflow.trainer.backends.kubernetes.backend"
_TYPES: Final = "kubeflow.trainer.types.types"
_NOT_HERE: Final = "there is no cluster to be reached from an option on the server"


@dataclass
class CustomTrainer:
    """A trainer whose command the SDK made of a function, which cannot be had back."""

    func: Any = None
    num_nodes: int | None = None
    env: dict[str, str] | None = None


@dataclass
class CustomTrainerContainer:
    """A trainer with an image of the user's."""

    image: str
    num_nodes: int | None = None
    resources_per_node: dict[str, Any] | None = None
    env: dict[str, str] | None = None


@dataclass
class BuiltinTrainer:
    """A trainer for torchtune; its config cannot be had back."""

    config: Any = None


@dataclass(kw_only=True)
class KubernetesBackend:
    """The Kubernetes backend, as far as options may use it."""

    namespace: str
    """That of the TrainJob."""
    train_job: dict[str, Any] = field(default_factory=dict)
    """The TrainJob as it is in this round. A copy: what is written there goes nowhere. The SDK has no such field."""

    @property
    def custom_api(self) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError(_NOT_HERE)

    @property
    def core_api(self) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError(_NOT_HERE)


def _inert(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError(_NOT_HERE)


class Cast:
    """Makes the two, of the SDK's classes where they are there."""

    def __init__(self) -> None:
        """Look whether an option has imported the SDK, and then import the rest of what its options ask for."""
        self._types: Any = None
        self._backend: type[Any] = KubernetesBackend
        if not any(name == SDK or name.startswith(f"{SDK}.") for name in sys.modules):
            return
        try:
            found = importlib.import_module(_TYPES)
            self._backend = _inert_subclass(importlib.import_module(_BACKEND).KubernetesBackend)
        except Exception:  # noqa: BLE001  # an SDK that is no SDK: its options will say so
            return
        self._types = found

    def backend(self, namespace: str, train_job: dict[str, Any]) -> Any:
        """A new one for each call."""
        return self._backend(namespace=namespace, train_job=train_job)

    def trainer(self, given: Mapping[str, Any]) -> Any:
        """The trainer that the job looks like, ``kind`` and its fields; None where it has none."""
        kind = given.get("kind")
        if kind == "CustomTrainer":
            return self._class(kind, CustomTrainer)(func=_inert, num_nodes=given.get("num_nodes"))
        if kind == "BuiltinTrainer":
            return self._builtin()
        if kind != "CustomTrainerContainer":
            return None
        fields = {k: v for k, v in given.items() if k != "kind"}
        return self._class(kind, CustomTrainerContainer)(**fields)

    def _class(self, name: str, ours: type[Any]) -> Any:
        return getattr(self._types, name, ours) if self._types is not None else ours

    def _builtin(self) -> Any:
        if self._types is None:
            return BuiltinTrainer()
        return self._types.BuiltinTrainer(config=self._types.TorchTuneConfig())


def _inert_subclass(theirs: type[Any]) -> type[Any]:
    """The SDK's backend with nothing behind it: every method of its own that could ask a cluster raises."""
    own: dict[str, Any] = {
        name: _inert
        for parent in theirs.__mro__
        if parent is not object
        for name, value in vars(parent).items()
        if callable(value) and not name.startswith("__")
    }
    own["custom_api"] = KubernetesBackend.custom_api
    own["core_api"] = KubernetesBackend.core_api

    def init(self: Any, *, namespace: str, train_job: dict[str, Any]) -> None:
        self.namespace = namespace
        self.train_job = train_job

    own["__init__"] = init
    # ``isinstance`` is what options ask, and its name what their messages show.
    return types.new_class("KubernetesBackend", (theirs,), {}, lambda space: space.update(own))
