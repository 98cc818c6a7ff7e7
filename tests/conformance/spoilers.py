"""Makes cases wrong, one rule at a time, and odd without making them wrong."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from tests.conformance.runtimes import ANCESTOR, QUEUE, ancestor_of, jobs_of, pod_of
from tests.conformance.trainjobs import at, with_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.conformance.dice import Dice, Json

    Spoiler = Callable[[Dice, Json], None]

PET: Final = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
OMPI: Final = (
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
)
DMLC: Final = ("DMLC_TRACKER_URI", "DMLC_NUM_WORKER", "DMLC_TASK_ID", "DMLC_TRACKER_PORT")
JAX: Final = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS")
STATUS: Final = ("KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN")
BAD_LABELS: Final = ({"a b": "x"}, {"a": "x y"}, {"a/b/c": "x"}, {"a": "x" * 64}, {"a": "-"})
# More names than the hostfile's ConfigMap holds: 1 MiB. Long ones, of which fewer are needed and which pack well.
MANY_NODES: Final = 11_000
LONG_NAME: Final = "x" * 40
# Go reads and writes them as they stand; we read neither more than 64 characters nor such exponents.
UNREADABLE: Final = ("1e102", "-1e102", "0" * 70 + "1")
DIRECTIVES: Final = (
    {"$patch": "replace", "a": "x"},
    {"$patch": "delete"},
    {"$patch": "merge", "a": "x"},
    {"$retainKeys": "a"},
    {"$setElementOrder/x": "a"},
    {"$deleteFromPrimitiveList/x": "a"},
)
BAD_MANAGERS: Final = ("manager", "a.io/", "/b", "A_b.io/c", "a.io/with space", "-a.io/b")
BAD_NAMES: Final = ("Job", "1job", "job-", "a.b", "x" * 64, "")


def names_of(dice: Dice) -> list[str]:
    """The rules of the line that can be broken: of TrainJobs, then of runtimes alone."""
    tables = (SPOILERS, RUNTIME_SPOILERS)
    return [name for table in tables for name, (line, _) in table.items() if dice.since(line)]


def spoil(dice: Dice, case: Json, name: str) -> None:
    """Break a rule."""
    _, spoiler = RUNTIME_SPOILERS.get(name) or SPOILERS[name]
    spoiler(dice, case)
    dice.tag("spoiled", f"spoil:{name}")


def make_odd(dice: Dice, case: Json) -> None:
    """Add what the API server silently repairs, or shapes that look like nothing."""
    spec = case["trainJob"]["spec"]
    match dice.pick(("null", "unknown", "status", "runtime-null", "runtime-unknown")):
        case "null":
            place = dice.pick([spec, spec.get("trainer", spec), case["trainJob"]["metadata"]])
            place[dice.pick(("labels", "args", "env", "initializer"))] = None
            dice.tag("shape:null")
        case "unknown":
            dice.pick([spec, spec.get("trainer", spec), case["trainJob"]])["unknownField"] = {
                "a": 1
            }
            dice.tag("shape:unknown-field")
        case "status":
            case["trainJob"]["status"] = {"conditions": []}
            dice.tag("shape:status-on-create")
        case "runtime-null":
            for job in jobs_of(case["runtime"])[:1]:
                pod_of(job)[dice.pick(("volumes", "tolerations", "affinity"))] = None
            dice.tag("shape:null")
        case _:
            for job in jobs_of(case["runtime"])[:1]:
                pod_of(job)["unknownField"] = ["a"]
            dice.tag("shape:unknown-field")


def _trainer_env(names: tuple[str, ...]) -> Spoiler:
    def spoiled(dice: Dice, case: Json) -> None:
        trainer = at(case["trainJob"], "spec", "trainer")
        for name in dice.sample(names, dice.between(1, 3)):
            trainer["env"] = with_entry(trainer.get("env"), {"name": name, "value": "1"}, "name")
        if not dice.since("2.2") and dice.chance(70):
            trainer.setdefault("numProcPerNode", 2)

    return spoiled


def _set(*path: str, to: tuple[Any, ...]) -> Spoiler:
    """Return a spoiler that sets a field of the TrainJob to one of the values."""

    def spoiled(dice: Dice, case: Json) -> None:
        at(case["trainJob"], *path[:-1])[path[-1]] = dice.pick(to)

    return spoiled


def _node_selector(dice: Dice, case: Json) -> None:
    """Put a directive of strategic merge where any key is legal."""
    job = dice.pick(jobs_of(case["runtime"]) or [{"name": "node"}])
    directive = dict(dice.pick(DIRECTIVES))
    if dice.chance(60) and jobs_of(case["runtime"]):
        pod_of(job).setdefault("nodeSelector", {"a": "y", "b": "z"})
    _append_patch(dice, case, job["name"], {"nodeSelector": directive})


def _unknown_container(dice: Dice, case: Json) -> None:
    job = dice.pick(jobs_of(case["runtime"]) or [{"name": "node"}])
    field = dice.pick(("containers", "initContainers"))
    _append_patch(dice, case, job["name"], {field: [{"name": "missing"}]})


def _unknown_job(dice: Dice, case: Json) -> None:
    containers = [{"name": dice.pick(("node", "missing")), "env": [{"name": "A", "value": "1"}]}]
    patch = {"containers": containers} if dice.chance(50) else {"nodeSelector": {"a": "x"}}
    _append_patch(dice, case, "missing", patch)


def _reserved_container_env(dice: Dice, case: Json) -> None:
    job = dice.pick(jobs_of(case["runtime"]) or [{"name": "node"}])
    name = dice.pick(("node", "dataset-initializer", "model-initializer"))
    env = [{"name": "A", "value": "1"}]
    _append_patch(dice, case, job["name"], {"containers": [{"name": name, "env": env}]})


def _duplicate_patch_item(dice: Dice, case: Json) -> None:
    job = dice.pick(jobs_of(case["runtime"]) or [{"name": "node"}])
    item = {"name": "v1", "emptyDir": {}}
    _append_patch(dice, case, job["name"], {"volumes": [item, item]})


def _append_patch(dice: Dice, case: Json, job: str, pod: Json) -> None:
    """Add one more entry in the form of the line."""
    spec = case["trainJob"]["spec"]
    if dice.since("2.2"):
        pod_template = {"spec": {"template": {"spec": pod}}}
        template = {"spec": {"replicatedJobs": [{"name": job, "template": pod_template}]}}
        entry: Json = {"manager": "spoil.io/x", "trainingRuntimeSpec": {"template": template}}
        spec["runtimePatches"] = [*spec.get("runtimePatches", []), entry]
    elif dice.since("2.1"):
        entry = {"targetJobs": [{"name": job}], "spec": pod}
        spec["podTemplateOverrides"] = [*spec.get("podTemplateOverrides", []), entry]
    else:
        others = [
            item
            for item in spec.get("podSpecOverrides", [])
            if {"name": job} not in item["targetJobs"]
        ]
        spec["podSpecOverrides"] = [*others, {"targetJobs": [{"name": job}], **pod}]


def _patched_metadata(dice: Dice, case: Json, metadata: Json) -> None:
    """Add an entry about the metadata of a Job or a Pod, as far as the line has it."""
    name = dice.pick(jobs_of(case["runtime"]) or [{"name": "node"}])["name"]
    spec = case["trainJob"]["spec"]
    if not dice.since("2.2"):
        entry: Json = {"targetJobs": [{"name": name}], "metadata": metadata}
        spec["podTemplateOverrides"] = [*spec.get("podTemplateOverrides", []), entry]
        return
    on_pod = {"spec": {"template": {"metadata": metadata}}}
    template = {"metadata": metadata} if ANCESTOR in metadata["labels"] else on_pod
    whole = {"spec": {"replicatedJobs": [{"name": name, "template": template}]}}
    entry = {"manager": "spoil.io/x", "trainingRuntimeSpec": {"template": whole}}
    spec["runtimePatches"] = [*spec.get("runtimePatches", []), entry]


def _bad_label(dice: Dice, case: Json) -> None:
    _patched_metadata(dice, case, {"labels": dict(dice.pick(BAD_LABELS))})


def _patched_ancestor(dice: Dice, case: Json) -> None:
    step = dice.pick(("trainer", "dataset-initializer", "x"))
    _patched_metadata(dice, case, {"labels": {ANCESTOR: step}})


def _bad_manager(dice: Dice, case: Json) -> None:
    spec = case["trainJob"]["spec"]
    entry = {"manager": dice.pick(BAD_MANAGERS)}
    spec["runtimePatches"] = [*spec.get("runtimePatches", []), entry]


def _same_manager(_dice: Dice, case: Json) -> None:
    case["trainJob"]["spec"]["runtimePatches"] = [{"manager": "a.io/b"}, {"manager": "a.io/b"}]


def _many_patches(_dice: Dice, case: Json) -> None:
    patches = [{"manager": f"a.io/{number}"} for number in range(17)]
    case["trainJob"]["spec"]["runtimePatches"] = patches


def _missing_runtime(_dice: Dice, case: Json) -> None:
    case["trainJob"]["spec"]["runtimeRef"]["name"] = "no-such-runtime"


def _no_runtime_at_all(_dice: Dice, case: Json) -> None:
    case["runtime"] = None


def _initializer_without_job(dice: Dice, case: Json) -> None:
    part = dice.pick(("dataset", "model"))
    at(case["trainJob"], "spec", "initializer")[part] = {}
    jobs = at(case["runtime"], "spec", "template", "spec")
    kept = [job for job in jobs_of(case["runtime"]) if job["name"] != f"{part}-initializer"]
    jobs["replicatedJobs"] = kept


def _initializer_without_container(dice: Dice, case: Json) -> None:
    part = dice.pick(("dataset", "model"))
    at(case["trainJob"], "spec", "initializer")[part] = {}
    pod = {"containers": [{"name": dice.pick(("main", f"{part}-initializer")), "image": "x"}]}
    job = {"name": f"{part}-initializer", "template": {"spec": {"template": {"spec": pod}}}}
    jobs = at(case["runtime"], "spec", "template", "spec")
    jobs["replicatedJobs"] = with_entry(jobs_of(case["runtime"]), job, "name")


def _initializer_without_label(dice: Dice, case: Json) -> None:
    """The job and its container are there, and only the label says what it is for."""
    part = dice.pick(("dataset", "model"))
    name = f"{part}-initializer"
    at(case["trainJob"], "spec", "initializer")[part] = {}
    mount = {"name": "initializer", "mountPath": "/workspace"}
    container = {"name": name, "image": "x", "volumeMounts": [mount]}
    pod = {"containers": [container], "volumes": [{"name": "initializer", "emptyDir": {}}]}
    job = {"name": name, "template": {"spec": {"template": {"spec": pod}}}}
    jobs = at(case["runtime"], "spec", "template", "spec")
    jobs["replicatedJobs"] = with_entry(jobs_of(case["runtime"]), job, "name")


def _jax_env(dice: Dice, case: Json) -> None:
    at(case["runtime"], "spec")["mlPolicy"] = {"jax": {}}
    _trainer_env(JAX)(dice, case)


def _mpi_runtime(**policy: Any) -> Json:
    """The spec of a runtime with an MPI policy and the two jobs that it is about."""
    container = {"name": "node", "image": "x"}
    spec = {"template": {"spec": {"containers": [container]}}}
    launcher = {"metadata": {"labels": {ANCESTOR: "trainer"}}, "spec": spec}
    jobs = [
        {"name": "launcher", "template": launcher},
        {"name": "node", "template": {"spec": spec}},
    ]
    return {"mlPolicy": {"mpi": policy}, "template": {"spec": {"replicatedJobs": jobs}}}


def _many_nodes(_dice: Dice, case: Json) -> None:
    """An MPI job whose hostfile no ConfigMap holds."""
    case["runtime"]["spec"] = _mpi_runtime()
    case["trainJob"]["metadata"]["name"] = LONG_NAME
    case["trainJob"]["spec"] = {
        "runtimeRef": case["trainJob"]["spec"]["runtimeRef"],
        "trainer": {"numNodes": MANY_NODES},
    }


def _coordinator_without_pod(dice: Dice, case: Json) -> None:
    """A runtime whose coordinator is a later pod than the TrainJob has."""
    job = next((j for j in jobs_of(case["runtime"]) if ancestor_of(j) == "trainer"), None)
    if job is None:
        job = jobs_of(case["runtime"])[0]
        at(job, "template", "metadata", "labels")[ANCESTOR] = "trainer"
    pods = dice.between(1, 3)
    template = at(case["runtime"], "spec", "template", "spec")
    template["coordinator"] = {"replicatedJob": job["name"], "podIndex": pods + dice.below(2)}
    at(case["trainJob"], "spec", "trainer")["numNodes"] = pods


def _unknown_priority_class(_dice: Dice, case: Json) -> None:
    """Volcano looks no further than the first class that is the system's own."""
    at(case["runtime"], "spec")["podGroupPolicy"] = {"volcano": {}}
    jobs = jobs_of(case["runtime"])
    extra = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}}
    jobs = with_entry(jobs[::-1], {"name": "last", "template": extra}, "name")[::-1]
    at(case["runtime"], "spec", "template", "spec")["replicatedJobs"] = jobs
    for job in jobs[:-1]:
        pod_of(job).pop("priorityClassName", None)
    pod_of(jobs[0])["priorityClassName"] = "system-node-critical"
    pod_of(jobs[-1])["priorityClassName"] = "missing"


