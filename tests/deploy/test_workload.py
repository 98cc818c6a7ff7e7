from __future__ import annotations

import click
import pytest

from tests.deploy.conftest import One, Rendered
from tests.deploy.tools import Object
from webhook.cli import serve


def pod(manifests: Rendered, one: One) -> Object:
    found: Object = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return found


def test_flags_are_those_of_serve(manifests: Rendered, one: One) -> None:
    (container,) = pod(manifests, one)["containers"]
    known = {
        name
        for parameter in serve.command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }

    assert container["args"][0] == "serve"
    flags = {arg.partition("=")[0] for arg in container["args"][1:]}
    assert flags <= known


def test_the_pod_is_as_restricted_as_its_namespace_asks(manifests: Rendered, one: One) -> None:
    spec = pod(manifests, one)
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all({"emptyDir", "secret"} & set(volume) for volume in spec["volumes"])
    labels = one(manifests, "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_one_replica_is_always_there(manifests: Rendered, one: One) -> None:
    spec = one(manifests, "Deployment")["spec"]
    budget = one(manifests, "PodDisruptionBudget")["spec"]

    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == spec["selector"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    # With DoNotSchedule a cluster of one node would have one replica.
    assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")],
)
def test_probes_ask_the_plain_port(manifests: Rendered, one: One, probe: str, path: str) -> None:
    (container,) = pod(manifests, one)["containers"]

    assert container[probe]["httpGet"] == {"path": path, "port": "health"}


def test_requests_are_set_and_cpu_is_not_throttled(manifests: Rendered, one: One) -> None:
    (container,) = pod(manifests, one)["containers"]

    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert set(container["resources"]["limits"]) == {"memory"}


def test_the_network_is_open_to_what_is_needed(manifests: Rendered, one: One) -> None:
    policy = one(manifests, "NetworkPolicy")["spec"]
    spec = one(manifests, "Deployment")["spec"]

    assert policy["podSelector"] == spec["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    inward = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    outward = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert inward == ["webhook", "health"]
    assert outward == [443, 6443]


def test_everything_carries_our_labels(manifests: Rendered) -> None:
    for obj in manifests:
        assert obj["metadata"]["labels"]["app.kubernetes.io/name"] == "stationmaster"


def test_the_selector_is_never_changed_by_a_version(manifests: Rendered, one: One) -> None:
    """It is immutable: an upgrade that changes it is refused."""
    selector = one(manifests, "Deployment")["spec"]["selector"]

    assert selector == {"matchLabels": {"app.kubernetes.io/name": "stationmaster"}}
