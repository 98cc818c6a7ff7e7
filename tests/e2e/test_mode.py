"""Three in the morning: the commands of docs/install.md, typed by an operator against a real API server.

Stationmaster runs with the rights that the manifests give it, and no others. On a control plane of its own: the
manifests are installed in it, and the API server is restarted.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.tools import DEPLOY
from tests.e2e import jobs
from tests.e2e.controlplane import ControlPlane, Object
from tests.e2e.controlplane.users import ADMIN, STATIONMASTER
from tests.e2e.following import Served
from tests.e2e.labels import ADMISSION
from webhook.kube.shared import CONFIGURATIONS
from webhook.mode import NAME, PREFIX

pytestmark = pytest.mark.e2e

OVERLAY: Final = str(DEPLOY / "kustomize" / "overlays" / "self-managed")
NAMESPACE: Final = "stationmaster-system"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

SECTION: Final = (
    (DEPLOY.parent / "docs" / "install.md").read_text().split("## Three in the morning")[1]
)
THROW, BACK = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[:2]
"""What the page says to type."""

REFUSAL: Final = f"Warning: {PREFIX} refuse this: spec.runtimeRef.name: Not found"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("mode-plane")) as plane:
        plane.install_runtimes()
        install(plane)
        for configuration in CONFIGURATIONS:  # those of Services, behind which nobody is
            assert plane.admin.request("DELETE", configuration.path).status == 200
        yield plane


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served.start(plane, tmp_path_factory.mktemp("served")) as served:
        plane.wait_for(lambda: served.ready()[0] == 200, "readiness")
        yield served


@pytest.fixture
def switch(plane: ControlPlane, served: Served) -> Iterator[None]:
    """The switch is where it belongs, before and after; we are registered, whatever a test installed by our names."""
    assert mode(served) == "enforce"
    with served.registered():
        yield
    plane.admin.request("DELETE", f"{CONFIG_MAPS}/{NAME}")
    wait_for(served, "enforce")


@pytest.fixture
def namespace(plane: ControlPlane, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:50].strip("-")
    return plane.namespace(name, ADMISSION)


def install(plane: ControlPlane) -> None:
    done = plane.kubectl("apply", "-k", OVERLAY)
    assert done.returncode == 0, done.stderr


def typed(plane: ControlPlane, command: str) -> None:
    """Run a command line of the page in a shell."""
    programs = Path(plane.programs.path("kubectl")).parent
    environ = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig(ADMIN)),
    }
    done = subprocess.run(
        ["sh", "-ec", command], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def mode(served: Served) -> str:
    modes = ("enforce", "warn", "off")
    [now] = [each for each in modes if served.metric("stationmaster_mode", mode=each) == 1]
    return now


def wait_for(served: Served, wanted: str) -> None:
    served.plane.wait_for(lambda: mode(served) == wanted, f"mode {wanted}")


def create(plane: ControlPlane, obj: Object) -> subprocess.CompletedProcess[str]:
    return plane.kubectl("create", "-f", "-", user="alice", input=obj)


def wrong(namespace: str, name: str) -> Object:
    """A job that we refuse, and that the API server alone does not."""
    return jobs.train_job(namespace, name, runtime="no-such-runtime")


def audited(plane: ControlPlane, namespace: str, name: str) -> dict[str, str]:
    """The annotations that our webhooks left in the audit of a creation."""
    [event] = [
        event
        for event in plane.audit(verb="create", resource="trainjobs", namespace=namespace)
        if event["objectRef"].get("name") == name and event["stage"] == "ResponseComplete"
    ]
    annotations = event["annotations"]
    return {k: v for k, v in annotations.items() if k.endswith("stationmaster.dev/mode")}


@pytest.mark.usefixtures("switch")
def test_switched_off_all_passes_without_a_word_and_back_again(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    assert "must be created before" in create(plane, wrong(namespace, "before")).stderr

    typed(plane, THROW)
    wait_for(served, "off")

    created = create(plane, wrong(namespace, "meanwhile"))
    assert (created.returncode, created.stderr) == (0, "")
    plain = create(plane, jobs.train_job(namespace, "plain"))
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "trainer" not in jobs.get(plane, namespace, "plain")["spec"]
    assert audited(plane, namespace, "meanwhile") == {
        "mutate.stationmaster.dev/mode": "off",
        "validate.stationmaster.dev/mode": "off",
    }
    labels = {"decision": "off", "dry_run": "false", "operation": "CREATE", "webhook": "mutate"}
    assert served.metric("stationmaster_admission_requests_total", **labels) == 2

    typed(plane, BACK)
    wait_for(served, "enforce")

    assert "must be created before" in create(plane, wrong(namespace, "after")).stderr


@pytest.mark.usefixtures("switch")
def test_under_warn_users_read_once_what_would_be(
    plane: ControlPlane, served: Served, namespace: str
) -> None:
    typed(plane, THROW.replace("mode=off", "mode=warn"))
    wait_for(served, "warn")

    refused = create(plane, wrong(namespace, "wrong"))
    assert refused.returncode == 0
    assert [line[: len(REFUSAL)] for line in refused.stderr.splitlines()] == [REFUSAL]
    completed = create(plane, jobs.train_job(namespace, "right"))
    assert completed.returncode == 0
    assert f"Warning: {PREFIX} write spec.trainer" in completed.stderr
    assert "trainer" not in jobs.get(plane, namespace, "right")["spec"]
    assert set(audited(plane, namespace, "wrong").values()) == {"warn"}
    assert plane.kubectl("delete", "trainjob", "-n", namespace, "--all").returncode == 0


@pytest.mark.usefixtures("switch")
def test_a_mistake_moves_nothing_and_is_told(plane: ControlPlane, served: Served) -> None:
    typed(plane, THROW)
    wait_for(served, "off")

    typed(plane, THROW.replace("mode=off", "mode=enforced"))

    plane.wait_for(
        lambda: (
            served.metric(
                "stationmaster_mode_not_understood",
                read=r"\"enforced\"",
                right="enforce, warn, off",
            )
            == 1
        ),
        "the metric",
    )
    assert mode(served) == "off"
    [line] = [line for line in served.log() if "not understood" in line["msg"]]
    assert (line["read"], line["mode"]) == ('"enforced"', "off")


@pytest.mark.usefixtures("switch")
def test_manifests_applied_again_leave_the_switch_alone(
    plane: ControlPlane, served: Served
) -> None:
    typed(plane, THROW)
    wait_for(served, "off")
    version = plane.admin.get("v1", "ConfigMap", NAME, NAMESPACE)["metadata"]["resourceVersion"]

    install(plane)
    for configuration in CONFIGURATIONS:
        assert plane.admin.request("DELETE", configuration.path).status == 200

    found = plane.admin.get("v1", "ConfigMap", NAME, NAMESPACE)
    assert found["metadata"]["resourceVersion"] == version
    assert mode(served) == "off"


@pytest.mark.usefixtures("switch")
def test_cut_off_from_the_api_server_it_stays_and_what_was_missed_is_read_later(
    plane: ControlPlane, served: Served
) -> None:
    typed(plane, THROW)
    wait_for(served, "off")

    plane.apiserver.kill()
    plane.wait_for(
        lambda: served.metric("stationmaster_cache_cut_off_seconds", kind="mode") > 0, "the cut"
    )
    assert mode(served) == "off"
    plane.apiserver.start()

    plane.wait_for(
        lambda: plane.admin.request("DELETE", f"{CONFIG_MAPS}/{NAME}").status in {200, 404},
        "the deletion",
    )
    wait_for(served, "enforce")


def test_it_may_list_config_maps_for_params_and_no_secrets(plane: ControlPlane) -> None:
    """RBAC knows no labels: what is asked for is the switch by its name, and params by their label."""
    client = plane.client(STATIONMASTER)
    for path in (f"{CONFIG_MAPS}?fieldSelector=metadata.name%3D{NAME}", "/api/v1/configmaps"):
        assert client.request("GET", path).status == 200, path
    for path in (f"/api/v1/namespaces/{NAMESPACE}/secrets", "/api/v1/secrets"):
        assert client.request("GET", path).status == 403, path