def _unreadable_amount(dice: Dice, case: Json) -> None:
    """Without a gang, of which the controller would sum up what we cannot."""
    case["runtime"]["spec"].pop("podGroupPolicy", None)
    resources = {"requests": {"example.com/foo": dice.pick(UNREADABLE)}}
    pod = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    job = {"name": "extra", "template": {"spec": {"template": {"spec": pod}}}}
    jobs = with_entry(jobs_of(case["runtime"]), job, "name")
    at(case["runtime"], "spec", "template", "spec")["replicatedJobs"] = jobs


def _two_policies(dice: Dice, case: Json) -> None:
    policy = at(case["runtime"], "spec", "mlPolicy")
    policy["torch"] = {}
    policy[dice.pick(("mpi", "jax", "xgboost"))] = {}


def _runtime_schema(dice: Dice, case: Json) -> None:
    spec = at(case["runtime"], "spec", "template", "spec")
    match dice.pick(("restart", "twice", "kind", "volcano", "empty")):
        case "restart":
            spec["failurePolicy"] = {"restartStrategy": "Never"}
        case "twice":
            spec["replicatedJobs"] = [*jobs_of(case["runtime"]), *jobs_of(case["runtime"])]
        case "kind":
            spec["replicatedJobs"] = {"name": "node"}
        case "volcano":
            topology = {"networkTopology": {"mode": "medium"}}
            at(case["runtime"], "spec")["podGroupPolicy"] = {"volcano": topology}
        case _:
            case["runtime"]["spec"] = {}


