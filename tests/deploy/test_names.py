"""The names in the manifests are those that the program goes by."""

from __future__ import annotations

from tests.deploy.conftest import Rendered
from tests.deploy.tools import NAMESPACE
from webhook import mode
from webhook.config import ServeOptions
from webhook.kube import shared


def test_what_is_installed_is_what_is_looked_after(self_managed: Rendered) -> None:
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in self_managed}
    allowed = {
        (resource, name)
        for obj in self_managed
        if obj["kind"] == "Role"
        for rule in obj["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }

    for configuration in shared.CONFIGURATIONS:
        kind = f"{configuration.kind.capitalize()}WebhookConfiguration"
        assert (kind, configuration.name) in names
    assert ("Service", shared.SERVICE) in names
    assert ("Deployment", shared.DEPLOYMENT) in names
    assert allowed == {
        ("secrets", shared.SECRET),
        ("leases", shared.LEASE),
        ("deployments", shared.DEPLOYMENT),
        ("configmaps", mode.NAME),
    }
    for obj in self_managed:
        if "webhooks" in obj:
            assert shared.WEBHOOK in {webhook["name"] for webhook in obj["webhooks"]}


def test_the_switch_is_not_installed_so_that_no_upgrade_puts_it_back(manifests: Rendered) -> None:
    assert "ConfigMap" not in {obj["kind"] for obj in manifests}


def test_without_other_words_the_switch_is_where_the_manifests_install_us() -> None:
    assert ServeOptions().namespace == NAMESPACE


def test_the_name_that_the_api_server_calls_is_on_the_certificate() -> None:
    assert shared.names_of(NAMESPACE)[0] == "stationmaster.stationmaster-system.svc"
