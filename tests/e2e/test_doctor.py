"""``stationmaster doctor`` of a real installation, whole and with each thing broken.

There are no nodes: replicas are processes, and their Pods are Ready because the tests say so (``deployed.py``).
All else is as in a cluster. On a control plane of its own, since what is installed acts in all namespaces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.deploy.tools import NAMESPACE
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.controlplane.client import JSON_PATCH
from tests.e2e.controlplane.network import Network
from tests.e2e.controlplane.users import MASTERS, User
from tests.e2e.deployed import OVERLAY, REPAIR_SECONDS, Deployed

pytestmark = pytest.mark.e2e

DOCTOR: Final = "doctor"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
MUTATING_KIND: Final = "MutatingWebhookConfiguration"
BINDING: Final = ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")


@dataclass(frozen=True, slots=True)
class Examined:
    code: int
    checks: list[dict[str, str]]

    def wrong(self) -> dict[str, list[str]]:
        """What is not ok: the messages by check."""
        found: dict[str, list[str]] = {}
        for each in self.checks:
            if each["level"] != "ok":
                found.setdefault(each["check"], []).append(f"{each['level']}: {each['message']}")
        return found


def run(plane: ControlPlane, *flags: str, user: str = DOCTOR) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    command = [sys.executable, "-m", "webhook.cli", "doctor", *flags]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def doctor(plane: ControlPlane, *flags: str, user: str = DOCTOR) -> Examined:
    done = run(plane, "-o", "json", *flags, user=user)
    assert done.stderr == ""
    return Examined(done.returncode, json.loads(done.stdout)["checks"])


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The installation; whoever breaks it, mends it."""
    users = [User(alias=DOCTOR, name=DOCTOR, groups=(MASTERS,))]
    home = tmp_path_factory.mktemp("doctor")
    with (
        Network() as network,
        ControlPlane(home / "plane", extra_users=users, apiserver_environ=network.environ) as plane,
    ):
        plane.start_jobset()
        plane.start_trainer()
        made = Deployed(plane, network, home / "account")
        made.scale(2)
        yield made


@pytest.fixture
def whole(deployed: Deployed) -> Deployed:
    """It fails closed: what fails open passes over whoever cannot be reached."""
    deployed.wait_until_armed()
    return deployed


def test_a_good_installation_is_all_ok_and_nothing_is_changed(whole: Deployed) -> None:
    plane = whole.plane

    done = run(plane)

    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["ok", check]
        for check in (
            *("trainer", "registration", "order", "failure-policy", "mode", "deployment"),
            *("versions", "podgroups", "policies", "rbac", "lease", "certificate", "ca-bundle"),
            "reach",
        )
    ]
    assert last == "all is well"
    asked = plane.audit(user=DOCTOR)
    assert asked
    for event in asked:
        if event["verb"] not in {"get", "list"}:
            assert event["verb"] == "create"
            kind = event["objectRef"]["resource"]
            assert kind == "subjectaccessreviews" or event["requestURI"].endswith("?dryRun=All")


def test_rights_that_were_taken_and_a_bundle_that_was_wiped(whole: Deployed) -> None:
    """In this order: with its rights, Stationmaster repairs the bundle before the doctor comes."""
    plane = whole.plane
    binding = plane.admin.get(*BINDING, "stationmaster-certificates")
    plane.admin.delete(binding)
    try:
        found = doctor(plane)
        assert found.code == 1
        assert list(found.wrong()) == ["rbac"]
        (message,) = found.wrong()["rbac"]
        assert "patch mutatingwebhookconfigurations" in message

        wipe = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
        configuration = plane.admin.get(REGISTRATION, MUTATING_KIND, "00-stationmaster")
        path = plane.admin.path_of(configuration)
        plane.admin.request("PATCH", path, wipe, content_type=JSON_PATCH).checked()
        plane.settle_webhooks()

        wrong = doctor(plane).wrong()
        assert set(wrong) == {"rbac", "ca-bundle", "reach"}
        place = "mutating/00-stationmaster/trainjobs.stationmaster.dev"
        assert wrong["ca-bundle"] == [f"fail: {place} trusts nobody: its caBundle is empty"]
        (message,) = wrong["reach"]
        assert message.startswith("fail: the API server cannot reach us: ")
        assert "x509" in message
    finally:
        plane.apply({**binding, "metadata": {"name": binding["metadata"]["name"]}})
    plane.wait_for(lambda: doctor(plane).code == 0, "the repair", timeout_seconds=REPAIR_SECONDS)


