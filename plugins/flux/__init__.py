"""Wraps the command into a Flux instance that an init container installs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, pods, values
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.field import Findings, Path
from plugins.framework.info import Info, PodSet, gpu_count
from plugins.framework.interface import (
    ComponentBuilderPlugin,
    CustomValidationPlugin,
    EnforceMLPolicyPlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context

NAME: Final = "Flux"

INSTALLER: Final = "flux-installer"
SETTINGS: Final = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
"""What env may set, in the runtime's container or in ``trainer.env``, with the defaults."""
PLACEHOLDER: Final = "c3RhdGlvbm1hc3Rlcg=="
"""Stands for the curve certificate (``stationmaster`` in base64)."""

_TRAINER: Final = Path("spec", "trainer")
_CONFIG_DIR: Final = "/etc/flux-config"
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  # a path in a pod
_NEEDS_NODES: Final = (
    "the Flux plugin of the Trainer reads spec.trainer.numNodes and panics without it"
)


@dataclass(frozen=True)
class Flux(EnforceMLPolicyPlugin, CustomValidationPlugin, ComponentBuilderPlugin):
    """Flux (semantics 4.8). The count is set by PlainML."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Replace the command; add the installer, volumes and mounts to the jobs named ``node``."""
        del ctx
        if info.runtime.policy != "flux":
            return
        if info.job.trainer is None or info.job.num_nodes is None:
            raise BuildError(_NEEDS_NODES)
        settings = _settings(info)
        info.command = ["/bin/bash", f"{_CONFIG_DIR}/entrypoint.sh", _original(info)]
        info.args = None
        for pod_set in info.pod_sets:
            if pod_set.name == names.NODE:
                pod_set.extra_init.append(_installer(info, settings))
        info.later(_add_to_pods)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """What the controller would panic at; the reserved init container. Numbers are TrainerFields' to judge."""
        del ctx, old
        found = Findings()
        if info is None or info.runtime.policy != "flux":
            return found
        if new.trainer is None or new.num_nodes is None:
            nodes = info.runtime.num_nodes
            detail = f"{_NEEDS_NODES} (the runtime's own numNodes, {nodes}, is not used)"
            found.error(field.required(_TRAINER.child("numNodes"), detail))
        for pod_set in info.pod_sets:
            if pod_set.name == names.NODE and INSTALLER in pod_set.base.init_names:
                detail = f"init container {INSTALLER} is reserved: the runtime's job node must not have one"
                found.error(
                    field.invalid(Path("spec", "runtimeRef", "name"), new.runtime_name, detail)
                )
        return found

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The ConfigMap of scripts (facts, not the Trainer's text) and the Secret of the curve."""
        if info.runtime.policy != "flux":
            return []
        name = info.job.name
        scripts = {
            "entrypoint.sh": _entrypoint_facts(info),
            "init.sh": _init_facts(info, ctx.namespace),
        }
        curve = {"curve.cert": PLACEHOLDER}
        return [
            pods.made(
                info, ctx.namespace, "ConfigMap", f"{name}{names.FLUX_SCRIPTS}", data=scripts
            ),
            pods.made(info, ctx.namespace, "Secret", f"{name}-flux-curve", data=curve),
        ]


def range_text(size: int, start: int = 0) -> str:
    """``<start>`` for one, else ``<start>-<last>``."""
    return str(start) if size == 1 else f"{start}-{start + size - 1}"


def _tasks(info: Info) -> int:
    own = info.job.num_proc_per_node
    number = own if type(own) is int else info.runtime.source.get("numProcPerNode", 1)
    return number if type(number) is int else 1


def _settings(info: Info) -> dict[str, str]:
    """Defaults, then the runtime's literal env, then the TrainJob's; a ``valueFrom`` there sets ``""``."""
    settings = dict(SETTINGS)
    trainer = info.trainer
    container = trainer.job.container(names.NODE) if trainer else None
    for entry in values.objects((container or {}).get("env")):
        if entry.get("name") in settings and "value" in entry:
            settings[entry["name"]] = entry["value"]
    for entry in info.job.env:
        if entry.get("name") in settings:
            settings[entry["name"]] = values.text(entry.get("value"))
    return settings


def _original(info: Info) -> str:
    """The command that the entrypoint hands over to: the user's or the runtime's, then the user's args."""
    trainer = info.trainer
    container = trainer.job.container(names.NODE) if trainer else None
    command = info.job.words("command")
    if command is None and info.line.name != "2.2":
        command = values.items((container or {}).get("command"))
    return " ".join([*(command or []), *(info.job.words("args") or [])]).strip()


def _installer(info: Info, settings: dict[str, str]) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": INSTALLER,
        "command": ["/bin/bash", f"{_CONFIG_DIR}/init.sh"],
        "volumeMounts": [
            {"name": "flux-install", "mountPath": "/mnt/flux"},
            {"name": _scripts_volume(info), "mountPath": _CONFIG_DIR, "readOnly": True},
        ],
    }
    if settings["FLUX_VIEW_IMAGE"] or info.line.name == "2.2":
        container["image"] = settings["FLUX_VIEW_IMAGE"]
    return container


