"""Generates what a TrainJob changes in its runtime, in the form that its line has for it.

2.0 has podSpecOverrides, 2.1 podTemplateOverrides, 2.2 and later runtimePatches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.conformance import shapes
from tests.conformance.dice import Json, unique
from tests.conformance.runtimes import QUEUE, jobs_of, pod_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance.dice import Dice

RESERVED_CONTAINERS: Final = ("node", "dataset-initializer", "model-initializer")
MANAGERS: Final = (
    "example.com/user",
    "kueue.x-k8s.io/manager",
    "a.io/b",
    "a.io/b/c.d~e",
    "trainer.kubeflow.org/kubeflow-sdk",
)
TIME: Final = "2025-06-01T12:00:00Z"
MISSING: Final = "missing"


def overrides(dice: Dice, runtime: Json) -> Json:
    """Return the field of the TrainJob's spec with one to three entries."""
    jobs = jobs_of(runtime)
    dice.tag("override")
    count = dice.pick((1, 2, 1, 3))
    if count > 1:
        dice.tag("override:several")
    if dice.since("2.2"):
        managers = dice.sample(MANAGERS, count)
        return {"runtimePatches": [_runtime_patch(dice, name, jobs) for name in managers]}
    if dice.since("2.1"):
        return {"podTemplateOverrides": [_template_override(dice, jobs) for _ in range(count)]}
    return {"podSpecOverrides": _pod_spec_overrides(dice, jobs)}


def _pod_spec_overrides(dice: Dice, jobs: Sequence[Json]) -> list[Json]:
    """Return 2.0 overrides; a job may be named once in the whole list."""
    made = []
    for job in dice.sample(jobs, dice.between(1, 2)):
        targets = [{"name": _target(dice, job)}]
        made.append({"targetJobs": targets, **_pod_patch(dice, [job])})
    if len(made) == 1 and len(jobs) > 1 and dice.chance(30):
        made[0]["targetJobs"] = [{"name": job["name"]} for job in jobs]
        dice.tag("override:several-targets")
    if dice.chance(1):
        made.append({"targetJobs": made[0]["targetJobs"]})
        dice.tag("rule:override-job-named-twice")
    return made


def _template_override(dice: Dice, jobs: Sequence[Json]) -> Json:
    chosen = dice.sample(jobs, dice.pick((1, 1, 2)))
    made: Json = {"targetJobs": [{"name": _target(dice, job)} for job in chosen]}
    if len(chosen) > 1:
        dice.tag("override:several-targets")
    if dice.chance(35):
        made["metadata"] = shapes.metadata(dice)
        dice.tag("override:metadata-pod")
    if dice.chance(92):
        made["spec"] = _pod_patch(dice, chosen)
    return made


def _runtime_patch(dice: Dice, manager: str, jobs: Sequence[Json]) -> Json:
    made: Json = {"manager": manager}
    if dice.chance(15):
        made["time"] = TIME
        dice.tag("override:time")
    template: Json = {}
    if dice.chance(25):
        template["metadata"] = shapes.metadata(dice)
        dice.tag("override:metadata-jobset")
        if dice.chance(25):
            template["metadata"].setdefault("annotations", {})[QUEUE] = "queue-patched"
            dice.tag("rule:volcano-queue")
    if dice.chance(90):
        chosen = dice.sample(jobs, dice.pick((1, 1, 2)))
        template["spec"] = {"replicatedJobs": [_job_patch(dice, job) for job in chosen]}
        if len(chosen) > 1:
            dice.tag("override:several-targets")
    shape = dice.below(40)
    if shape == 39:
        dice.tag("shape:empty-patch")
        return made
    if shape == 38:
        dice.tag("shape:empty-patch")
        return made | {"trainingRuntimeSpec": {}}
    return made | {"trainingRuntimeSpec": {"template": template}}


def _job_patch(dice: Dice, job: Json) -> Json:
    made: Json = {"name": _target(dice, job)}
    template: Json = {}
    if dice.chance(20):
        template["metadata"] = shapes.metadata(dice)
        dice.tag("override:metadata-job")
    if dice.chance(95):
        pod: Json = {}
        if dice.chance(25):
            pod["metadata"] = shapes.metadata(dice)
            dice.tag("override:metadata-pod")
        if dice.chance(95):
            pod["spec"] = _pod_patch(dice, [job])
        template["spec"] = {"template": pod}
    return made | ({"template": template} if not dice.chance(3) else {})


def _target(dice: Dice, job: Json) -> str:
    """Return the job's name, seldom one that no job has."""
    if dice.chance(1):
        dice.tag("rule:override-unknown-job")
        return MISSING
    name: str = job["name"]
    return name


