"""The manifests that users apply, against a real API server, and certificates kept by their RBAC only.

Nobody serves here: what fails closed must bite, and nothing else may be held up. On a control plane of
its own, since what is installed acts in all namespaces.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs import injection
from certs.keypair import Front
from certs.rotation import Settings
from tests.deploy.tools import DEPLOY
from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.client import JSON, JSON_PATCH, Object, Response
from tests.e2e.controlplane.users import ADMIN, KUEUE, STATIONMASTER
from webhook import logs
from webhook.kube.arming import Arming, patch
from webhook.kube.calls import Method
from webhook.kube.certificates import Keeper
from webhook.kube.client import ApiError
from webhook.kube.injector import Injector
from webhook.kube.lease import Clock, Elector
from webhook.kube.secret import SecretStore
from webhook.kube.shared import CONFIGURATIONS, WEBHOOK
from webhook.kube.tie import Tie
from webhook.metrics import Recorder

OVERLAY = str(DEPLOY / "kustomize" / "overlays" / "self-managed")
NAMESPACE = "stationmaster-system"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/stationmaster-certs"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/stationmaster"
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"


class Calls:
    """The API server, as the service account that the manifests make."""

    def __init__(self, plane: ControlPlane) -> None:
        self._client = plane.client(STATIONMASTER)

    async def get(self, path: str) -> Any:
        return _checked(self._client.request("GET", path))

    async def send(self, method: Method, path: str, body: object) -> Any:
        assert isinstance(body, dict | list)
        kind = JSON_PATCH if method == "PATCH" else JSON
        return _checked(self._client.request(method, path, body, content_type=kind))

    def server_time(self) -> datetime | None:
        return datetime.now(UTC)


def _checked(response: Response) -> Any:
    if response.status >= 400:
        said = response.json()
        raise ApiError(response.status, said.get("reason", ""), said.get("message", ""))
    return response.json()


class Replica:
    def __init__(self, plane: ControlPlane, identity: str) -> None:
        calls = Calls(plane)
        self.ahead = timedelta()
        self.injector = Injector(calls, CONFIGURATIONS)
        clock = Clock(now=self.now, monotonic=time.monotonic)
        logger = logs.build(io.BytesIO())
        self.elector = Elector(
            calls, namespace=NAMESPACE, name="stationmaster", identity=identity, clock=clock
        )
        self.keeper = Keeper(
            secret=SecretStore(calls, namespace=NAMESPACE, name="stationmaster-certs"),
            injector=self.injector,
            elector=self.elector,
            settings=Settings(names=(f"stationmaster.{NAMESPACE}.svc",)),
            front=Front(),
            counter=Recorder(),
            logger=logger,
            clock=clock,
            verifier_time=calls.server_time,
            tie=Tie(calls, CONFIGURATIONS, namespace=NAMESPACE),
            arming=Arming(
                calls,
                webhook=WEBHOOK,
                deployment=DEPLOYMENT,
                monotonic=time.monotonic,
                may_write=self.elector.confirm,
                logger=logger,
            ),
        )

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def turn(self) -> None:
        await self.elector.attempt()
        assert self.elector.last_problem is None
        await self.keeper.look()


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("manifests")) as plane:
        yield plane


@pytest.fixture
def installed(own_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Freshly installed; gone afterwards, but for the namespace, whose end would take its time."""
    _apply(own_plane)
    yield own_plane
    for configuration in CONFIGURATIONS:
        own_plane.admin.request("DELETE", configuration.path)
    own_plane.admin.request("DELETE", SECRET)
    own_plane.admin.request("DELETE", f"{_LEASES}/stationmaster")


_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def _apply(plane: ControlPlane, *flags: str) -> str:
    def is_settled() -> bool:  # an earlier test may have deleted the namespace
        found = plane.admin.find("v1", "Namespace", NAMESPACE)
        return found is None or "deletionTimestamp" not in found["metadata"]

    plane.wait_for(is_settled, "the namespace to end")
    done = plane.kubectl("apply", *flags, "-k", OVERLAY)
    assert done.returncode == 0, done.stderr
    return done.stdout


def job(name: str) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "finalizers": ["example.com/held"],
        },
        "spec": {"runtimeRef": {"name": "torch-distributed"}},
    }


# --- certificates ---------------------------------------------------------------------------------


async def test_the_rights_of_the_manifests_are_enough_to_install_and_repair(
    installed: ControlPlane,
) -> None:
    first, second = Replica(installed, "a"), Replica(installed, "b")

    for replica in (first, second):
        await replica.turn()
        assert not list(replica.keeper.problems)
        assert replica.keeper.unready() is None
    assert (first.elector.is_holder, second.elector.is_holder) == (True, False)

    wipe = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
    for configuration in CONFIGURATIONS:
        _patched(installed, ADMIN, configuration.path, wipe)
    await first.turn()
    assert len(set((await first.injector.read()).bundles.values())) == 1


async def test_applying_the_manifests_again_leaves_the_bundles(installed: ControlPlane) -> None:
    replica = Replica(installed, "a")
    await replica.turn()
    before = (await replica.injector.read()).bundles

    _apply(installed)
    _apply(installed, "--server-side", "--force-conflicts")

    assert (await replica.injector.read()).bundles == before
    assert all(before.values())


