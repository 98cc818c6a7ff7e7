"""Generates runtimes: one policy of the Trainer, and a template with one job or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.conformance import shapes
from tests.conformance.dice import Json, unique

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance.dice import Dice

ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
API_VERSION: Final = "trainer.kubeflow.org/v1alpha1"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
DEPRECATED: Final = "trainer.kubeflow.org/support"
RUNTIME_ENV: Final = (*shapes.ENV_NAMES, "PET_NNODES", "OMPI_MCA_plm_rsh_args", "STORAGE_URI")
FLUX_ENV: Final = ("FLUX_VIEW_IMAGE", "FLUX_NETWORK_DEVICE", "FLUX_QUEUE_POLICY")
TORCHTUNE_NAMES: Final = (
    "torchtune-llama3.2-1b",
    "torchtune-llama3.2-3b",
    "torchtune-llama3.3-70b",
    "torchtune-qwen2.5-1.5b",
)
TORCHTUNE_COMMAND: Final = (
    "tune", "run", "--nproc_per_node=2", "full_finetune_distributed", "--config",
    "llama3_2/1B_full.yaml", "output_dir=/workspace/output",
    "tokenizer.path=/workspace/model/original/tokenizer.model", "dataset=alpaca",
    "tokenizer.merges_file=/workspace/model/merges.txt", "checkpointer.checkpoint_dir=/workspace/model",
    "model.lora_rank=8",
)  # fmt: skip


def policy_weights(dice: Dice) -> Mapping[str, int]:
    """Return how often each policy comes, as far as the line has it."""
    weights = {"torch": 22, "torchtune": 14, "mpi": 24, "plain": 12, "none": 9}
    if dice.since("2.2"):
        weights |= {"jax": 8, "xgboost": 10, "flux": 12}
    if dice.since("2.3"):
        weights |= {"torch-env-injection": 12}
    return weights


def runtime(dice: Dice) -> Json:
    """Return a runtime of any kind."""
    policy = dice.weighted(policy_weights(dice))
    dice.tag(f"plugin:{policy}")
    jobs = _jobs(dice, policy)
    spec: Json = {}
    if (ml_policy := _ml_policy(dice, policy, jobs)) is not None:
        spec["mlPolicy"] = ml_policy
    if dice.chance(45):
        spec["podGroupPolicy"] = _pod_group_policy(dice)
    spec["template"] = _template(dice, jobs)
    if "volcano" in spec.get("podGroupPolicy", {}) and dice.chance(40):
        _set_priority_class(dice, jobs)
    kind = dice.pick(("ClusterTrainingRuntime", "TrainingRuntime"))
    dice.tag(f"runtime:{kind}")
    metadata: Json = {"name": _name(dice, policy)}
    if kind == "TrainingRuntime":
        metadata["namespace"] = "default"
    if dice.chance(15):
        metadata["labels"] = {"trainer.kubeflow.org/framework": "torch"}
        if dice.chance(50):
            metadata["labels"][DEPRECATED] = dice.pick(("deprecated", "stable"))
            dice.tag("rule:deprecated-runtime")
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def jobs_of(made: Json) -> list[Json]:
    """Return the replicated jobs of a runtime, whatever of it is missing."""
    template = made.get("spec", {}).get("template") or {}
    return list((template.get("spec") or {}).get("replicatedJobs") or [])


def pod_of(job: Json) -> Json:
    """Return the Pod spec of a replicated job."""
    pod: Json = job.get("template", {}).get("spec", {}).get("template", {}).get("spec", {})
    return pod


def ancestor_of(job: Json) -> str | None:
    """Return the step that a job says it is."""
    labels = job.get("template", {}).get("metadata", {}).get("labels") or {}
    step: str | None = labels.get(ANCESTOR)
    return step


def _name(dice: Dice, policy: str) -> str:
    if policy == "torchtune":
        if dice.chance(6):
            dice.tag("rule:torchtune-unknown-model")
            return dice.pick(("torchtune-llama9-1b", "tune", "a-b-c-d"))
        return dice.pick(TORCHTUNE_NAMES)
    return dice.pick(("r", "runtime.example", "torch-distributed"))


def _ml_policy(dice: Dice, policy: str, jobs: Sequence[Json]) -> Json | None:
    if policy == "none":
        return None
    made: Json = {}
    if dice.chance(55):
        made["numNodes"] = dice.pick((2, 1, 3, 5, 1, 0, -3) if dice.chance(30) else (2, 1, 3))
        dice.tag("field:mlPolicy.numNodes")
        if made["numNodes"] < 1:
            dice.tag("rule:runtime-count-clamped")
    match policy:
        case "torch" | "torchtune":
            made["torch"] = _torch(dice, made)
        case "torch-env-injection":
            made["torch"] = {"envInjection": _env_injection(dice, jobs)}
        case "mpi":
            made["mpi"] = _mpi(dice)
        case "flux":
            made["flux"] = {"numProcPerNode": dice.pick((2, 1, 4))} if dice.chance(60) else {}
        case "jax" | "xgboost":
            made[policy] = {}
        case _:
            pass
    return made


def _torch(dice: Dice, policy: Json) -> Json:
    if dice.since("2.2"):
        return {}
    made: Json = {}
    if dice.chance(50):
        made["numProcPerNode"] = dice.pick(("auto", "gpu", "cpu", 2, 1, 4))
        dice.tag("field:torch.numProcPerNode")
    if dice.chance(4) and "numNodes" not in policy:
        made["elasticPolicy"] = {"minNodes": 1, "maxNodes": 4}
    return made


def _env_injection(dice: Dice, jobs: Sequence[Json]) -> Json:
    targets = []
    for job in dice.sample(jobs, dice.between(1, 2)):
        names = {
            item["name"]
            for part in ("containers", "initContainers")
            for item in pod_of(job).get(part, ())
        }
        chosen = dice.sample(sorted(names - {"node"}), 2)
        if dice.chance(2):
            chosen.append("missing")
            dice.tag("rule:env-injection-missing-target")
        if not chosen:
            continue
        targets.append({"jobName": job["name"], "containerNames": chosen})
    if dice.chance(2):
        targets.append({"jobName": "missing", "containerNames": ["side"]})
        dice.tag("rule:env-injection-missing-target")
    return {"targets": targets} if not dice.chance(2) else {}


def _mpi(dice: Dice) -> Json:
    made: Json = {}
    if dice.chance(60):
        made["numProcPerNode"] = dice.pick((1, 2, 4, 1))
    if dice.chance(50):
        made["runLauncherAsNode"] = dice.chance(70)
        if made["runLauncherAsNode"]:
            dice.tag("plugin:mpi-launcher-as-node")
    if dice.chance(30):
        made["sshAuthMountPath"] = dice.pick(("/home/mpiuser/.ssh", "/root/.ssh", "/a"))
        dice.tag("field:mpi.sshAuthMountPath")
    if dice.chance(30):
        made["mpiImplementation"] = "OpenMPI"
    if dice.chance(2) and dice.since("2.1"):
        made["mpiImplementation"] = ""
        dice.tag("rule:mpi-implementation-empty")
    return made


def _pod_group_policy(dice: Dice) -> Json:
    kind = dice.weighted({"coscheduling": 45, "volcano": 35, "both": 15, "empty": 5})
    if not dice.since("2.1") and kind in {"volcano", "both"}:
        kind = "coscheduling"
    dice.tag(f"plugin:{kind}" if kind in {"coscheduling", "volcano"} else f"podGroup:{kind}")
    made: Json = {}
    if kind in {"coscheduling", "both"}:
        made["coscheduling"] = (
            {"scheduleTimeoutSeconds": dice.pick((120, 0, 60))} if dice.chance(60) else {}
        )
    if kind in {"volcano", "both"}:
        made["volcano"] = {"networkTopology": _topology(dice)} if dice.chance(50) else {}
    if kind == "both":
        dice.tag("plugin:coscheduling", "plugin:volcano")
    return made


def _topology(dice: Dice) -> Json:
    dice.tag("field:volcano.networkTopology")
    return dice.some(
        {"mode": shapes.constant("hard", "soft"), "highestTierAllowed": shapes.constant(2, 1, 0)},
        0,
        2,
    )


def _set_priority_class(dice: Dice, jobs: Sequence[Json]) -> None:
    for job in dice.sample(jobs, dice.between(1, 2)):
        pod_of(job)["priorityClassName"] = dice.weighted(
            {"high": 60, "low": 25, "system-node-critical": 8, "missing": 2, "": 3}
        )
        dice.tag("pod:priorityClassName", f"priorityClass:{pod_of(job)['priorityClassName']}")


def _template(dice: Dice, jobs: Sequence[Json]) -> Json:
    spec: Json = {}
    if dice.chance(40):
        spec |= shapes.jobset_fields(dice)
    if not _in_order(spec) and len(jobs) > 1 and dice.chance(45):
        _add_depends_on(dice, jobs)
    spec["replicatedJobs"] = list(jobs)
    made: Json = {"spec": spec}
    if dice.chance(30):
        made["metadata"] = dice.some(
            {"labels": shapes.string_map, "annotations": shapes.string_map}, 1, 2
        )
        dice.tag("field:template.metadata")
        if dice.chance(40):
            annotations = made["metadata"].setdefault("annotations", {})
            annotations[QUEUE] = dice.pick(("queue-a", "queue-b") if dice.chance(93) else ("",))
            dice.tag("rule:volcano-queue")
    return made


def _in_order(spec: Json) -> bool:
    return bool(spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder")


def _add_depends_on(dice: Dice, jobs: Sequence[Json]) -> None:
    for position, job in enumerate(jobs[1:], start=1):
        if dice.chance(70):
            most = 2 if dice.since("2.1") else 1
            others = dice.sample(
                [other["name"] for other in jobs[:position]], dice.between(1, most)
            )
            job["dependsOn"] = [
                {"name": other, "status": dice.pick(("Complete", "Ready"))} for other in others
            ]
            dice.tag("jobset:dependsOn")


def _jobs(dice: Dice, policy: str) -> list[Json]:
    """Return the jobs of a template, each name once."""
    if policy == "mpi":
        jobs = _mpi_jobs(dice)
    elif policy == "torchtune":
        jobs = [*_initializers(dice, 70), _torchtune_job(dice)]
    else:
        jobs = [*_initializers(dice, 22), _trainer_job(dice, policy)]
    if dice.chance(10):
        jobs.append(_job(dice, "trainer2", "trainer", "node"))
        dice.tag("rule:several-trainer-jobs")
    if dice.chance(18):
        jobs.append(_plain_job(dice))
    if dice.chance(4):
        jobs.append(_job(dice, "odd", dice.pick(("evaluator", "")), "node"))
        dice.tag("shape:unknown-ancestor")
    if dice.chance(20):
        jobs = dice.shuffled(jobs)
        dice.tag("rule:job-order")
    if len(jobs) > 1:
        dice.tag("rule:several-jobs")
    return unique(jobs, "name")


def _initializers(dice: Dice, percent: int) -> list[Json]:
    made = []
    for step in ("dataset-initializer", "model-initializer"):
        if dice.chance(percent):
            made.append(_initializer_job(dice, step))
            dice.tag(f"job:{step}")
    return made


def _initializer_job(dice: Dice, step: str) -> Json:
    job = _job(dice, step, step, step, storage=True)
    pod = pod_of(job)
    if dice.chance(98):
        main = next(item for item in pod["containers"] if item["name"] == step)
        mounts = [{"name": "initializer", "mountPath": "/workspace"}, *main.get("volumeMounts", [])]
        main["volumeMounts"] = unique(mounts, "mountPath")
    if dice.chance(1):
        job["name"] = "init-" + step
        dice.tag("rule:initializer-job-renamed")
    return job


def _trainer_job(dice: Dice, policy: str) -> Json:
    name = "node" if dice.chance(88) else dice.pick(("trainer", "worker", "launcher"))
    if name != "node":
        dice.tag("shape:trainer-job-renamed")
    main = "node" if dice.chance(95) else "main"
    if main != "node":
        dice.tag("rule:trainer-without-node-container")
    ancestor = "trainer" if dice.chance(94) else None
    if ancestor is None:
        dice.tag("rule:no-trainer-job")
    job = _job(dice, name, ancestor, main)
    if policy == "torch-env-injection" and len(pod_of(job)["containers"]) == 1:
        pod_of(job)["containers"].append(shapes.container(dice, "side"))
    if policy == "flux":
        _make_flux(dice, job, main)
    return job


def _make_flux(dice: Dice, job: Json, main: str) -> None:
    container = next(item for item in pod_of(job)["containers"] if item["name"] == main)
    if dice.chance(50):
        chosen = dice.sample(FLUX_ENV, dice.between(1, 2))
        entries = [{"name": name, "value": dice.pick(("custom", ""))} for name in chosen]
        container["env"] = unique([*entries, *container.get("env", [])], "name")
        dice.tag("rule:flux-settings-in-runtime")
    if dice.chance(3):
        pod_of(job).setdefault("initContainers", []).append(
            {"name": "flux-installer", "image": "x"}
        )
        dice.tag("rule:flux-reserved-init-container")


def _torchtune_job(dice: Dice) -> Json:
    job = _job(dice, "node", "trainer", "node")
    container = next(item for item in pod_of(job)["containers"] if item["name"] == "node")
    if dice.chance(85):
        container["command"] = dice.sample(TORCHTUNE_COMMAND, dice.between(2, 9))
    if dice.chance(60):
        gpu = dice.pick(shapes.GPUS)
        container["resources"] = {"limits": {gpu: dice.pick(("1", 2, "8", 1))}}
    return job


def _mpi_jobs(dice: Dice) -> list[Json]:
    launcher_trains = dice.chance(75)
    launcher = _job(dice, "launcher", "trainer" if launcher_trains else None, "node")
    node = _job(dice, "node", None if launcher_trains else "trainer", "node")
    if not launcher_trains:
        dice.tag("rule:mpi-node-is-trainer")
    shape = dice.weighted({"both": 88, "launcher": 4, "node": 4, "renamed": 4})
    if shape != "both":
        dice.tag(f"rule:mpi-jobs-{shape}")
    if shape == "renamed":
        for container in pod_of(launcher)["containers"]:
            if container["name"] == "node":
                container["name"] = "launcher"
    if shape == "launcher":
        return [launcher]
    if shape == "node":
        return [node]
    return [*_initializers(dice, 10), *([launcher, node] if dice.chance(75) else [node, launcher])]


def _plain_job(dice: Dice) -> Json:
    """Return a job that no step of the Trainer claims: its replicas count."""
    job = _job(dice, dice.pick(("extra", "ps", "evaluator")), None, dice.pick(("main", "node")))
    if dice.chance(60):
        job["replicas"] = dice.pick((2, 1, 3, 0))
        dice.tag(f"job:replicas-{job['replicas']}")
    dice.tag("shape:job-without-ancestor")
    return job


def _job(dice: Dice, name: str, ancestor: str | None, main: str, *, storage: bool = False) -> Json:
    """Return one replicated job whose main container has the given name."""
    template: Json = {}
    if ancestor is not None:
        template["metadata"] = {"labels": {ANCESTOR: ancestor}}
    if dice.chance(15):
        own = shapes.metadata(dice)
        labels = own.get("labels", {}) | template.get("metadata", {}).get("labels", {})
        template["metadata"] = own | ({"labels": labels} if labels else {})
        dice.tag("field:job-template.metadata")
    pod_template: Json = {"spec": _pod(dice, main, storage=storage)}
    if dice.chance(20):
        pod_template["metadata"] = shapes.metadata(dice)
        dice.tag("field:pod-template.metadata")
    template["spec"] = {**shapes.job_fields(dice), "template": pod_template}
    job: Json = {"name": name, "template": template}
    if dice.chance(15):
        job["groupName"] = dice.pick(("group", "default"))
        dice.tag("job:groupName")
    if dice.chance(10):
        job["replicas"] = 1
    return job


def _pod(dice: Dice, main: str, *, storage: bool) -> Json:
    containers = [shapes.container(dice, main)]
    sides = dice.sample(("side", "proxy"), dice.weighted({0: 65, 1: 25, 2: 10}))
    containers += [shapes.container(dice, side) for side in sides]
    if sides:
        dice.tag("shape:sidecar")
        if dice.chance(25):
            containers = dice.shuffled(containers)
            dice.tag("rule:container-order")
    if dice.chance(12):
        _use_runtime_env(dice, containers)
    pod: Json = {"containers": containers} | shapes.pod_fields(dice)
    inits = dice.sample(("setup", "warm", main), dice.weighted({0: 75, 1: 18, 2: 7}))
    if inits:
        pod["initContainers"] = [_init_container(dice, name) for name in inits]
        dice.tag("shape:init-container")
        if main in inits:
            dice.tag("shape:init-container-same-name")
    if storage or dice.chance(35):
        pod["volumes"] = shapes.volumes(dice)
    if storage and dice.chance(80):
        claim = {"name": "initializer", "persistentVolumeClaim": {"claimName": "storage"}}
        pod["volumes"] = unique([claim, *pod["volumes"]], "name")
    return pod


def _use_runtime_env(dice: Dice, containers: Sequence[Json]) -> None:
    """Let the template itself set names that a plugin will set."""
    container = dice.pick(containers)
    extra = shapes.env(dice, RUNTIME_ENV)
    container["env"] = unique([*container.get("env", []), *extra], "name")
    dice.tag("rule:runtime-env-meets-plugin-env")


def _init_container(dice: Dice, name: str) -> Json:
    made = shapes.container(dice, name)
    if dice.chance(30):
        made["restartPolicy"] = "Always"
        dice.tag("shape:restartable-init-container")
    return made
