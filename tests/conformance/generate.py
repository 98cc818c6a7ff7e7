"""Generates cases for the oracle: the same seed gives the same corpus, on every Python.

``python -m tests.conformance.generate --line 2.3 --seed 1 --count 100`` prints JSON lines. The
generator knows what the CRDs allow and nothing of the product. Each case carries ``tags``: the
plugins, fields, shapes and rules that it brings up.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from typing import TYPE_CHECKING, Final

from tests.conformance import shapes, spoilers
from tests.conformance.build import LINES
from tests.conformance.dice import Dice, Json, SeededDice
from tests.conformance.oracle import Oracle
from tests.conformance.overrides import overrides
from tests.conformance.runtimes import ANCESTOR, API_VERSION, jobs_of, pod_of, runtime
from tests.conformance.trainjobs import train_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNSPOILED: Final = -1
UID: Final = "00000000-0000-4000-8000-000000000001"
# What the controller says once it has made a JobSet.
SUSPENDED: Final = {
    "type": "Suspended",
    "status": "True",
    "reason": "Suspended",
    "message": "TrainJob is suspended",
    "lastTransitionTime": "2025-12-31T00:00:00Z",
}
# One case in so many breaks a rule. A corpus takes the rules in turn, so that 1,000 cases meet all.
SPOILED_EVERY: Final = 17


def cases(line: str, seed: int, count: int, shipped: Sequence[Json] = ()) -> Iterator[Json]:
    """Yield a corpus; any case of it can be had alone by its index."""
    for index in range(count):
        yield seeded_case(line, seed, index, shipped)


def seeded_case(line: str, seed: int, index: int, shipped: Sequence[Json] = ()) -> Json:
    """Return one case of a corpus."""
    dice = SeededDice(line, f"{seed}/{line}/{index}")
    turn, rest = divmod(index, SPOILED_EVERY)
    made = case(dice, shipped, turn if rest == SPOILED_EVERY - 1 else UNSPOILED)
    return {"id": f"{line}/{seed}/{index}"} | made


def case(dice: Dice, shipped: Sequence[Json] = (), turn: int | None = None) -> Json:
    """Return one case, made from the dice; the shipped runtimes take part if they are given.

    The turn says which rule to break, or that none is broken; without it the dice decide.
    """
    if turn is None:
        turn = dice.below(1000) if dice.chance(100 // SPOILED_EVERY) else UNSPOILED
    if turn != UNSPOILED:
        names = spoilers.names_of(dice)
        return _spoiled_case(dice, names[turn % len(names)])
    operation = dice.weighted({"CREATE": 85, "UPDATE": 12, "VALIDATE_RUNTIME": 3})
    chosen = _shipped(dice, shipped) if shipped and dice.chance(10) else runtime(dice)
    if operation == "VALIDATE_RUNTIME":
        made = _runtime_case(dice, chosen)
    else:
        made = _train_job_case(dice, chosen, operation)
    return made | _described(dice, operation)


def _spoiled_case(dice: Dice, name: str) -> Json:
    """Return a case that breaks one rule, of runtimes alone or of TrainJobs."""
    if name in spoilers.RUNTIME_SPOILERS:
        operation, made = "VALIDATE_RUNTIME", {"runtime": runtime(dice)}
    else:
        operation, made = "CREATE", _train_job_case(dice, runtime(dice), "CREATE")
    made = copy.deepcopy(made)  # what shares a part must not share the fault
    spoilers.spoil(dice, made, name)
    return made | _described(dice, operation)


def _described(dice: Dice, operation: str) -> Json:
    dice.tag(f"operation:{operation}")
    return {"operation": operation, "tags": sorted(dice.tags)}


def _shipped(dice: Dice, shipped: Sequence[Json]) -> Json:
    """Return a runtime of the Trainer's own, now and then as a namespaced one."""
    made = copy.deepcopy(dice.pick(shipped))
    dice.tag("shipped", f"shipped:{made['metadata']['name']}")
    if dice.chance(20):
        made["kind"] = "TrainingRuntime"
        made["metadata"]["namespace"] = "default"
    return made


def _train_job_case(dice: Dice, chosen: Json, operation: str) -> Json:
    job = train_job(dice, chosen)
    made: Json = {"trainJob": job, "runtime": chosen, "objects": _objects(dice, job, operation)}
    if dice.chance(12):
        spoilers.make_odd(dice, made)
    if operation == "UPDATE":
        made["oldObject"] = _old_train_job(dice, job, chosen)
        made["oldObjectSent"] = dice.chance(90)
        if any(item["kind"] == "JobSet" for item in made["objects"]):
            made["oldObject"]["status"] = {"conditions": [dict(SUSPENDED)]}
            dice.tag("update:after-reconcile")
    if dice.since("2.3") and dice.chance(15):
        made["reconciles"] = 2
        dice.tag("rule:built-from-snapshot")
    return made


