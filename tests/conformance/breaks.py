"""Breaks put into the product on purpose: a comparison that does not see them proves nothing.

Each is a small fault of the kind that a careless change makes: an entry dropped, two swapped, one pod less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import plugins.coscheduling
import plugins.flux
import plugins.jax
import plugins.jobset
import plugins.mpi
import plugins.plainml
import plugins.torch
import plugins.torch.torchtune
import plugins.volcano
import plugins.xgboost
from plugins.framework import gang, merge, pods, resolve, runtime
from plugins.framework.info import Container, Info, PodSet

Break = Callable[[], Any]


def _without_first(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    return lambda *args, **kwargs: function(*args, **kwargs)[1:]


def _swapped(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def swap(*args: Any, **kwargs: Any) -> list[Any]:
        out = list(function(*args, **kwargs))
        if len(out) > 1:
            out[0], out[1] = out[1], out[0]
        return out

    return swap


def _one_less(info: Info) -> None:
    trainer = info.trainer
    if trainer is not None and info.job.num_nodes is not None:
        trainer.count = info.job.num_nodes - 1


def _drops(name: str) -> Callable[..., None]:
    real = Container.upsert_env

    def upsert(self: Container, *entries: dict[str, Any]) -> None:
        real(self, *(e for e in entries if e.get("name") != name))

    return upsert


def _appends(self: Container, key: str, by: str, entries: tuple[dict[str, Any], ...]) -> None:
    del by
    self.raw[key] = [*(self.raw.get(key) or ()), *entries]


def _no_port(self: Container, *entries: dict[str, Any]) -> None:
    del self, entries


def _no_replicas(pod_set: PodSet) -> Iterator[str]:
    del pod_set
    return iter(())


BREAKS: Final[Mapping[str, Break]] = {
    "Torch forgets PET_NNODES": lambda: mock.patch.object(
        Container, "upsert_env", _drops("PET_NNODES")
    ),
    "Torch forgets the rank": lambda: mock.patch.object(
        Container, "upsert_env", _drops("PET_NODE_RANK")
    ),
    "Torch always says auto": lambda: mock.patch.object(
        plugins.torch, "proc_per_node", lambda _info: "auto"
    ),
    "Torch injects into no other container": lambda: mock.patch.object(
        plugins.torch, "_targets", lambda _runtime: iter(())
    ),
    "TorchTune never sees LoRA": lambda: mock.patch.object(
        plugins.torch.torchtune, "uses_lora", lambda _args: False
    ),
    "TorchTune forgets the rendezvous": lambda: mock.patch.object(
        plugins.torch.torchtune, "_needs_rendezvous", lambda *_args: False
    ),
    "MPI counts one slot": lambda: mock.patch.object(plugins.mpi, "slots", lambda _info: 1),
    "MPI forgets the launcher in the hostfile": lambda: mock.patch.object(
        plugins.mpi, "_hosts", lambda info: [p for p in info.pod_sets if p.name == "node"]
    ),
    "MPI does not spare a node for the launcher": lambda: mock.patch.object(
        plugins.mpi, "_set_count", pods.set_trainer_count
    ),
    "MPI mounts no hostfile": lambda: mock.patch.object(
        plugins.mpi, "_add_to_launcher", lambda _info, _container: None
    ),
    "JAX counts one process less": lambda: mock.patch.object(pods, "set_trainer_count", _one_less),
    "XGBoost forgets the tracker": lambda: mock.patch.object(
        Container, "upsert_env", _drops("DMLC_TRACKER_URI")
    ),
    "XGBoost sees no GPUs": lambda: mock.patch.object(plugins.xgboost, "gpu_count", lambda _r: 0),
    "Flux wraps nothing": lambda: mock.patch.object(plugins.flux, "_original", lambda _info: ""),
    "Flux installs nothing": lambda: mock.patch.object(
        plugins.flux, "_add_to_pod", lambda _info, _pod_set: None
    ),
    "PlainML takes no env": lambda: mock.patch.object(
        plugins.plainml.PlainML, "enforce_ml_policy", lambda _self, _ctx, _info: None
    ),
    "CoScheduling labels no pod": lambda: mock.patch.object(
        plugins.coscheduling.CoScheduling, "enforce_pod_group_policy", lambda _s, _c, _i: None
    ),
    "Volcano annotates no pod": lambda: mock.patch.object(
        plugins.volcano.Volcano, "enforce_pod_group_policy", lambda _s, _c, _i: None
    ),
    "the gang is one member short": lambda: mock.patch.object(
        gang,
        "controller_gang",
        lambda info, real=gang.controller_gang: real(info)._replace(members=real(info).members - 1),
    ),
    "the gang counts no resources": lambda: mock.patch.object(
        gang, "_one_pod", lambda _info, _pod_set: {}
    ),
    "JobSet initializes nothing": lambda: mock.patch.object(
        plugins.jobset, "_initialize", lambda _info: None
    ),
    "JobSet takes no image and command": lambda: mock.patch.object(
        plugins.jobset, "_train", lambda _info: None
    ),
    "JobSet does not fold ports": lambda: mock.patch.object(Container, "fold", lambda _self: None),
    "JobSet leaves parallelism": lambda: mock.patch.object(
        plugins.jobset, "_sync", lambda _info: None
    ),
    "the port is missing": lambda: mock.patch.object(Container, "upsert_ports", _no_port),
    "env is appended, not replaced": lambda: mock.patch.object(Container, "upsert", _appends),
    "an env entry keeps value beside valueFrom": lambda: mock.patch.object(pods, "_entry", dict),
    "the merge appends new items": lambda: mock.patch.object(
        merge,
        "_interleave",
        lambda patched, rest: [v for _, v in rest] + [v for _, v in patched],
    ),
    "overrides are applied last to first": lambda: mock.patch.object(
        resolve,
        "overrides",
        lambda job, line, real=resolve.overrides: list(reversed(real(job, line))),
    ),
    "metadata of overrides is lost": lambda: mock.patch.object(
        resolve,
        "_metadata",
        lambda _job, runtime: (runtime.jobset_labels, runtime.jobset_annotations),
    ),
    "resourcesPerNode replaces all": lambda: mock.patch.object(
        resolve,
        "_node_resources",
        lambda _line, _container, own: {k: own[k] for k in ("limits", "requests") if own.get(k)},
    ),
    "resourcesPerNode is dropped": lambda: mock.patch.object(
        runtime.CompiledRuntime, "takes_resources", lambda _self, _job: False
    ),
}
"""Name of the fault -> how to put it in."""


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The product with one of the faults."""
    resolve.merger_of.cache_clear()
    with BREAKS[name]():
        yield
    resolve.merger_of.cache_clear()
