"""What is said before a TrainJob is there, while it changes, and when it or its runtime goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from plugins.framework.profile import CONTROLLERS
from plugins.lifecycle import Lifecycle, LifecycleArgs
from tests.builders import (
    NAMESPACE,
    Builder,
    Json,
    MakeTrainJob,
    make_runtime,
    make_train_job,
)
from tests.plugins.kit import Case, check, table
from tests.reviews.desk import PHASES, Desk, create, delete, update

RUNTIME = make_runtime().torch().node()
GANG = {"schedulerName": "gang"}
COSCHEDULED = make_runtime().torch().node(pod=GANG).coscheduling()
VOLCANO = make_runtime().torch().node(pod=GANG).volcano()
JOB = make_train_job()
NAME = JOB.raw["metadata"]["name"]
MULTIKUEUE = ("kueue.x-k8s.io/multikueue", "spec", "managedBy")

GROUPS = {
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PodGroup": "scheduling.x-k8s.io/v1alpha1",
    "VolcanoPodGroup": "scheduling.volcano.sh/v1beta1",
}


def there(kind: str = "JobSet", *, owner: str = "", **metadata: Any) -> Json:
    """A JobSet or PodGroup under the name of the job, whoever's it is."""
    name = metadata.pop("name", NAME)
    if owner:
        kinds = {"kind": owner.split("/", maxsplit=1)[0], "name": owner.split("/")[1]}
        metadata["ownerReferences"] = [{"controller": True, "uid": "u-0", **kinds}]
    return {
        "apiVersion": GROUPS[kind],
        "kind": kind.removeprefix("Volcano"),
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
    }


OURS = f"TrainJob/{NAME}"


# CREATE


CREATES = {
    "a JobSet that nobody owns keeps the job from starting": Case(
        job=JOB,
        others=(there(),),
        warns=(f"there is already JobSet {NAME}, which is no TrainJob's: the Trainer does not",),
    ),
    "a JobSet of another owner is as foreign": Case(
        job=JOB, others=(there(owner=f"Workflow/{NAME}"),), warns=("which is no TrainJob's",)
    ),
    "so is one of another TrainJob": Case(
        job=JOB, others=(there(owner="TrainJob/other"),), warns=("which is no TrainJob's",)
    ),
    "an owner that is no controller is none": Case(
        job=JOB,
        others=(there(ownerReferences=[{"kind": "TrainJob", "name": NAME}]),),
        warns=("which is no TrainJob's",),
    ),
    "one of an earlier TrainJob of this name is collected in a moment": Case(
        job=JOB,
        others=(there(owner=OURS),),
        warns=(f"there is still JobSet {NAME} of an earlier TrainJob of this name",),
    ),
    "what the earlier TrainJob left is said in one sentence": Case(
        job=JOB,
        runtime=COSCHEDULED,
        others=(there(owner=OURS), there("PodGroup", owner=OURS)),
        warns=(f"there is still JobSet and PodGroup.scheduling.x-k8s.io {NAME} of an earlier",),
    ),
    "a foreign PodGroup is taken for the gang of a running job": Case(
        job=JOB,
        runtime=COSCHEDULED,
        others=(there("PodGroup"),),
        warns=("so its minMember and minResources are this job's",),
    ),
    "and written over by that of a suspended one": Case(
        job=JOB.suspended(),
        runtime=COSCHEDULED,
        others=(there("PodGroup"),),
        warns=("no TrainJob's: the Trainer writes over it",),
    ),
    "Volcano has PodGroups of its own": Case(
        job=JOB,
        runtime=VOLCANO,
        others=(there("VolcanoPodGroup"),),
        warns=(f"there is already PodGroup.scheduling.volcano.sh {NAME}",),
    ),
    "a PodGroup of the other scheduler is in nobody's way": Case(
        job=JOB, runtime=VOLCANO, others=(there("PodGroup"),), warns=()
    ),
    "nor is one where the runtime asks for no gang": Case(
        job=JOB, others=(there("PodGroup"), there("VolcanoPodGroup")), warns=()
    ),
    "nor Volcano's before the Trainer knew Volcano": Case(
        job=JOB, runtime=VOLCANO, others=(there("VolcanoPodGroup"),), line="2.0", warns=()
    ),
    "other names and namespaces are other objects": Case(
        job=JOB, others=(there(name="other"), there(namespace="elsewhere")), warns=()
    ),
    "while the TrainJob is there they are its, and a second one is refused anyway": Case(
        job=JOB, others=(there(owner=OURS), JOB.condition("Complete").obj), warns=()
    ),
    "a name that is made later collides with nothing": Case(
        job=JOB.without("metadata", "name").field(f"{NAME}-", "metadata", "generateName"),
        others=(there(name=f"{NAME}-00000"), there(name=f"{NAME}-")),
        warns=(),
    ),
    "what runs in another cluster starts nothing here": Case(
        job=JOB.field(*MULTIKUEUE), others=(there(),), warns=()
    ),
    "but did before the Trainer honoured managedBy": Case(
        job=JOB.field(*MULTIKUEUE),
        others=(there(),),
        line="2.2",
        warns=("which is no TrainJob's",),
    ),
}


