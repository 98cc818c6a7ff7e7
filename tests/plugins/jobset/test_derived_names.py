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
    ],
)
def test_the_longest_name_that_passes(runtime: MakeRuntime, most: int) -> None:
    check(Case(job=make_train_job(named(most)), runtime=runtime))
    refused = (
        too_long(NAME, f"may not be more than {most} bytes with this runtime", "63 characters"),
    )
    check(Case(job=make_train_job(named(most + 1)), runtime=runtime, refused=refused))


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