@contextmanager
def applied(plane: ControlPlane, obj: Object) -> Iterator[None]:
    plane.apply(obj)
    try:
        yield
    finally:
        plane.admin.delete(obj)


def test_whoever_comes_before_us_is_named(whole: Deployed) -> None:
    plane = whole.plane
    theirs = plane.admin.get(REGISTRATION, MUTATING_KIND, "defaulter.trainer.kubeflow.org")
    early = {**theirs, "metadata": {"name": "0-defaulter.trainer.kubeflow.org"}}

    with applied(plane, early):
        assert doctor(plane).wrong() == {
            "order": [
                "fail: 0-defaulter.trainer.kubeflow.org is called before 00-stationmaster:"
                " the Trainer does not see what we complete"
            ]
        }


def switch(mode: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stationmaster-mode", "namespace": NAMESPACE},
        "data": {"mode": mode},
    }


def test_a_policy_that_is_not_ready_is_named(whole: Deployed) -> None:
    """It can be stored while we are switched off."""
    plane = whole.plane
    typo: dict[str, Any] = {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "TrainJobPolicy",
        "metadata": {"name": "typo"},
        "spec": {
            "match": {"namespaceSelector": {"matchLabels": {"no": "namespace"}}},
            "validations": [{"name": "x", "expression": "object.spec.trainr == 1"}],
        },
    }
    path = "/apis/stationmaster.dev/v1alpha1/trainjobpolicies"
    with applied(plane, switch("off")):
        plane.wait_for(lambda: plane.admin.request("POST", path, typo).status == 201, "the policy")
    try:
        said = plane.wait_for(
            lambda: [m for m in doctor(plane).wrong().get("policies", []) if m.startswith("fail")],
            "the doctor's word",
            timeout_seconds=REPAIR_SECONDS,
        )
    finally:
        plane.admin.delete(typo)
    assert said[0].startswith(
        "fail: TrainJobPolicy typo is not Ready, NotCompiled: spec.validations[0].expression: "
    )
    plane.wait_for(lambda: doctor(plane).code == 0, "the end", timeout_seconds=REPAIR_SECONDS)


def test_the_switch_is_shown(whole: Deployed) -> None:
    with applied(whole.plane, switch("warn")):
        # Whether the mode is in force already is another question, which `reach` may answer either way.
        (message,) = doctor(whole.plane).wrong()["mode"]

    assert message.startswith(
        "warn: warn, as the ConfigMap stationmaster-system/stationmaster-mode"
    )


def test_replicas_that_hang_are_a_failed_call(whole: Deployed) -> None:
    components = [each.component for each in whole.replicas.values()]
    for each in components:
        each.pause()
    try:
        found = doctor(whole.plane)
    finally:
        for each in components:
            each.resume()

    assert found.code == 1
    (message,) = found.wrong()["reach"]
    assert message.startswith("fail: the API server cannot reach us: ")
    assert "deadline exceeded" in message


def test_what_a_user_may_not_read_is_said_with_the_right_that_is_missing(
    whole: Deployed,
) -> None:
    done = run(whole.plane, user="alice")

    assert (done.returncode, done.stderr) == (2, "")
    assert "-> ask as who may list mutatingwebhookconfigurations\n" in done.stdout
    assert "ok    reach " in done.stdout


def test_an_entry_that_was_removed_is_named_and_the_manifests_put_it_back(
    whole: Deployed,
) -> None:
    plane = whole.plane
    remove = [{"op": "remove", "path": "/webhooks/1"}]
    path = f"/apis/{REGISTRATION}/validatingwebhookconfigurations/stationmaster"
    plane.admin.request("PATCH", path, remove, content_type=JSON_PATCH).checked()

    assert doctor(plane).wrong() == {
        "registration": ["fail: validating/stationmaster/deletions.stationmaster.dev is missing"]
    }

    done = plane.kubectl("apply", "-k", OVERLAY)
    assert done.returncode == 0, done.stderr
    plane.wait_for(lambda: doctor(plane).code == 0, "the repair", timeout_seconds=REPAIR_SECONDS)
