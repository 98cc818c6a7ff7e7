"""What is named after a TrainJob must fit as well: pods, Jobs, volume claims (10.2, G26)."""

from __future__ import annotations

import pytest

from plugins.framework.api.trainjob import TrainJob
from plugins.framework.field import Findings
from plugins.framework.lines import LINES as FACTS
from plugins.jobset.derived_names import own_name
from tests.builders import MakeRuntime, make_runtime, make_train_job
from tests.plugins.kit import LINES, Case, assert_found, check, invalid, table, too_long

NODE = make_runtime().plain().node()
MPI = make_runtime().mpi().job("node").job("launcher", "trainer")
NAME = "metadata.name"
FLUX = make_runtime().flux().node()
COORDINATED = NODE.template({"replicatedJob": "node"}, "coordinator")


def completing(mode: str) -> MakeRuntime:
    return make_runtime().plain().node(job_spec={"completionMode": mode})


def named(length: int) -> str:
    return "a" * length


@pytest.mark.parametrize(
    ("runtime", "most"),
    [
        pytest.param(NODE, 48, id="job node"),
        pytest.param(NODE.nodes(10), 48, id="job node, ten nodes"),
        pytest.param(NODE.nodes(11), 47, id="job node, more than ten nodes"),
        pytest.param(NODE.nodes(101), 46, id="job node, more than a hundred nodes"),
        pytest.param(MPI, 44, id="job launcher"),
        pytest.param(
            NODE.initializers(), 33, id="the longest of the jobs decides: dataset-initializer"
        ),
        pytest.param(NODE.job("side", replicas=11), 47, id="replicas count too"),
        pytest.param(NODE.claims("x" * 20), 42, id="a volume claim"),
        pytest.param(NODE.claims("x"), 48, id="a short volume claim"),
        pytest.param(
            completing("NonIndexed"),
            56,
            id="of pods without an index JobSet looks at the Job alone",
        ),
        pytest.param(completing("NonIndexed").nodes(101), 56, id="which no count of pods changes"),
        pytest.param(
            completing("NonIndexed").job("side"), 48, id="an indexed job beside it decides"
        ),
        pytest.param(completing("Indexed"), 48, id="an index that is asked for"),
        pytest.param(COORDINATED, 26, id="the coordinator's address has the name twice"),
        pytest.param(
            COORDINATED.template("net" * 7, "network", "subdomain"),
            32,
            id="once where there is a subdomain",
        ),
    ],
)
def test_the_longest_name_that_passes(runtime: MakeRuntime, most: int) -> None:
    check(Case(job=make_train_job(named(most)), runtime=runtime))
    refused = (
        too_long(NAME, f"may not be more than {most} bytes with this runtime", "63 characters"),
    )
    check(Case(job=make_train_job(named(most + 1)), runtime=runtime, refused=refused))


FLUX_NAMES = {
    "the volume of Flux's scripts": (FLUX, 1, 47),
    "of a hundred nodes the pods are as long": (FLUX, 100, 47),
    "of more they are longer": (FLUX, 101, 46),
    "without a job node there is no volume": (make_runtime().flux().job("work", "trainer"), 1, 48),
}


@pytest.mark.parametrize("line", ["2.2", "2.3"])
@table(FLUX_NAMES)
def test_the_longest_name_with_flux(case: tuple[MakeRuntime, int, int], line: str) -> None:
    runtime, nodes, most = case
    check(Case(line=line, job=make_train_job(named(most)).nodes(nodes), runtime=runtime))
    refused = (too_long(NAME, f"may not be more than {most} bytes"),)
    longer = make_train_job(named(most + 1)).nodes(nodes)
    check(Case(line=line, job=longer, runtime=runtime, refused=refused))


def test_a_job_without_pods_ends_at_minus_one() -> None:
    """JobSet makes the name of the last pod without looking whether there is one."""
    zero = invalid("spec.trainer.numNodes", "must be at least 1")
    check(Case(job=make_train_job(named(47)).nodes(0), runtime=NODE, refused=(zero,)))
    refused = (zero, too_long(NAME, "may not be more than 47 bytes"))
    check(Case(job=make_train_job(named(48)).nodes(0), runtime=NODE, refused=refused))


def test_a_coordinator_for_whom_no_name_is_short_enough_is_the_runtimes_fault() -> None:
    runtime = COORDINATED.template("n" * 53, "network", "subdomain")
    check(Case(job=make_train_job("a"), runtime=runtime, warns=("has a fault: spec.template",)))


def test_the_trainjobs_own_count_decides() -> None:
    job = make_train_job(named(48))
    check(Case(job=job.nodes(10), runtime=NODE.nodes(100)))
    says = "may not be more than 47 bytes with this runtime: the pod names of job node"
    check(Case(job=job.nodes(11), runtime=NODE, refused=(too_long(NAME, says),)))


def test_the_thing_that_does_not_fit_is_named() -> None:
    says = f"the name of the volume claim {'x' * 20}"
    runtime = NODE.claims("x" * 20)
    check(Case(job=make_train_job(named(43)), runtime=runtime, refused=(too_long(NAME, says),)))


def test_a_stored_name_is_no_reason_to_refuse() -> None:
    old = make_train_job(named(60)).suspended()
    check(Case(old=old, job=old.patch("a.io/x"), runtime=NODE))


def test_a_generated_name_is_judged_with_its_suffix() -> None:
    job = make_train_job().without("metadata", "name")
    fits = job.field(named(43), "metadata", "generateName")
    check(Case(job=fits, runtime=NODE))
    longer = job.field(named(44), "metadata", "generateName")
    refused = (too_long(NAME, "may not be more than 48 bytes with this runtime"),)
    check(Case(job=longer, runtime=NODE, refused=refused))


OWN = {
    "S11 a DNS label passes": Case(job=make_train_job("valid-job-name"), runtime=NODE),
    "S12 upper case is refused": Case(
        job=make_train_job("Job"), runtime=NODE, refused=(invalid(NAME, '"Job"', "RFC 1035"),)
    ),
    "S13 a digit in front is refused": Case(
        job=make_train_job("1job"), runtime=NODE, refused=(invalid(NAME, "RFC 1035"),)
    ),
    "S14 a dash at the end is refused": Case(
        job=make_train_job("job-"), runtime=NODE, refused=(invalid(NAME, "RFC 1035"),)
    ),
    "a dot is refused": Case(
        job=make_train_job("job.a"), runtime=NODE, refused=(invalid(NAME, "RFC 1035"),)
    ),
}


@pytest.mark.parametrize("line", LINES)
@table(OWN)
def test_the_own_name(case: Case, line: str) -> None:
    """What the API server says of it in most lines is the webhook's business in 2.0; we say it in all."""
    found = Findings()
    found.error(*own_name(FACTS[line], TrainJob(case.job.obj)))
    assert_found(found, case.refused, None)


def test_more_pods_than_a_jobset_takes_are_refused() -> None:
    runtime = NODE.job("many", replicas=2, job_spec={"parallelism": 2**30 + 1})
    says = f"{2**31 + 2} pods in job many"
    refused = (invalid("spec.trainer.numNodes", says),)
    check(Case(job=make_train_job(), runtime=runtime, refused=refused))