def _runtime_case(dice: Dice, chosen: Json) -> Json:
    """Return a runtime for its own webhook, usually with something for it to find."""
    for job in jobs_of(chosen):
        if dice.chance(25):
            job["replicas"] = dice.pick((2, 1, 0))
            dice.tag("rule:ancestor-replicas")
        if dice.chance(20):
            containers = pod_of(job).get("containers") or []
            for container in containers[:1]:
                container["name"] = "renamed"
            dice.tag("rule:ancestor-container")
        if dice.chance(10):
            metadata = job["template"].setdefault("metadata", {})
            metadata["labels"] = {ANCESTOR: dice.pick(("trainer", "dataset-initializer", "x"))}
    made: Json = {"runtime": chosen}
    if dice.chance(40):
        old = copy.deepcopy(chosen)
        old.setdefault("metadata", {})["labels"] = {"a": "x"}
        if dice.chance(40):
            spec = old["spec"].setdefault("template", {}).setdefault("spec", {})
            spec["network"] = {"subdomain": "before"}
            dice.tag("rule:runtime-immutable-field")
        made["oldObject"] = old
        dice.tag("rule:runtime-update")
    return made


def _objects(dice: Dice, job: Json, operation: str) -> list[Json]:
    """Return what else is in the cluster: classes always, the rest by chance."""
    made = [_priority_class("high", 1000), _priority_class("low", 10)]
    if dice.chance(8):
        made += [_runtime_class(dice), _limit_range(dice)]
        dice.tag("cluster:runtime-class", "cluster:limit-range")
    if dice.chance(60 if operation == "UPDATE" else 4):
        made.append(_job_set(dice, job))
        dice.tag("cluster:job-set")
    if dice.chance(8):
        made += _pod_groups(dice, job)
        dice.tag("cluster:pod-group")
    if dice.chance(6):
        name = job["metadata"]["name"] + "-mpi-ssh-auth"
        made.append(_named("v1", "Secret", name) | {"data": {"ssh-privatekey": "YQ=="}})
        dice.tag("cluster:mpi-secret")
    if dice.since("2.3") and dice.chance(5):
        made.append(_snapshot(dice, job))
    return made


def _named(api_version: str, kind: str, name: str) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _priority_class(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _runtime_class(dice: Dice) -> Json:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": dice.pick(("250m", "1")), "memory": "64Mi"}},
    }


def _limit_range(dice: Dice) -> Json:
    limit = {"type": "Container", "defaultRequest": {"cpu": dice.pick(("100m", "2"))}}
    return _named("v1", "LimitRange", "limits") | {"spec": {"limits": [limit]}}


def _job_set(dice: Dice, job: Json) -> Json:
    """Return the JobSet of an earlier reconcile, mostly suspended, seldom with active Pods."""
    made = _named("jobset.x-k8s.io/v1alpha2", "JobSet", job["metadata"]["name"])
    made["spec"] = {"suspend": dice.chance(70), "replicatedJobs": []}
    if dice.chance(40):
        active = 1 if dice.chance(10) else 0
        counters = {"ready": 0, "succeeded": 0, "failed": 0, "suspended": 0, "active": active}
        status = [{"name": "node", **counters}]
        if dice.chance(30):
            status.append({"name": "launcher", **counters})
        made["status"] = {"replicatedJobsStatus": status}
        dice.tag(f"rule:job-set-active-{active}")
    return made


def _pod_groups(dice: Dice, job: Json) -> list[Json]:
    kinds = ["scheduling.x-k8s.io/v1alpha1"]
    if dice.since("2.1"):
        kinds.append("scheduling.volcano.sh/v1beta1")
    name = job["metadata"]["name"]
    return [_named(kind, "PodGroup", name) | {"spec": {"minMember": 1}} for kind in kinds]


def _snapshot(dice: Dice, job: Json) -> Json:
    """Return a runtime snapshot, whose text may be JSON since that is YAML."""
    kind = dice.weighted({"own": 80, "foreign": 5, "no-key": 5, "other-runtime": 5, "bad": 5})
    dice.tag("cluster:snapshot", f"snapshot:{kind}")
    reference = job["spec"]["runtimeRef"]
    inner = runtime(SeededDice(dice.line, f"snapshot {dice.below(1000)}"))
    _fill_defaults(inner)
    inner["kind"] = reference.get("kind", "ClusterTrainingRuntime")
    inner["metadata"] = {"name": "other" if kind == "other-runtime" else reference["name"]}
    made = _named("v1", "ConfigMap", job["metadata"]["name"] + "-runtime-snapshot")
    uid = "f" * 8 if kind == "foreign" else job["metadata"].get("uid", UID)
    owner = {"apiVersion": API_VERSION, "kind": "TrainJob", "name": job["metadata"]["name"]}
    made["metadata"]["ownerReferences"] = [{**owner, "uid": uid, "controller": True}]
    key = "other" if kind == "no-key" else "runtime"
    made["data"] = {key: "{bad" if kind == "bad" else json.dumps(inner)}
    return made