def _pod_patch(dice: Dice, jobs: Sequence[Json]) -> Json:
    """Return a patch for the Pods of the jobs, with fields that the line has."""
    pod = pod_of(jobs[0])
    makers: dict[str, Any] = {
        "nodeSelector": shapes.string_map,
        "tolerations": shapes.list_of(shapes.toleration, 0, 2),
        "volumes": lambda dice: _volumes(dice, pod),
        "containers": lambda dice: _containers(dice, pod, "containers"),
        "initContainers": lambda dice: _containers(dice, pod, "initContainers"),
        "schedulingGates": lambda dice: _named(dice, pod, "schedulingGates"),
        "serviceAccountName": shapes.constant("sa", "a", ""),
    }
    if dice.since("2.1"):
        makers["affinity"] = shapes.affinity
        makers["imagePullSecrets"] = lambda dice: _named(dice, pod, "imagePullSecrets")
    if dice.since("2.2"):
        makers["securityContext"] = shapes.pod_security
    if dice.since("2.3"):
        makers["terminationGracePeriodSeconds"] = shapes.constant(60, 0)
    if not pod.get("initContainers"):
        del makers["initContainers"]
    made = dice.some(makers, 0, dice.pick((2, 1, 3)))
    for field in ("schedulingGates", "imagePullSecrets", "initContainers"):
        if field in makers and pod.get(field) and dice.chance(40):
            made[field] = makers[field](dice)
    dice.tag(*(f"override:{name}" for name in made))
    _note_meetings(dice, pod, made)
    return made


def _note_meetings(dice: Dice, pod: Json, patch: Json) -> None:
    """Tag what the merge has to do: same item, new item, other order."""
    for field in ("volumes", "containers", "initContainers", "imagePullSecrets", "schedulingGates"):
        before = [item.get("name") for item in pod.get(field) or ()]
        after = [item.get("name") for item in patch.get(field) or ()]
        shared = [name for name in after if name in before]
        if shared:
            dice.tag(f"merge:{field}:same")
        if len(shared) < len(after) and before:
            dice.tag(f"merge:{field}:new")
        if shared != sorted(shared, key=before.index):
            dice.tag(f"merge:{field}:reordered")


def _named(dice: Dice, pod: Json, field: str) -> list[Json]:
    """Return items that have but a name: the template's own, in any order, and new ones."""
    names = [item["name"] for item in pod.get(field) or () if "name" in item]
    chosen = dice.sample(names, dice.between(0, 2)) + dice.sample(shapes.WORDS, dice.between(0, 2))
    return unique([{"name": name} for name in dice.shuffled(chosen)], "name")


def _volumes(dice: Dice, pod: Json) -> list[Json]:
    """Return volumes: new ones, the template's own again, and the same name from elsewhere."""
    here = pod.get("volumes") or []
    again = dice.sample(here, dice.between(0, 3))
    made = [item if dice.chance(50) else _same_volume(dice, item) for item in again]
    made += shapes.volumes(dice)[: dice.between(0, 2)]
    return unique(dice.shuffled(made), "name")


def _same_volume(dice: Dice, volume: Json) -> Json:
    """Return a volume of the same name and kind, with other contents."""
    kind = next(name for name in volume if name != "name")
    return {"name": volume["name"], kind: shapes.VOLUME_SOURCES[kind](dice)}


def _containers(dice: Dice, pod: Json, field: str) -> list[Json]:
    names = [item["name"] for item in pod.get(field) or ()]
    chosen = dice.sample(names, dice.between(1, 3))
    if dice.chance(5):
        chosen.append(MISSING)
        dice.tag("rule:override-unknown-container")
    by_name: Mapping[str, Json] = {item["name"]: item for item in pod.get(field) or ()}
    return [_container(dice, name, by_name.get(name, {}), field) for name in chosen]


def _container(dice: Dice, name: str, existing: Json, field: str) -> Json:
    made: Json = {"name": name}
    may_set_env = field == "initContainers" or name not in RESERVED_CONTAINERS
    if dice.chance(60) if may_set_env else dice.chance(2):
        made["env"] = _env(dice, existing)
        dice.tag(f"override:{field}.env")
        if not may_set_env:
            dice.tag("rule:override-env-of-reserved-container")
    if dice.chance(50):
        made["volumeMounts"] = _mounts(dice, existing)
        dice.tag(f"override:{field}.volumeMounts")
    if dice.since("2.2") and dice.chance(35):
        made["securityContext"] = shapes.container_security(dice)
        dice.tag(f"override:{field}.securityContext")
    return made


def _env(dice: Dice, existing: Json) -> list[Json]:
    old = [item["name"] for item in existing.get("env") or ()]
    names = dice.sample(old, dice.between(0, 2)) + dice.sample(shapes.ENV_NAMES, dice.between(0, 2))
    return unique([shapes.env_entry(dice, name) for name in dice.shuffled(names)], "name")


def _mounts(dice: Dice, existing: Json) -> list[Json]:
    """Return mounts; the CRD wants their names to differ, the merge goes by mountPath."""
    old: list[Json] = existing.get("volumeMounts") or []
    made = [_changed_mount(dice, item) for item in dice.sample(old, dice.between(0, 2))]
    made += dice.several(0, 2, shapes.volume_mount)
    return unique(dice.shuffled(made), "name")


def _changed_mount(dice: Dice, mount: Json) -> Json:
    change = dice.pick(("none", "name", "path", "readOnly"))
    dice.tag(f"merge:volumeMounts:{change}")
    match change:
        case "name":
            return mount | {"name": dice.pick(shapes.VOLUMES)}
        case "path":
            return mount | {"mountPath": dice.pick(shapes.PATHS)}
        case "readOnly":
            return mount | {"readOnly": shapes.flag(dice)}
        case _:
            return dict(mount)
