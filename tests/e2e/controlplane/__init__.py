"""A real Kubernetes control plane on one machine, for tests and for trying things out.

::

    build.py         finds or compiles the programs; modules/ has the Go modules, one a release cycle
    certificates.py  an authority and what it signs
    users.py         tokens and kubeconfigs, under the names of a real cluster
    process.py       Component: started, paused, killed, started again; guard.py leaves no orphans
    client.py        a small client of the API server
    network.py       Services that lead to processes
    manifests.py     upstream's manifests, adapted to controllers beside the cluster
    waiting.py       deadlines around everything that others do in their own time
    plane.py         ControlPlane: all of it together

What was tried and which pitfalls there are is told in the design notes (control-plane.md).
"""

from __future__ import annotations

from tests.e2e.controlplane.build import Programs
from tests.e2e.controlplane.client import ApiError, Client, Object, Response
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Component, StartError

__all__ = [
    "ApiError",
    "Client",
    "Component",
    "ControlPlane",
    "Object",
    "Programs",
    "Response",
    "StartError",
]