def test_the_command_prints_what_is_installed(installed: ControlPlane) -> None:
    command = [sys.executable, "-m", "webhook.cli", "manifests"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    done = installed.kubectl("diff", "-f", "-", input=printed)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_a_deleted_secret_and_an_old_authority_are_replaced_step_by_step(
    installed: ControlPlane,
) -> None:
    replica = Replica(installed, "a")
    await replica.turn()
    before = set((await replica.injector.read()).bundles.values())

    assert installed.admin.request("DELETE", SECRET).status == 200
    await replica.turn()
    both = set((await replica.injector.read()).bundles.values())
    assert list(replica.keeper.problems) == ["there is no certificate yet"]
    assert replica.keeper.unready() is None

    replica.ahead = timedelta(minutes=2)
    await replica.turn()
    assert not list(replica.keeper.problems)

    (old,), (union,) = before, both
    assert union.startswith(old)
    assert union != old


async def test_a_patch_that_was_decided_on_an_older_version_is_refused(
    installed: ControlPlane,
) -> None:
    replica = Replica(installed, "a")
    published = await replica.injector.read()
    obj = published.objects[CONFIGURATIONS[0]]
    patch = injection.patch(obj, b"anything", {"trainjobs.stationmaster.dev"})
    await replica.turn()

    assert _patched(installed, STATIONMASTER, CONFIGURATIONS[0].path, patch) == 422


def test_no_other_secret_can_be_read_and_none_listed(installed: ControlPlane) -> None:
    client = installed.client(STATIONMASTER)
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"

    for path in ("/api/v1/secrets", secrets, f"{secrets}/another"):
        assert client.request("GET", path).status == 403


# --- what is held up while nobody serves ----------------------------------------------------------


def test_our_outage_stops_new_and_changed_jobs_and_nothing_else(own_plane: ControlPlane) -> None:
    admin, path = own_plane.admin, f"{JOBS}/held"
    own_plane.wait_for(
        lambda: admin.request("POST", JOBS, job("held")).status == 201, "nobody to be asked"
    )
    _apply(own_plane)
    own_plane.settle_webhooks()
    assert admin.request("POST", JOBS, job("not-armed")).status == 201
    for configuration in CONFIGURATIONS:
        obj = admin.request("GET", configuration.path).json()
        assert _patched(own_plane, ADMIN, configuration.path, patch(obj, WEBHOOK, "Fail")) == 200
    own_plane.wait_for(lambda: admin.request("POST", JOBS, job("probe")).status == 500, "to bite")

    def status(*patch: Object, at: str = path, user: str = ADMIN) -> int:
        return _patched(own_plane, user, at, list(patch))

    suspend = {"op": "add", "path": "/spec/suspend", "value": True}
    label = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    annotations = {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
    ours = {
        "op": "add",
        "path": "/metadata/annotations/stationmaster.dev~1applied",
        "value": "forged",
    }
    jobs_status = {"op": "add", "path": "/status", "value": {"jobsStatus": []}}
    release = {"op": "remove", "path": "/metadata/finalizers"}

    assert (status(suspend), status(label)) == (500, 500)
    assert status(annotations) == 200
    assert status(ours) == 500
    assert status(jobs_status, at=f"{path}/status") == 200
    assert admin.request("DELETE", path).status == 200
    assert status(label) == 200  # it is being deleted
    assert status(release) == 200
    assert admin.request("GET", path).status == 404

    elsewhere = {**job("there"), "metadata": {"name": "there", "namespace": "kube-system"}}
    assert admin.request("POST", JOBS.replace("default", "kube-system"), elsewhere).status == 201

    done = own_plane.kubectl("delete", "-k", OVERLAY, "--wait=false", "--ignore-not-found")
    assert done.returncode == 0, done.stderr
    own_plane.wait_for(
        lambda: admin.request("POST", JOBS, job("after")).status == 201, "the uninstallation"
    )


async def test_who_deletes_only_our_namespace_leaves_no_registration_behind(
    own_plane: ControlPlane,
) -> None:
    _apply(own_plane)
    tie = Tie(Calls(own_plane), CONFIGURATIONS, namespace=NAMESPACE)
    assert await tie.look() == ()

    own_plane.admin.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")

    def are_gone() -> bool:
        answers = [own_plane.admin.request("GET", each.path) for each in CONFIGURATIONS]
        return [answer.status for answer in answers] == [404, 404]

    own_plane.wait_for(are_gone, "the garbage collector")


def test_what_kueue_changes_is_told_by_its_name(own_plane: ControlPlane) -> None:
    kueue = own_plane.users[KUEUE].name

    for configuration in ("mutating", "validating"):
        text = (DEPLOY / "kustomize" / "base" / f"{configuration}.yaml").read_text()
        assert f"request.userInfo.username != '{kueue}'" in text


def _patched(plane: ControlPlane, user: str, path: str, patch: list[Any]) -> int:
    client = plane.client(user)
    return client.request("PATCH", path, patch, content_type=JSON_PATCH).status
