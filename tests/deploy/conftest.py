from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.deploy import tools
from tests.deploy.tools import Object

OVERLAYS = ("self-managed", "cert-manager")

Rendered = list[Object]


@pytest.fixture(scope="session")
def kubectl() -> str:
    found = tools.kubectl()
    if found is None:
        pytest.skip("no kubectl: python -m tests.e2e.controlplane build, or put one on the PATH")
    return found


@pytest.fixture(scope="session")
def helm() -> str:
    found = tools.helm()
    if found is None:
        pytest.skip("no helm: python -m tests.deploy.tools, or put one on the PATH")
    return found


@pytest.fixture(scope="session", params=OVERLAYS)
def manifests(kubectl: str, request: pytest.FixtureRequest) -> Rendered:
    """Of each overlay."""
    return tools.kustomized(kubectl, request.param)


@pytest.fixture(scope="session")
def self_managed(kubectl: str) -> Rendered:
    return tools.kustomized(kubectl, "self-managed")


One = Callable[[Rendered, str], Object]


@pytest.fixture(scope="session")
def one() -> One:
    """The one object of a kind."""

    def find(rendered: Rendered, kind: str) -> Object:
        (found,) = [obj for obj in rendered if obj["kind"] == kind]
        return found

    return find
