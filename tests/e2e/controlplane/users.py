"""Who talks to the API server: a token and a kubeconfig each, under the name of a real cluster.

Admission reviews tell by the user's name what a controller does from what a person does, so no two
of them share one.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MASTERS: Final = "system:masters"
PEOPLE: Final = "e2e:people"
"""The group of the test users that are not administrators (``manifests/people.yaml``)."""

ADMIN: Final = "admin"
CONTROLLER_MANAGER: Final = "controller-manager"
TRAINER: Final = "trainer"
JOBSET: Final = "jobset"
KUEUE: Final = "kueue"
STATIONMASTER: Final = "stationmaster"
ALICE: Final = "alice"
BOB: Final = "bob"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One line of the API server's token file."""

    alias: str
    """How tests name it."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


def standard_users() -> dict[str, User]:
    """An administrator, the controllers, and two people."""
    users = (
        User(alias=ADMIN, name="admin", groups=(MASTERS,)),
        User(alias=CONTROLLER_MANAGER, name="system:kube-controller-manager"),
        service_account(TRAINER, "kubeflow-system", "kubeflow-trainer-controller-manager"),
        service_account(JOBSET, "jobset-system", "jobset-controller-manager"),
        service_account(KUEUE, "kueue-system", "kueue-controller-manager"),
        service_account(STATIONMASTER, "stationmaster-system", "stationmaster"),
        User(alias=ALICE, name="alice", groups=(PEOPLE,)),
        User(alias=BOB, name="bob", groups=(PEOPLE,)),
    )
    return {user.alias: user for user in users}


def service_account(alias: str, namespace: str, name: str) -> User:
    """A user with the name and groups that the account's own token would give."""
    return User(
        alias=alias,
        name=f"system:serviceaccount:{namespace}:{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
    )


def write_tokens(users: Iterable[User], file: Path) -> None:
    """Write the file that ``--token-auth-file`` reads."""
    lines = (f'{u.token},{u.name},{u.alias},"{",".join(u.groups)}"\n' for u in users)
    file.touch(mode=0o600)
    file.write_text("".join(lines))


def write_kubeconfig(user: User, *, server: str, ca: bytes, file: Path) -> None:
    """Write a kubeconfig that needs no other file (JSON is YAML)."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": user.alias, "user": {"token": user.token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user.alias}}],
        "current-context": "e2e",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(json.dumps(config, indent=1))
