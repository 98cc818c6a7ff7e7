"""Splits nodes between launcher and workers, and gives both the keys and the launcher the hostfile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plugins.framework import field, pods, reserved, values
from plugins.framework.api import names
from plugins.framework.errors import BuildError
from plugins.framework.field import Findings, Path
from plugins.framework.info import Container, Info, PodSet, gpu_count
from plugins.framework.interface import (
    ComponentBuilderPlugin,
    CustomValidationPlugin,
    EnforceMLPolicyPlugin,
    ValidateRuntimePlugin,
)
from plugins.framework.registry import Args, Handle, PluginSpec

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob
    from plugins.framework.context import Context
    from plugins.framework.runtime import CompiledRuntime

NAME: Final = "MPI"

OPEN_MPI: Final = "OpenMPI"
HOSTFILE_ENV: Final = "OMPI_MCA_orte_default_hostfile"
RESERVED: Final = (
    HOSTFILE_ENV,
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
    "OMPI_MCA_plm_rsh_args",
)
MOST_HOSTFILE: Final = 1 << 20
"""Bytes of a hostfile. It is one value of a ConfigMap, which holds 1 MiB."""
PLACEHOLDER: Final = "c3RhdGlvbm1hc3Rlcg=="
"""Stands for key material, so that the same input gives the same bytes (``stationmaster`` in base64)."""

_SSH_VOLUME: Final = "mpi-ssh-auth"
_HOSTFILE_VOLUME: Final = "mpi-hostfile"
_HOSTFILE_DIR: Final = "/etc/mpi"
_KEY_FILES: Final = (
    ("ssh-privatekey", "id_rsa", 0o640),
    ("ssh-publickey", "id_rsa.pub", 0o644),
    ("ssh-publickey", "authorized_keys", 0o644),
)
_NUM_NODES: Final = Path("spec", "trainer", "numNodes")


@dataclass(frozen=True)
class MPI(
    EnforceMLPolicyPlugin, CustomValidationPlugin, ValidateRuntimePlugin, ComponentBuilderPlugin
):
    """OpenMPI over SSH (semantics 4.4). Works by job names, ``launcher`` and ``node``, not by ancestors."""

    name: ClassVar[str] = NAME

    def enforce_ml_policy(self, ctx: Context, info: Info) -> None:
        """Set the workers' count; add volumes, mounts and OpenMPI's variables."""
        del ctx
        if info.runtime.policy != "mpi":
            return
        _set_count(info)
        launcher = info.by_name(names.LAUNCHER)
        if launcher is not None and names.NODE in launcher.base.names and not _is_open_mpi(info):
            implementation = info.runtime.source.get("mpiImplementation")
            raise BuildError(f"MPI implementation for {implementation!r} isn't supported")
        info.later(_add_to_pods)

    def validate(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Findings:
        """Both jobs must be there, reserved names, the hostfile's size, counts that surprise."""
        del old
        found = Findings()
        if info is None or info.runtime.policy != "mpi":
            return found
        if info.runtime.runs_launcher_as_node and (new.num_nodes or 1) > 1:
            missing = [n for n in (names.LAUNCHER, names.NODE) if info.by_name(n) is None]
            if missing:
                detail = (
                    "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either "
                    f"launcher and node; the runtime has no job {' and no job '.join(missing)}"
                )
                found.error(field.invalid(_NUM_NODES, new.num_nodes, detail))
        if type(new.num_proc_per_node) is str:
            path = Path("spec", "trainer", "numProcPerNode")
            found.error(
                field.invalid(
                    path, new.num_proc_per_node, "must have an int value for MPI TrainJob"
                )
            )
        found.error(
            *reserved.each(
                new,
                RESERVED,
                lambda name: f"{name} is set by the MPI runtime; remove it from the env",
            )
        )
        size = hostfile_size(info)
        if size > MOST_HOSTFILE:
            detail = f"the MPI hostfile would take {size} bytes, and a ConfigMap holds {MOST_HOSTFILE}: ask for fewer nodes"
            found.error(field.invalid(_NUM_NODES, new.num_nodes, detail))
        found.warn(*_surprises(ctx, info))
        return found

    def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Findings:
        """An implementation that the controller knows; both jobs; their container ``node`` (G12 to G14)."""
        del ctx, old
        found = Findings()
        if new.policy != "mpi":
            return found
        path = Path("spec", "mlPolicy", "mpi")
        if new.source.get("mpiImplementation", OPEN_MPI) != OPEN_MPI:
            at = path.child("mpiImplementation")
            found.error(
                field.invalid(at, new.source.get("mpiImplementation"), f"must be {OPEN_MPI}")
            )
        jobs = Path("spec", "template", "spec", "replicatedJobs")
        if new.runs_launcher_as_node:
            missing = [n for n in (names.LAUNCHER, names.NODE) if new.job(n) is None]
            if missing:
                at = path.child("runLauncherAsNode")
                detail = f"needs the jobs launcher and node in the template; missing: {', '.join(missing)}"
                found.error(field.invalid(at, value=True, detail=detail))
        for i, job in enumerate(new.jobs):
            if job.name in {names.LAUNCHER, names.NODE} and names.NODE not in job.names:
                at = jobs.index(i).child("template", "spec", "template", "spec", "containers")
                there = ", ".join(sorted(job.names)) or "none"
                detail = f"job {job.name} of an MPI runtime must have a container named node; there are: {there}"
                found.error(field.invalid(at, sorted(job.names), detail))
        return found

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The Secret with the SSH keys (unless one exists, which nobody here can see) and the hostfile."""
        if info.runtime.policy != "mpi":
            return []
        name = info.job.name
        keys = {"ssh-privatekey": PLACEHOLDER, "ssh-publickey": PLACEHOLDER}
        secret = pods.made(
            info,
            ctx.namespace,
            "Secret",
            f"{name}-mpi-ssh-auth",
            type="kubernetes.io/ssh-auth",
            immutable=True,
            data=keys,
        )
        data = {"hostfile": _hostfile(info)}
        hostfile = pods.made(info, ctx.namespace, "ConfigMap", f"{name}-mpi-hostfile", data=data)
        return [secret, hostfile]


def slots(info: Info) -> int:
    """Processes a node: the TrainJob's, else the runtime's, else (where that says 1) the number of GPUs."""
    own = info.job.num_proc_per_node
    if own is not None:
        return own if type(own) is int else _int_value(own)
    runtime = info.runtime.source.get("numProcPerNode", 1)
    number: int = runtime if type(runtime) is int else 1
    if number == 1 and info.line.gpu_slots:
        gpus = gpu_count(info.resources_per_node())
        return values.int32(gpus) if gpus > 1 else number
    return number


def _int_value(word: str | int) -> int:
    """IntOrString.IntValue: a text that is no number is 0."""
    try:
        return int(word)
    except ValueError:
        return 0


def _set_count(info: Info) -> None:
    wanted = info.job.num_nodes
    node = info.by_name(names.NODE)
    if wanted is not None and node is not None:
        node.count = max(wanted - 1, 1) if info.runtime.runs_launcher_as_node else wanted


def _is_open_mpi(info: Info) -> bool:
    return bool(info.runtime.source.get("mpiImplementation", OPEN_MPI) == OPEN_MPI)


def _hosts(info: Info) -> list[PodSet]:
    launcher_too = info.runtime.runs_launcher_as_node
    return [
        p
        for p in info.pod_sets
        if p.name == names.NODE or (launcher_too and p.name == names.LAUNCHER)
    ]


def _hostfile(info: Info) -> str:
    if not _is_open_mpi(info):
        return ""
    number = slots(info)
    return "".join(f"{host} slots={number}\n" for p in _hosts(info) for host in p.endpoints)


def hostfile_size(info: Info) -> int:
    """Bytes of the hostfile, by arithmetic: no list of a million hosts is made to find it too long."""
    tail = len(f" slots={slots(info)}\n")
    total = 0
    for pod_set in _hosts(info):
        replicas = pod_set.base.replicas if info.line.endpoints_per_replica else 1
        count = max(pod_set.count, 0)
        fixed = len(f"{info.job.name}-{pod_set.name}--.{info.subdomain}") + tail
        total += replicas * (count * fixed + _digits_below(count)) + count * _digits_below(replicas)
    return total


def _digits_below(number: int) -> int:
    """How many digits all numbers from 0 to ``number`` - 1 have together."""
    total, low, width = 0, 0, 1
    while low < number:
        high = min(number, 10**width)
        total += (high - low) * width
        low, width = high, width + 1
    return total


def _surprises(ctx: Context, info: Info) -> list[str]:
    out: list[str] = []
    job, runtime = info.job, info.runtime
    node, launcher = info.by_name(names.NODE), info.by_name(names.LAUNCHER)
    if (
        runtime.runs_launcher_as_node
        and job.num_nodes == 1
        and not ctx.is_ours(job, "/spec/trainer/numNodes")
        and node is not None
        and launcher is not None
    ):
        out.append(
            "numNodes 1 makes two pods: the launcher counts as a node, and there is at least one worker"
        )
    if launcher is not None and launcher.ancestor == names.TRAINER and launcher.count > 1:
        out.append(
            f"the runtime's numNodes of {launcher.count} makes {launcher.count} launchers, not workers: the "
            "runtime should say 1, and spec.trainer.numNodes how many workers there are"
        )
    number = slots(info)
    idle = [(p.count, gpus) for p in _hosts(info) if (gpus := _gpus_of(p)) > number]
    if idle:
        hosts = sum(count for count, _ in idle)
        have = "1 node has" if hosts == 1 else f"{hosts} nodes have"
        out.append(
            f"{have} {sum(count * gpus for count, gpus in idle)} GPUs but {hosts * number} process(es): set "
            "spec.trainer.numProcPerNode, or leave it to the runtime"
        )
    return out


def _gpus_of(pod_set: PodSet) -> int:
    """GPUs of the container that runs the processes, whichever job the Trainer takes the slots from (B023)."""
    if pod_set.node_resources is not None:
        return gpu_count(pod_set.node_resources)
    return gpu_count(values.obj((pod_set.base.container(names.NODE) or {}).get("resources")))


def _add_to_pods(info: Info) -> None:
    for pod_set in info.pod_sets:
        if pod_set.name not in {names.NODE, names.LAUNCHER}:
            continue
        pod_set.upsert_volumes(_ssh_volume(info))
        if pod_set.name == names.LAUNCHER:
            pod_set.upsert_volumes(_hostfile_volume(info))
        for container in pod_set.edit_all(names.NODE):
            path = info.runtime.source.get("sshAuthMountPath", "/root/.ssh")
            container.upsert_mounts({"name": _SSH_VOLUME, "mountPath": path})
            if pod_set.name == names.LAUNCHER:
                _add_to_launcher(info, container)


def _add_to_launcher(info: Info, container: Container) -> None:
    container.upsert_mounts({"name": _HOSTFILE_VOLUME, "mountPath": _HOSTFILE_DIR})
    container.upsert_env(
        pods.env(HOSTFILE_ENV, f"{_HOSTFILE_DIR}/hostfile"),
        pods.env("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        pods.env("OMPI_MCA_orte_set_default_slots", str(slots(info))),
        pods.env("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
    )


def _ssh_volume(info: Info) -> dict[str, Any]:
    modes = info.line.mount_modes
    secret: dict[str, Any] = {
        "secretName": f"{info.job.name}-mpi-ssh-auth",
        "items": [
            {"key": key, "path": path, **({"mode": mode} if modes else {})}
            for key, path, mode in _KEY_FILES
        ],
    }
    if modes:
        secret["defaultMode"] = 0o400
    return {"name": _SSH_VOLUME, "secret": secret}


def _hostfile_volume(info: Info) -> dict[str, Any]:
    source = {
        "name": f"{info.job.name}-mpi-hostfile",
        "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
    }
    return {"name": _HOSTFILE_VOLUME, "configMap": source}


def new(_args: Args, _handle: Handle) -> MPI:
    """Build the plugin."""
    return MPI()


SPEC: Final = PluginSpec(name=NAME, build=new)
