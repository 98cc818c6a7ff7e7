"""Hostile policies against the server as it is run: whoever is in another namespace does not notice."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.review import create_review, runtime, runtime_name
from tests.policies.cel.hostile import EXPRESSIONS
from tests.policies.custom.packages import publish
from tests.policies.custom.test_custom import HARMLESS
from tests.policies.custom.test_custom import HOSTILE as HOSTILE_OPTIONS
from tests.webhook.fakes import Client
from tests.webhook.running import Running, serving
from webhook.config import ServeOptions

HOSTILE = "hostile"
TEXTS = [text for text in EXPRESSIONS.values() if text.encode("utf-8", "ignore").decode() == text]
"""Those that a file can hold."""
MANY = 30
ROUNDS = 3
DEADLINE_SECONDS = 10
"""What the second client grants, as the API server would."""


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    folder = tmp_path / "cluster"
    folder.mkdir()
    documents = [runtime(runtime_name(0)), *map(policy, range(len(TEXTS)))]
    (folder / "all.json").write_bytes(orjson.dumps({"kind": "List", "items": documents}))
    return ServeOptions(
        directory=folder,
        listen=("127.0.0.1", 0),
        health_listen=("127.0.0.1", 0),
        cert_dir=tmp_path / "certs",
        drain_seconds=0.0,
    )


def policy(number: int) -> dict[str, Any]:
    """One hostile expression each; what the compiler refuses makes a policy that is not Ready, which is fine too."""
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "NamespacedTrainJobPolicy",
        "metadata": {"name": f"h{number:03d}", "namespace": HOSTILE},
        "spec": {
            "failurePolicy": "Ignore",
            "actions": ["Warn"],
            "validations": [
                {
                    "name": "v",
                    "expression": f"dyn({TEXTS[number]}) != null"[:4096],
                }
            ],
        },
    }


def body(namespace: str) -> bytes:
    """A review of a job in a namespace."""
    review = orjson.loads(create_review("demo", runtime_name(0)))
    review["request"]["namespace"] = namespace
    review["request"]["object"]["metadata"]["namespace"] = namespace
    return orjson.dumps(review)


def test_there_are_enough_of_them() -> None:
    assert len(TEXTS) >= MANY


async def test_a_second_client_is_answered_within_its_deadline(options: ServeOptions) -> None:
    def calm(response: dict[str, Any]) -> None:
        assert not any("could not judge" in text for text in response.get("warnings", ()))

    await serving(options, beside_attacks(calm))


OPTION_OF_THE_QUIET = """
def fine(spec, trainer, backend):
    spec["metadata"] = {"labels": {"fine": "yes"}}
"""


async def test_options_of_a_second_client_are_called_beside_hostile_ones(
    options: ServeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hang, crash, raise, write nonsense; its own is called every time, by what workers are left."""
    names = ("fine", *HARMLESS)
    declared = "".join(f"{name.upper()} = option({name!r}, {name})\n" for name in names)
    publish(
        monkeypatch, tmp_path / "site", HOSTILE_OPTIONS + OPTION_OF_THE_QUIET + declared, *names
    )
    assert options.directory is not None
    documents = [using(name, "quiet" if name == "fine" else HOSTILE) for name in names]
    (options.directory / "options.json").write_bytes(
        orjson.dumps({"kind": "List", "items": documents})
    )

    def called(response: dict[str, Any]) -> None:
        patch = orjson.loads(base64.b64decode(response["patch"]))
        labels = [one["value"] for one in patch if one["path"].startswith("/metadata/labels")]
        assert labels in (["yes"], [{"fine": "yes"}])

    running = await serving(options, beside_attacks(called))
    killed = running.service._workers.options.strikes._struck.keys()
    assert killed & {f"{HOSTILE}/{name}" for name in HARMLESS}, "the attack came that far"
    assert all(policy.startswith(f"{HOSTILE}/") for policy in killed)


def using(option: str, namespace: str) -> dict[str, Any]:
    """A policy that uses an option."""
    return {
        "apiVersion": "stationmaster.dev/v1alpha1",
        "kind": "NamespacedTrainJobPolicy",
        "metadata": {"name": option, "namespace": namespace},
        "spec": {"failurePolicy": "Ignore", "defaults": {"options": [{"name": option}]}},
    }


def beside_attacks(check: Callable[[dict[str, Any]], None]) -> Callable[[Running], Awaitable[None]]:
    """Two clients send what hostile policies are for, as fast as they can; a third is answered in time."""

    async def attack(client: Client, ended: asyncio.Event) -> None:
        while not ended.is_set():
            answer = await client.post(f"/mutate?timeout={DEADLINE_SECONDS}s", body(HOSTILE))
            assert answer.status == 200

    async def story(running: Running) -> None:
        ended = asyncio.Event()
        attackers = [await running.connect() for _ in range(2)]
        attacks = [asyncio.create_task(attack(client, ended)) for client in attackers]
        second = await running.connect()
        for _ in range(ROUNDS):
            await asyncio.sleep(0.5)
            async with asyncio.timeout(DEADLINE_SECONDS):
                answer = await second.post(f"/mutate?timeout={DEADLINE_SECONDS}s", body("quiet"))
            response = answer.json["response"]
            assert response["allowed"] is True
            check(response)
        assert await running.health("/healthz") == 200
        ended.set()
        await asyncio.gather(*attacks)
        for client in (*attackers, second):
            client.close()

    return story
