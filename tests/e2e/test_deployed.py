"""Two replicas as our manifests deploy them: ``--in-cluster``, with the token and the rights of our service account.

What they share (a Secret, a Lease), what they write into their registration, and what becomes of reviews while that
is damaged. On a control plane of its own, since it acts in all namespaces.
"""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.client import JSON_PATCH
from tests.e2e.controlplane.network import Network
from tests.e2e.deployed import (
    HOST,
    OVERLAY,
    REPAIR_SECONDS,
    SECRET,
    USER,
    Deployed,
    Load,
    Replica,
)
from webhook.kube import shared

pytestmark = pytest.mark.e2e

WIPE = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("deployed")
    with (
        Network() as network,
        ControlPlane(home / "plane", apiserver_environ=network.environ) as plane,
    ):
        plane.install_runtimes()
        made = Deployed(plane, network, home / "account")
        assert made.policies() == ["Ignore", "Ignore"]
        made.scale(2)
        yield made


@pytest.fixture
def armed(deployed: Deployed) -> Deployed:
    """Two replicas, and Fail; the tests leave it so, or it comes back."""
    deployed.scale(2)
    deployed.wait_until_armed()
    return deployed


def served(replica: Replica, bundle: bytes) -> bytes | None:
    """The certificate that it shows to who trusts only this bundle."""
    tls = ssl.create_default_context(cadata=bundle.decode())
    with (
        socket.create_connection(("127.0.0.1", replica.port), timeout=10) as connection,
        tls.wrap_socket(connection, server_hostname=HOST) as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True)


def test_both_serve_the_certificate_of_one_secret_that_every_entry_trusts(armed: Deployed) -> None:
    secret = armed.plane.admin.request("GET", SECRET).checked().json()
    (encoded,) = armed.bundles()
    bundle = base64.b64decode(encoded)
    first, second = armed.replicas.values()

    stored = ssl.PEM_cert_to_DER_cert(base64.b64decode(secret["data"]["tls.crt"]).decode())
    assert served(first, bundle) == served(second, bundle) == stored
    assert base64.b64decode(secret["data"]["ca.crt"]) == bundle


def test_the_rights_of_the_manifests_are_enough_and_no_secret_but_ours_is_asked_for(
    armed: Deployed,
) -> None:
    events = armed.plane.audit(user=USER)
    refused = [e["requestURI"] for e in events if e["responseStatus"]["code"] in {401, 403}]
    secrets = {
        (e["verb"], e["objectRef"].get("name"))
        for e in events
        if e.get("objectRef", {}).get("resource") == "secrets"
    }

    assert refused == []
    assert {verb for verb, _ in secrets} <= {"get", "create", "update"}
    assert {name for verb, name in secrets if verb != "create"} == {shared.SECRET}
    assert all(each.says("healthz")[0] == 200 for each in armed.replicas.values())


def test_a_replica_that_goes_leaves_fail_behind_and_the_last_one_takes_it_along(
    armed: Deployed,
) -> None:
    with Load(armed.plane) as load:
        load.wait_for_more()
        armed.scale(1)
        load.wait_for_more()
        assert armed.policies() == ["Fail", "Fail"]
        assert load.unseen == 0

        armed.scale(0)
        assert armed.policies() == ["Ignore", "Ignore"]
        load.wait_for_more()
    assert load.refused == []
    assert load.reviewed > 0
    assert load.unseen > 0


def test_replicas_that_crash_leave_fail_behind_and_nothing_passes_unseen(armed: Deployed) -> None:
    for each in armed.replicas.values():
        each.component.kill()
    with Load(armed.plane) as load:
        load.wait_for_more()
        assert load.reviewed == 0
        for each in armed.replicas.values():
            each.component.start()
        refused = len(load.refused)
        armed.plane.wait_for(lambda: load.reviewed > 0, "the first review")

    assert refused > 0
    assert load.unseen == 0
    assert armed.policies() == ["Fail", "Fail"]
    armed.scale(0)  # the Lease is still that of the holder that crashed
    assert armed.policies() == ["Ignore", "Ignore"]


def test_a_rolling_restart_refuses_nobody_and_leaves_fail_alone(armed: Deployed) -> None:
    before = set(armed.replicas)
    with Load(armed.plane) as load:
        load.wait_for_more()
        armed.restart()
        load.wait_for_more()

    assert not before & set(armed.replicas)
    assert armed.policies() == ["Fail", "Fail"]
    assert (load.refused, load.unseen) == ([], 0)


def test_a_deleted_secret_is_made_anew_without_a_refused_review(armed: Deployed) -> None:
    (before,) = armed.bundles()
    with Load(armed.plane) as load:
        load.wait_for_more()
        assert armed.plane.admin.request("DELETE", SECRET).status == 200

        def is_repaired() -> bool:
            found = armed.plane.admin.request("GET", SECRET)
            if found.status != 200 or "tls.crt" not in found.json().get("data", {}):
                return False
            certificate = base64.b64decode(found.json()["data"]["tls.crt"]).decode()
            (bundle, *others) = armed.bundles()
            return not others and all(
                served(each, base64.b64decode(bundle)) == ssl.PEM_cert_to_DER_cert(certificate)
                for each in armed.replicas.values()
            )

        armed.plane.wait_for(is_repaired, "a new Secret", timeout_seconds=REPAIR_SECONDS)
        load.wait_for_more()

    assert armed.bundles() != {before}
    assert (load.refused, load.unseen) == ([], 0)


def test_a_wiped_bundle_is_repaired(armed: Deployed) -> None:
    (before,) = armed.bundles()
    with Load(armed.plane) as load:
        load.wait_for_more()
        for each in shared.CONFIGURATIONS:
            answer = armed.plane.admin.request("PATCH", each.path, WIPE, content_type=JSON_PATCH)
            assert "caBundle" not in answer.checked().json()["webhooks"][0]["clientConfig"]

        armed.plane.wait_for(
            lambda: armed.bundles() == {before}, "the bundles", timeout_seconds=REPAIR_SECONDS
        )
        armed.plane.settle_webhooks()
        refused = len(load.refused)
        load.wait_for_more()

    assert len(load.refused) == refused
    assert all("failed calling webhook" in each for each in load.refused)
    assert load.unseen == 0


def test_applying_the_manifests_again_is_mended(armed: Deployed) -> None:
    bundles = armed.bundles()

    done = armed.plane.kubectl("apply", "-k", OVERLAY)

    assert done.returncode == 0, done.stderr
    assert armed.policies() == ["Ignore", "Ignore"]
    assert armed.bundles() == bundles
    armed.wait_until_armed()