def _in_order_and_depends_on(_dice: Dice, case: Json) -> None:
    jobs = jobs_of(case["runtime"])
    jobs[-1]["dependsOn"] = [{"name": jobs[0]["name"], "status": "Ready"}]
    spec = at(case["runtime"], "spec", "template", "spec")
    spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}


def _no_template(_dice: Dice, case: Json) -> None:
    case["runtime"]["spec"].pop("template", None)
    case["runtime"]["spec"].setdefault("mlPolicy", {"numNodes": 1})


def _no_pod_template(_dice: Dice, case: Json) -> None:
    job = {"name": "node", "template": {"spec": {"template": {}}}}
    at(case["runtime"], "spec", "template", "spec")["replicatedJobs"] = [job]


def _no_spec(_dice: Dice, case: Json) -> None:
    del case["trainJob"]["spec"]


def _no_nodes(dice: Dice, case: Json) -> None:
    at(case["runtime"], "spec", "mlPolicy")["numNodes"] = dice.pick((0, -1))


def _in_job_set(**fields: Any) -> Spoiler:
    """Return a spoiler that sets fields of the runtime's JobSet, as no JobSet may have them."""

    def spoiled(_dice: Dice, case: Json) -> None:
        at(case["runtime"], "spec", "template", "spec").update(copy.deepcopy(fields))

    return spoiled


