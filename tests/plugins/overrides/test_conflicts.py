"""Two owners of one field: the later entry wins, and a warning says so (B013)."""

from __future__ import annotations

from tests.builders import MakeTrainJob, job_patch, make_runtime, make_train_job
from tests.plugins.kit import Case, check, table

RUNTIME = make_runtime().plain().node().job("other")
JOB = make_train_job()


def two(first: dict[str, object], second: dict[str, object], *, job: str = "node") -> MakeTrainJob:
    return JOB.patch("a.io/m", job_patch("node", pod=dict(first))).patch(
        "b.io/m", job_patch(job, pod=dict(second))
    )


def labelled(level: str, value: str, manager: str, on: MakeTrainJob = JOB) -> MakeTrainJob:
    metadata = {"labels": {"tier": value}}
    if level == "JobSet":
        return on.patch(manager, metadata=metadata)
    if level == "Job":
        return on.patch(manager, job_patch("node", job_metadata=metadata))
    return on.patch(manager, job_patch("node", pod_metadata=metadata))


CASES = {
    "M12 two managers of one nodeSelector key: the field, both managers and the winner are named": Case(
        job=two({"nodeSelector": {"zone": "z1"}}, {"nodeSelector": {"zone": "z2", "disk": "ssd"}}),
        warns=("a.io/m and b.io/m both set nodeSelector[zone] of job node: b.io/m wins",),
    ),
    "the same value is no conflict": Case(
        job=two({"nodeSelector": {"zone": "z1"}}, {"nodeSelector": {"zone": "z1"}}), warns=()
    ),
    "M11 different fields are no conflict": Case(
        job=two({"nodeSelector": {"zone": "z1"}}, {"serviceAccountName": "sa"}), warns=()
    ),
    "the same field of two jobs is no conflict": Case(
        job=two({"serviceAccountName": "a"}, {"serviceAccountName": "b"}, job="other"), warns=()
    ),
    "service accounts": Case(
        job=two({"serviceAccountName": "a"}, {"serviceAccountName": "b"}),
        warns=("both set serviceAccountName of job node",),
    ),
    "tolerations": Case(
        job=two(
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {"tolerations": [{"key": "b", "operator": "Exists"}]},
        ),
        warns=("both set tolerations of job node",),
    ),
    "labels of pods": Case(
        job=labelled("Pod", "2", "b.io/m", labelled("Pod", "1", "a.io/m")),
        warns=("both set Pod labels[tier]",),
    ),
    "labels of the JobSet": Case(
        job=labelled("JobSet", "2", "b.io/m", labelled("JobSet", "1", "a.io/m")),
        warns=("both set JobSet labels[tier]",),
    ),
    "labels at two levels are no conflict": Case(
        job=labelled("Job", "2", "b.io/m", labelled("Pod", "1", "a.io/m")), warns=()
    ),
    "one entry that names a job twice cannot conflict with itself": Case(
        line="2.1",
        job=JOB.pod_template_override("node", pod={"serviceAccountName": "a"}),
        warns=(),
    ),
    "of names that are too long the ends stay, and the field is said whatever they are": Case(
        job=JOB.patch(
            f"a.{'x' * 240}/first", job_patch("node", pod={"nodeSelector": {"zone": "1"}})
        ).patch(f"b.{'x' * 240}/second", job_patch("node", pod={"nodeSelector": {"zone": "2"}})),
        warns=(
            "a.xxxxxxxxxxxxxx...xxxxxxxxxx/first and b.xxxxxxxxxxxxxx...xxxxxxxxx/second"
            " both set nodeSelector[zone] of job node: b.xxxxxxxxxxxxxx...xxxxxxxxx/second wins",
        ),
    ),
    "of a field that is too long its place and its end stay": Case(
        job=two(
            {"nodeSelector": {f"example.com/{'k' * 300}-zone": "1"}},
            {"nodeSelector": {f"example.com/{'k' * 300}-zone": "2"}},
        ),
        warns=(
            "both set nodeSelector[example.com/kkkkkkkkkkkkkkk...",
            "kkk-zone] of job node: b.io/m wins",
        ),
    ),
    "2.1 entries are named by their place": Case(
        line="2.1",
        job=JOB.pod_template_override(
            "node", pod={"serviceAccountName": "a"}
        ).pod_template_override("node", pod={"serviceAccountName": "b"}),
        warns=("podTemplateOverrides[0] and podTemplateOverrides[1] both set serviceAccountName",),
    ),
}


@table(CASES)
def test_conflicts(case: Case) -> None:
    check(Case(line=case.line, job=case.job, runtime=RUNTIME, warns=case.warns))
