"""Generates TrainJobs for a given runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.conformance import overrides, shapes
from tests.conformance.dice import Json, unique
from tests.conformance.runtimes import API_VERSION, FLUX_ENV, QUEUE, jobs_of

if TYPE_CHECKING:
    from tests.conformance.dice import Dice

NAMES: Final = ("job", "a", "my-train-job-1", "x" * 63, "train-7")
LORA_ARGS: Final = (
    "model.lora_attn_modules=[q_proj,v_proj]",
    "model.quantize_base=True",
    "model.quantize_base= true ",
    "model.use_dora=true",
    "model.quantize_base=false",
    "epochs=1",
    "dataset=x",
    "batch_size=4",
)
IMMUTABLE_ARGS: Final = ("output_dir=/x", "checkpointer.checkpoint_dir=/x", "--output_dir=/x")


def train_job(dice: Dice, runtime: Json) -> Json:
    """Return a TrainJob that refers to the runtime."""
    spec: Json = {"runtimeRef": _runtime_ref(dice, runtime)}
    policy = runtime["spec"].get("mlPolicy") or {}
    if dice.chance(88) or ("flux" in policy and dice.chance(80)):
        spec["trainer"] = _trainer(dice, runtime)
        dice.tag("field:trainer")
    if (initializer := _initializer(dice, runtime)) is not None:
        spec["initializer"] = initializer
    spec |= _life(dice)
    if not dice.since("2.2") and dice.chance(20):
        spec |= _old_metadata(dice)
    if dice.chance(55):
        spec |= overrides.overrides(dice, runtime)
    metadata = _metadata(dice)
    return {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _metadata(dice: Dice) -> Json:
    made: Json = {"name": dice.pick(NAMES), "namespace": "default"}
    if dice.chance(12):
        # Where names derived from it become too long.
        made["name"] = "x" * dice.between(32, 50)
        dice.tag("shape:longish-name")
    if dice.chance(15):
        made["labels"] = shapes.string_map(dice)
    if dice.chance(15):
        made["annotations"] = shapes.string_map(dice)
    if dice.chance(8):
        made["uid"] = "11111111-2222-4333-8444-555555555555"
    return made


def _life(dice: Dice) -> Json:
    """Return the fields that say when the TrainJob runs, and who runs it."""
    spec: Json = {}
    if dice.chance(40):
        spec["suspend"] = dice.chance(50)
        dice.tag(f"field:suspend-{spec['suspend']}".lower())
    if dice.chance(10):
        spec["managedBy"] = dice.pick(
            ("trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue")
        )
        dice.tag("field:managedBy")
    if dice.since("2.2") and dice.chance(8):
        spec["activeDeadlineSeconds"] = dice.pick((60, 1))
        dice.tag("field:activeDeadlineSeconds")
    return spec


def _runtime_ref(dice: Dice, runtime: Json) -> Json:
    made: Json = {"name": runtime["metadata"]["name"]}
    if runtime["kind"] != "ClusterTrainingRuntime" or dice.chance(30):
        made["kind"] = runtime["kind"]
    if dice.chance(30):
        made["apiGroup"] = "trainer.kubeflow.org"
    return made


def _old_metadata(dice: Dice) -> Json:
    """Return the metadata for the JobSet that TrainJobs carried before runtimePatches."""
    made = dice.some({"labels": shapes.string_map, "annotations": shapes.string_map}, 1, 2)
    if dice.chance(25):
        made.setdefault("annotations", {})[QUEUE] = dice.pick(("queue-a", "queue-c"))
        dice.tag("rule:volcano-queue")
    dice.tag("field:spec.labels")
    return made


def _trainer(dice: Dice, runtime: Json) -> Json:
    policy: Json = runtime["spec"].get("mlPolicy") or {}
    tune = runtime["metadata"]["name"].startswith("torchtune-") and dice.chance(75)
    made: Json = {}
    needed = "flux" in policy or (tune and not dice.since("2.2"))
    if dice.chance(96 if needed else 60):
        made["numNodes"] = _num_nodes(dice, tune=tune)
        dice.tag("field:trainer.numNodes")
    if dice.chance(35):
        made["numProcPerNode"] = _num_proc(dice, policy)
        dice.tag("field:trainer.numProcPerNode")
    if dice.chance(30):
        made["image"] = dice.pick((*shapes.IMAGES, ""))
        dice.tag("field:trainer.image")
    if tune:
        _make_torchtune(dice, made)
    else:
        if dice.chance(30):
            made["command"] = shapes.texts(dice)
            dice.tag("field:trainer.command")
        if dice.chance(25):
            made["args"] = shapes.texts(dice)
            dice.tag("field:trainer.args")
    if dice.chance(45):
        names = (*shapes.ENV_NAMES, *(FLUX_ENV if "flux" in policy else ()))
        made["env"] = shapes.env(dice, names)
        dice.tag("field:trainer.env")
    if dice.chance(45):
        made["resourcesPerNode"] = shapes.resources(dice)
        dice.tag("field:trainer.resourcesPerNode")
    if not made:
        dice.tag("shape:empty-trainer")
    return made


def _num_nodes(dice: Dice, *, tune: bool) -> int:
    if tune and dice.chance(85):
        return 1
    odd = dice.chance(6)
    if odd:
        dice.tag("shape:odd-numNodes")
    return dice.pick((0, -1, 100) if odd else (2, 1, 3, 4))


def _num_proc(dice: Dice, policy: Json) -> int | str:
    if dice.since("2.2"):
        return dice.pick((2, 1, 4, 1, 8) if "flux" in policy else (2, 1, 4, 0, 8))
    if "torch" in policy and dice.chance(60):
        return dice.pick(("auto", "cpu", "gpu"))
    return dice.pick((2, 1, 4))


def _make_torchtune(dice: Dice, trainer: Json) -> None:
    trainer["command"] = ["tune", "run"]
    dice.tag("rule:torchtune-command")
    if dice.chance(50):
        trainer["args"] = dice.sample(LORA_ARGS, dice.between(1, 3))
        dice.tag("rule:torchtune-args")
    if dice.chance(3):
        trainer.setdefault("args", []).append(dice.pick(IMMUTABLE_ARGS))
        dice.tag("rule:torchtune-immutable-args")


def _initializer(dice: Dice, runtime: Json) -> Json | None:
    names = {job["name"] for job in jobs_of(runtime)}
    made: Json = {}
    for part in ("dataset", "model"):
        there = f"{part}-initializer" in names
        if dice.chance(75 if there else 1) and (there or dice.chance(40)):
            made[part] = _source(dice)
            dice.tag(f"field:initializer.{part}")
            if not there:
                dice.tag("rule:initializer-without-job")
    if made:
        return made
    return {} if dice.chance(3) else None


def _source(dice: Dice) -> Json:
    made: Json = {}
    if dice.chance(70):
        made["storageUri"] = dice.pick(("hf://a/b", "s3://bucket/key?x=1#y", "pvc://c/d", ""))
        dice.tag("field:initializer.storageUri")
    if dice.chance(35):
        made["env"] = shapes.env(dice, (*shapes.ENV_NAMES, "STORAGE_URI"))
        dice.tag("field:initializer.env")
    if dice.chance(35):
        made["secretRef"] = {"name": dice.pick(("token", "a"))}
        dice.tag("field:initializer.secretRef")
    return made


def with_entry(items: list[Json] | None, entry: Json, *keys: str) -> list[Json]:
    """Return the list with one more entry in front; an older one with its key goes."""
    return unique([entry, *(items or [])], *keys)


def at(obj: Json, *path: str) -> Any:
    """Return the object at a path, made on the way where there is none."""
    here: Any = obj
    for step in path:
        if not isinstance(here.get(step), dict):
            here[step] = {}
        here = here[step]
    return here