def _scripts_volume(info: Info) -> str:
    return f"{info.job.name}{names.FLUX_SCRIPTS}"


def _add_to_pods(info: Info) -> None:
    for pod_set in info.pod_sets:
        if pod_set.name == names.NODE:
            _add_to_pod(info, pod_set)


def _add_to_pod(info: Info, pod_set: PodSet) -> None:
    name = _scripts_volume(info)
    volumes: list[dict[str, Any]] = [
        {"name": "spack-install", "emptyDir": {}},
        {"name": "flux-install", "emptyDir": {}},
        {"name": name, "configMap": {"name": name, "defaultMode": 0o755}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "flux-install", "mountPath": "/mnt/flux"},
        {"name": "spack-install", "mountPath": "/opt/software"},
        {"name": name, "mountPath": _CONFIG_DIR, "readOnly": True},
        {"name": "flux-curve", "mountPath": "/curve", "readOnly": True},
    ]
    if info.line.name != "2.2":
        volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory"}})
        mounts.append({"name": "shared-memory", "mountPath": _SHARED_MEMORY, "readOnly": True})
    secret = {"secretName": f"{info.job.name}-flux-curve", "defaultMode": 0o400}
    pod_set.upsert_volumes(*volumes, {"name": "flux-curve", "secret": secret})
    pod = pod_set.pod_under_construction()
    pod["initContainers"] = [*(pod.get("initContainers") or ()), *pod_set.extra_init]
    for container in pod_set.edit_all(names.NODE):
        container.upsert_mounts(*mounts)


def _entrypoint_facts(info: Info) -> str:
    """What goes into the Trainer's entrypoint script, one fact a line."""
    nodes, tasks = info.job.num_nodes or 0, _tasks(info)
    gpus = gpu_count(info.resources_per_node())
    flags = f"-N {nodes} -n {tasks * nodes}" + (f" -g {gpus}" if gpus > 0 else "")
    lines = [f"leader: {info.job.name}-{names.NODE}-0-0", f"run flags: {flags}"]
    if info.line.name != "2.2":
        cores = f"--cores={range_text(tasks)}"
        lines.append(f"resources: {cores}" + (f" --gpu={range_text(gpus)}" if gpus > 0 else ""))
    return "\n".join(lines) + "\n"


def _init_facts(info: Info, namespace: str) -> str:
    """What goes into the Trainer's installer script, one fact a line."""
    settings, name = _settings(info), info.job.name
    return "\n".join(
        (
            f"hosts: {name}-{names.NODE}-0-[{range_text(info.job.num_nodes or 0)}]",
            f"domain: {name}.{namespace}.svc.cluster.local",
            f"network device: {settings['FLUX_NETWORK_DEVICE']}",
            f"queue policy: {settings['FLUX_QUEUE_POLICY']}",
            "",
        )
    )


def new(_args: Args, _handle: Handle) -> Flux:
    """Build the plugin."""
    return Flux()


SPEC: Final = PluginSpec(name=NAME, build=new)