def _depends_on_nothing(dice: Dice, case: Json) -> None:
    """Jobs may wait for jobs before them only."""
    case["runtime"]["spec"]["template"]["spec"].pop("startupPolicy", None)
    jobs = jobs_of(case["runtime"])
    last = jobs[-1]["name"] if len(jobs) > 1 else "missing"
    jobs[0]["dependsOn"] = [{"name": last, "status": dice.pick(("Ready", "Complete"))}]


def _bad_job_name(dice: Dice, case: Json) -> None:
    job = jobs_of(case["runtime"])[0]
    job[dice.pick(("name", "groupName"))] = dice.pick(("Node", "node-", "a_b"))


def _no_mpi_implementation(_dice: Dice, case: Json) -> None:
    case["runtime"]["spec"] = _mpi_runtime(mpiImplementation="")


def _missing_target(dice: Dice, case: Json) -> None:
    job = jobs_of(case["runtime"])[0]["name"]
    name = dice.pick((job, "missing"))
    targets = [{"jobName": name, "containerNames": ["missing"]}]
    case["runtime"]["spec"]["mlPolicy"] = {"torch": {"envInjection": {"targets": targets}}}


def _empty_queue(_dice: Dice, case: Json) -> None:
    at(case["runtime"], "spec")["podGroupPolicy"] = {"volcano": {}}
    at(case["runtime"], "spec", "template", "metadata", "annotations")[QUEUE] = ""