@table(CREATES)
def test_what_stands_under_the_name_of_a_new_job(case: Case) -> None:
    runtime = case.runtime or RUNTIME
    alone = check(Case(job=case.job, runtime=runtime, line=case.line))
    found = check(Case(job=case.job, runtime=runtime, others=case.others, line=case.line))

    said = [w for w in found.findings.warnings if w not in alone.findings.warnings]
    assert case.warns is not None
    assert len(said) == len(case.warns)
    assert all(piece in warning for piece, warning in zip(case.warns, said, strict=True))
    assert found.patch == alone.patch


def test_without_its_runtime_the_job_set_is_what_is_known() -> None:
    desk = Desk.of(there(), there("PodGroup"))

    reply = desk.validate(create(JOB.obj))

    assert not reply.allowed
    assert [w.split(",")[0] for w in reply.warnings] == [f"there is already JobSet {NAME}"]


# UPDATE


RELABELLED = JOB.label("a", "b")
UPDATES = {
    "without its runtime the Trainer refuses even a label": Case(
        job=RELABELLED,
        old=JOB,
        warns=("this update is not judged", "create ClusterTrainingRuntime runtime again first"),
    ),
    "and a suspension": Case(
        job=JOB.suspended(),
        old=JOB,
        line="2.0",
        warns=("this update is not judged", "refuses every update of a TrainJob whose runtime"),
    ),
    "with it nothing is said": Case(job=RELABELLED, old=JOB, runtime=RUNTIME, warns=()),
    "nor of leftovers, which are its own by now": Case(
        job=RELABELLED, old=JOB, runtime=RUNTIME, others=(there(),), warns=()
    ),
    "what is finished is let be": Case(
        job=RELABELLED.condition("Complete"), old=JOB.condition("Complete"), warns=()
    ),
    "what is being deleted too": Case(
        job=RELABELLED.terminating(), old=JOB.terminating(), warns=()
    ),
    **{
        f"nobody reads to {user}": Case(job=RELABELLED, old=JOB, user=user, warns=())
        for user in CONTROLLERS
    },
}


@table(UPDATES)
def test_what_the_trainer_will_refuse(case: Case) -> None:
    assert check(case).patch == []


# DELETE


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """What is deleted, how, and what is said of it: pieces, a warning each, in order."""

    old: Builder
    policy: str = "Background"
    others: tuple[Json | Builder, ...] = ()
    line: str = "2.3"
    user: str = "alice@example.com"
    warns: tuple[str, ...] = ()
    request: Json = field(default_factory=dict)


def user_of(name: str, namespace: str = NAMESPACE, runtime: str = "runtime") -> MakeTrainJob:
    return make_train_job(name).field(namespace, "metadata", "namespace").runtime(runtime)


ANEW = "until it is gone, the Trainer makes its JobSet anew as often as that is deleted"
INSTEAD = "delete in the background instead, which also ends this one: kubectl delete --cascade=background"
FOREGROUND = (f"{ANEW}, and starts its pods again each time", INSTEAD)
REFUSED = "none can be suspended or resumed"
HELD = "it stays, being deleted, until no TrainJob uses it any more"