def _fill_defaults(made: Json) -> None:
    """Set the defaults without which the framework panics: a snapshot is taken of a stored runtime."""
    policy = made["spec"].get("mlPolicy") or {}
    if "mpi" in policy:
        policy["mpi"] = {
            "mpiImplementation": "OpenMPI",
            "numProcPerNode": 1,
            "runLauncherAsNode": False,
            "sshAuthMountPath": "/root/.ssh",
        } | policy["mpi"]
    if "flux" in policy:
        policy["flux"] = {"numProcPerNode": 1} | policy["flux"]
    groups = made["spec"].get("podGroupPolicy") or {}
    if "coscheduling" in groups:
        groups["coscheduling"] = {"scheduleTimeoutSeconds": 60} | groups["coscheduling"]
    if topology := groups.get("volcano", {}).get("networkTopology"):
        groups["volcano"]["networkTopology"] = {"highestTierAllowed": 1, "mode": "hard"} | topology
    for job in jobs_of(made):
        job.setdefault("replicas", 1)
        job.setdefault("groupName", "default")


def _old_train_job(dice: Dice, job: Json, chosen: Json) -> Json:
    """Return the TrainJob as it was before the update that made it what it is."""
    old = copy.deepcopy(job)
    old["metadata"].setdefault("uid", UID)
    change = dice.weighted(
        {
            "labels": 24,
            "suspend": 28,
            "patches": 35,
            "add": 4,
            "trainer": 4,
            "reference": 2,
            "manager": 3,
        }
    )
    dice.tag(f"update:{change}")
    spec = old["spec"]
    match change:
        case "labels":
            old["metadata"]["labels"] = {"before": "x"}
        case "suspend":
            spec["suspend"] = not job["spec"].get("suspend", False)
        case "patches":
            _change_patches(dice, old, job, chosen)
        case "add":
            dice.tag("rule:field-added-on-update")
            for part in ("trainer", "initializer", "activeDeadlineSeconds"):
                if dice.chance(50):
                    spec.pop(part, None)
        case "trainer":
            spec["trainer"] = {**(spec.get("trainer") or {}), "image": "before"}
        case "reference":
            spec["runtimeRef"]["name"] = "before"
        case _:
            spec["managedBy"] = "kueue.x-k8s.io/multikueue"
    return old


def _change_patches(dice: Dice, old: Json, job: Json, chosen: Json) -> None:
    """Let the update touch the overrides, mostly while the TrainJob is suspended."""
    suspended = dice.weighted({"both": 45, "before": 25, "after": 25, "never": 5})
    dice.tag(f"rule:patches-changed-suspended-{suspended}")
    old["spec"]["suspend"] = suspended in {"both", "before"}
    job["spec"]["suspend"] = suspended in {"both", "after"}
    fields = [name for name in ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
              if name in job["spec"]]  # fmt: skip
    how = dice.pick(("drop", "selector", "replace", "reorder", "time"))
    if not fields:
        old["spec"] |= overrides(dice, chosen)
        return
    entries = old["spec"][fields[0]]
    match how:
        case "drop":
            del old["spec"][fields[0]]
        case "replace":
            old["spec"] |= overrides(dice, chosen)
        case "reorder":
            entries.reverse()
        case "time" if fields[0] == "runtimePatches":
            entries[0]["time"] = "2024-01-01T00:00:00Z"
        case _:
            _change_selector(dice, entries[0])


def _change_selector(dice: Dice, entry: Json) -> None:
    """Change a field that the CRD lets change in a surviving entry."""
    selector = shapes.string_map(dice) | {"changed": "x"}
    if "trainingRuntimeSpec" in entry:
        spec = (entry["trainingRuntimeSpec"].get("template") or {}).get("spec") or {}
        for item in spec.get("replicatedJobs", ()):
            template = item.setdefault("template", {}).setdefault("spec", {})
            template.setdefault("template", {}).setdefault("spec", {})["nodeSelector"] = selector
    elif "targetJobs" in entry and "spec" in entry:
        entry["spec"]["nodeSelector"] = selector
    elif "manager" not in entry:
        entry["nodeSelector"] = selector


def main(argv: Sequence[str] | None = None) -> int:
    """Print a corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--line", choices=LINES, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--no-shipped",
        action="store_true",
        help="leave out the runtimes of the Trainer's module (the oracle need not be built then)",
    )
    args = parser.parse_args(argv)
    shipped = [] if args.no_shipped else Oracle(args.line).shipped_runtimes()
    for made in cases(args.line, args.seed, args.count, shipped):
        sys.stdout.write(json.dumps(made, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
