"""Options of the released SDK on the client and the same in policies, against the real API server and Trainer.

In one namespace the SDK sends jobs with options; in another a user sends the same jobs without, and policies say what
the options would. The Trainer must make the same JobSets of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.e2e import jobs, sdk
from tests.e2e.conftest import MakeNamespace
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.labels import ADMISSION
from tests.e2e.standalone import Standalone, write
from tests.sdk import environments, sending
from tests.sdk.sections import SECTIONS

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("standalone")]

VERSION: Final = "0.5.0"
CASES: Final = ("annotations", "patch", "command", "args", "deadline", "labels")
"""The options of this SDK; labels last, for by them we see that all policies have been read."""
TRAINERS: Final = ("container", "function", "none")
PAIRS: Final = [
    (case, trainer)
    for case in CASES
    for trainer in TRAINERS
    if (case, trainer) not in {("command", "function"), ("args", "function")}
]
"""Those that the SDK does not refuse."""


def policy(case: str, namespace: str) -> Object:
    """What an option says, for the jobs of its case in a namespace."""
    where = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    condition = {"name": "case", "expression": f"object.metadata.name.startsWith('{case}-')"}
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": f"{namespace}-{case}"},
        "spec": {
            "match": {"namespaceSelector": where},
            "matchConditions": [condition],
            "overrides": SECTIONS[case],
        },
    }


@pytest.fixture
def on_server(
    plane: ControlPlane, standalone: Standalone, make_namespace: MakeNamespace
) -> Iterator[str]:
    """A namespace in which policies say what the options would."""
    environments.install(VERSION)
    namespace = make_namespace(ADMISSION)
    files = [write(standalone.folder, policy(case, namespace)) for case in CASES]
    probe = without_option("labels", "none", namespace)

    def applied() -> bool:
        made = plane.admin.create(probe, dry_run=True)
        return bool(made["metadata"].get("labels") == SECTIONS["labels"]["labels"])

    plane.wait_for(applied, "the policies to be read")
    yield namespace
    for file in files:
        file.unlink()


def without_option(case: str, trainer: str, namespace: str) -> Object:
    """The job as the SDK sends it without the option, under the name of the one with it."""
    job = deepcopy(sending.base(sending.sent(VERSION), case, trainer))
    job["metadata"]["namespace"] = namespace
    return job


def built(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    """What the Trainer made, and what of an option is in the TrainJob alone."""
    made = jobs.jobset(plane, namespace, name)
    job = jobs.get(plane, namespace, name)
    return {
        "jobset": made["spec"],
        "jobset labels": made["metadata"].get("labels", {}),
        "jobset annotations": made["metadata"].get("annotations", {}),
        "labels": job["metadata"].get("labels", {}),
        "annotations": of_others(job),
        "deadline": job["spec"].get("activeDeadlineSeconds"),
    }


def of_others(job: Object) -> dict[str, str]:
    """Annotations without ours."""
    found = job["metadata"].get("annotations", {})
    return {k: v for k, v in found.items() if not k.startswith("stationmaster.dev/")}


def test_the_trainer_makes_the_same_of_an_option_and_of_a_policy(
    plane: ControlPlane, make_namespace: MakeNamespace, on_server: str
) -> None:
    on_client = make_namespace(ADMISSION)
    said = sdk.run(plane, "options_session.py", on_client)
    for case, trainer in PAIRS:
        name = f"{case}-{trainer}"
        assert said[name] == name
        plane.admin.create(without_option(case, trainer, on_server))
    plain = {trainer: built(plane, on_client, f"base-{trainer}") for trainer in TRAINERS}
    for case, trainer in PAIRS:
        name = f"{case}-{trainer}"
        found = built(plane, on_server, name)
        assert found == built(plane, on_client, name), name
        assert found != plain[trainer], f"{name}: the option does something"