DELETIONS = {
    "in the foreground an unfinished job starts anew": Deletion(
        old=JOB, policy="Foreground", warns=FOREGROUND
    ),
    "a suspended one starts no pods": Deletion(
        old=JOB.suspended(), policy="Foreground", warns=(ANEW, INSTEAD)
    ),
    "a finished one does not": Deletion(old=JOB.condition("Complete"), policy="Foreground"),
    "nor one that failed": Deletion(old=JOB.condition("Failed"), policy="Foreground"),
    "a condition that is not true finishes nothing": Deletion(
        old=JOB.condition("Failed", "False"), policy="Foreground", warns=FOREGROUND
    ),
    "what another cluster runs is not made anew here": Deletion(
        old=JOB.field(*MULTIKUEUE), policy="Foreground"
    ),
    "but was before the Trainer honoured managedBy": Deletion(
        old=JOB.field(*MULTIKUEUE), policy="Foreground", line="2.2", warns=FOREGROUND
    ),
    "in the background it is deleted at once": Deletion(old=JOB),
    "who keeps the dependents knows why": Deletion(old=JOB, policy="Orphan"),
    "a dry run is told the same": Deletion(
        old=JOB, policy="Foreground", warns=FOREGROUND, request={"dryRun": True}
    ),
    "a subresource is no deletion": Deletion(
        old=JOB, policy="Foreground", request={"subResource": "status"}
    ),
    **{
        f"nobody reads to {user}": Deletion(old=JOB, policy="Foreground", user=user)
        for user in CONTROLLERS
    },
    "a runtime that nobody uses may go": Deletion(
        old=RUNTIME, others=(user_of("a", runtime="other"), user_of("b").condition("Complete"))
    ),
    "one that is used is missed at the next update": Deletion(
        old=RUNTIME,
        others=(user_of("a"),),
        warns=(
            f"1 unfinished TrainJob uses ClusterTrainingRuntime runtime: {NAMESPACE}/a",
            REFUSED,
        ),
    ),
    "three users are named in their order, and the others counted": Deletion(
        old=RUNTIME,
        others=tuple(user_of(name, ns) for name in "cab" for ns in ("y", "x")),
        warns=(
            "6 unfinished TrainJobs use ClusterTrainingRuntime runtime: x/a, x/b, x/c and 3 more",
            REFUSED,
        ),
    ),
    "suspended ones are counted": Deletion(
        old=RUNTIME,
        others=(user_of("a").suspended(), user_of("b")),
        warns=(
            "2 unfinished TrainJobs use ClusterTrainingRuntime runtime (1 suspended): ",
            REFUSED,
        ),
    ),
    "before 2.3 a finalizer holds it": Deletion(
        old=RUNTIME, others=(user_of("a"),), line="2.2", warns=("1 unfinished", HELD)
    ),
    "one of a namespace is used there alone": Deletion(
        old=RUNTIME.namespaced(),
        others=(
            user_of("a").runtime("runtime", "TrainingRuntime"),
            user_of("b", "elsewhere").runtime("runtime", "TrainingRuntime"),
            user_of("c"),
        ),
        warns=("1 unfinished TrainJob uses TrainingRuntime runtime: a", REFUSED),
    ),
}


@table(DELETIONS)
def test_what_a_deletion_does_that_nobody_expects(case: Deletion) -> None:
    desk = Desk.of(*case.others, line=case.line)
    options = {"kind": "DeleteOptions", "propagationPolicy": case.policy}
    asked = delete(case.old.obj, user=case.user, options=options, **case.request)

    assert desk.mutate(asked).warnings == []
    reply = desk.validate(asked)
    assert reply.allowed
    assert len(reply.warnings) == len(case.warns)
    assert all(piece in said for piece, said in zip(case.warns, reply.warnings, strict=True))


@pytest.mark.parametrize(
    "shape", [None, [], "x", {"metadata": [], "spec": 1, "status": {"conditions": 1}}]
)
@pytest.mark.parametrize("kind", ["TrainJob", "ClusterTrainingRuntime"])
def test_a_deletion_passes_whatever_is_deleted(kind: str, shape: Any) -> None:
    asked = delete({**JOB.obj, "kind": kind}, options=shape)
    asked["request"]["oldObject"] = shape
    for phase in PHASES:
        assert Desk.of().post(phase, asked).allowed


# Args


def switched(arg: str) -> tuple[tuple[Json | Builder, ...], Json]:
    """What stands around, and a review that the arg is about."""
    foreground = {"propagationPolicy": "Foreground"}
    old, new = JOB.obj, RELABELLED.obj
    return {
        "foregroundDeletion": ((), delete(JOB.obj, options=foreground)),
        "leftovers": ((RUNTIME, there()), create(JOB.obj)),
        "runtimeInUse": ((user_of("a"),), delete(RUNTIME.obj)),
        "missingRuntime": ((), update(old, new)),
    }[arg]


@pytest.mark.parametrize(
    "arg", ["foregroundDeletion", "leftovers", "runtimeInUse", "missingRuntime"]
)
def test_each_warning_can_be_switched_off(arg: str) -> None:
    around, asked = switched(arg)
    off = {"pluginConfig": [{"name": "Lifecycle", "args": {arg: False}}]}
    out = {"plugins": {"multiPoint": {"disabled": [{"name": "Lifecycle"}]}}}

    said, without, none = (
        Desk.of(*around, profile_document=document).validate(asked).warnings
        for document in (None, off, out)
    )

    assert len(said) > len(none)
    assert without == none


WATCHED = {
    "all of it": (LifecycleArgs(), ["TrainJob", "JobSet", "PodGroup", "PodGroup"]),
    "no leftovers": (LifecycleArgs(leftovers=False), ["TrainJob"]),
    "leftovers alone": (
        LifecycleArgs(runtime_in_use=False),
        ["TrainJob", "JobSet", "PodGroup", "PodGroup"],
    ),
    "what the review itself says": (LifecycleArgs(leftovers=False, runtime_in_use=False), []),
}


@table(WATCHED)
def test_only_what_is_said_something_about_is_watched(
    case: tuple[LifecycleArgs, list[str]],
) -> None:
    args, kinds = case

    assert [w.partition(".")[0] for w in Lifecycle(args).watches()] == kinds