_BAD_QUANTITIES: Final = (0.5, "1 Gi", "abc", "1gi", "", True, "1e", "--1")
_RESOURCES: Final = ("spec", "trainer", "resourcesPerNode", "requests")
SPOILERS: Final[Mapping[str, tuple[str, Spoiler]]] = {
    "reserved-env-torch": ("2.0", _trainer_env(PET)),
    "reserved-env-mpi": ("2.0", _trainer_env(OMPI)),
    "reserved-env-xgboost": ("2.0", _trainer_env(DMLC)),
    "unknown-job": ("2.0", _unknown_job),
    "unknown-container": ("2.0", _unknown_container),
    "reserved-container-env": ("2.0", _reserved_container_env),
    "directive": ("2.0", _node_selector),
    "duplicate-patch-item": ("2.0", _duplicate_patch_item),
    "bad-manager": ("2.2", _bad_manager),
    "same-manager": ("2.2", _same_manager),
    "many-patches": ("2.2", _many_patches),
    "missing-runtime": ("2.0", _missing_runtime),
    "no-runtime": ("2.0", _no_runtime_at_all),
    "runtime-kind": ("2.0", _set("spec", "runtimeRef", "kind", to=("Runtime", "", "trainjob"))),
    "runtime-group": ("2.0", _set("spec", "runtimeRef", "apiGroup", to=("example.com", ""))),
    "runtime-name": ("2.0", _set("spec", "runtimeRef", "name", to=("", "x" * 254, 1))),
    "initializer-without-job": ("2.0", _initializer_without_job),
    "initializer-without-container": ("2.0", _initializer_without_container),
    "storage-uri": (
        "2.0",
        _set("spec", "initializer", "dataset", "storageUri", to=("no-uri", "://x", "1a://b")),
    ),
    "bad-quantity": ("2.0", _set(*_RESOURCES, "cpu", to=_BAD_QUANTITIES)),
    "num-nodes-type": ("2.0", _set("spec", "trainer", "numNodes", to=("2", 1.5, True, 2**31))),
    "num-proc": ("2.0", _set("spec", "trainer", "numProcPerNode", to=("many", "2", 0, -1, "auto"))),
    "managed-by": ("2.0", _set("spec", "managedBy", to=("someone", "", 1))),
    "deadline": ("2.2", _set("spec", "activeDeadlineSeconds", to=(0, -1, "60"))),
    "name": ("2.0", _set("metadata", "name", to=BAD_NAMES)),
    "labels-type": ("2.0", _set("metadata", "labels", to=({"a": 1}, {"a b": "x"}, {"a": None}))),
    "env-twice": (
        "2.0",
        _set("spec", "trainer", "env", to=([{"name": "A"}, {"name": "A"}], [{"value": "a"}], {})),
    ),
    "command-type": ("2.0", _set("spec", "trainer", "command", to=("a b", [1], [None]))),
    "long-image": ("2.2", _set("spec", "trainer", "image", to=("x" * 501,))),
    "two-policies": ("2.0", _two_policies),
    "runtime-schema": ("2.0", _runtime_schema),
    "in-order-and-depends-on": ("2.0", _in_order_and_depends_on),
    "no-template": ("2.1", _no_template),
    "no-pod-template": ("2.0", _no_pod_template),
    "no-spec": ("2.0", _no_spec),
    "reserved-env-jax": ("2.2", _jax_env),
    "reserved-env-status": ("2.0", _trainer_env(STATUS)),
    "patched-label": ("2.1", _bad_label),
    "patched-ancestor": ("2.2", _patched_ancestor),
    "initializer-without-label": ("2.0", _initializer_without_label),
    "many-nodes": ("2.0", _many_nodes),
    "coordinator-without-pod": ("2.0", _coordinator_without_pod),
    "unknown-priority-class": ("2.1", _unknown_priority_class),
    "unreadable-amount": ("2.0", _unreadable_amount),
}
"""Rule about TrainJobs -> the line that it came with, and how it is broken."""

_CLAIM: Final = {"metadata": {"name": "v1"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
RUNTIME_SPOILERS: Final[Mapping[str, tuple[str, Spoiler]]] = {
    "runtime-no-nodes": ("2.0", _no_nodes),
    "runtime-success-policy": (
        "2.0",
        _in_job_set(successPolicy={"operator": "All", "targetReplicatedJobs": ["missing"]}),
    ),
    "runtime-coordinator": ("2.0", _in_job_set(coordinator={"replicatedJob": "missing"})),
    "runtime-subdomain": ("2.0", _in_job_set(network={"subdomain": "Sub_domain"})),
    "runtime-claims": ("2.1", _in_job_set(volumeClaimPolicies=[{"templates": [_CLAIM, _CLAIM]}])),
    "runtime-depends-on": ("2.0", _depends_on_nothing),
    "runtime-job-name": ("2.0", _bad_job_name),
    "runtime-mpi-implementation": ("2.1", _no_mpi_implementation),
    "runtime-env-injection": ("2.3", _missing_target),
    "runtime-queue": ("2.1", _empty_queue),
}
"""Rule about runtimes -> the same."""
