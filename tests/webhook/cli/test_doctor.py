from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.webhook.cli.conftest import Run
from tests.webhook.doctor import good as g
from webhook.cli import doctor
from webhook.doctor.facts import Facts, Unread

UNREAD = Unread(what="things", why="403 Forbidden: no", needs="may get things")

CODES = {
    "all is well": (g.good(), 0),
    "warnings are no failure": (replace(g.good(), pods=UNREAD), 0),
    "something failed": (replace(g.good(), lease=None), 1),
    "the registration may not be read": (replace(g.good(), mutating=UNREAD, validating=UNREAD), 2),
    "it may not be read, and something failed": (
        replace(g.good(), mutating=UNREAD, lease=None),
        1,
    ),
}

Asked = list[tuple[Any, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Facts], Asked]:
    """Lets an installation be read, and tells how it was asked for."""

    def answer(facts: Facts) -> Asked:
        seen: Asked = []

        async def read(*said: Any) -> Facts:
            seen.append(said)
            return facts

        monkeypatch.setattr(doctor, "_read", read)
        return seen

    return answer


@pytest.mark.parametrize("case", CODES)
def test_exit_codes(run: Run, asked: Callable[[Facts], Asked], case: str) -> None:
    facts, code = CODES[case]
    asked(facts)

    assert run("doctor").code == code
    assert run("doctor", "-o", "json").code == code


def test_a_line_a_check_and_what_to_do(run: Run, asked: Callable[[Facts], Asked]) -> None:
    asked(replace(g.good(), lease=None, mode={"data": {"mode": "off"}}))

    ran = run("doctor")

    assert ran.err == []
    lines = ran.out.splitlines()
    assert lines[0] == "ok    trainer         2.3: TrainJobs have runtimePatches"
    at = lines.index(
        "warn  mode            off, as the ConfigMap stationmaster-system/stationmaster-mode says:"
        " nothing is changed, refused or said"
    )
    assert lines[at + 1].startswith("                      -> when that is over: kubectl ")
    assert lines[-1] == "1 failed, 1 to look at"


def test_all_is_well(run: Run, asked: Callable[[Facts], Asked]) -> None:
    asked(g.good())

    *lines, last = run("doctor").out.splitlines()

    assert {line.split()[0] for line in lines} == {"ok"}
    assert last == "all is well"


def test_json(run: Run, asked: Callable[[Facts], Asked]) -> None:
    asked(replace(g.good(), lease=None))

    said = json.loads(run("doctor", "-o", "json").out)

    assert said["namespace"] == g.NAMESPACE
    (failed,) = [each for each in said["checks"] if each["level"] != "ok"]
    assert failed == {
        "check": "lease",
        "level": "fail",
        "message": "the Lease stationmaster-system/stationmaster does not exist",
        "remedy": failed["remedy"],
    }


def test_what_a_cluster_says_moves_no_cursor(run: Run, asked: Callable[[Facts], Asked]) -> None:
    asked(replace(g.good(), mode=replace(UNREAD, why="\x1b[2J\nok  all is well")))

    assert "\\u001b[2J\\u000aok  all is well" in run("doctor").out


def test_every_option_is_handed_on(
    run: Run, asked: Callable[[Facts], Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asked(g.good())
    monkeypatch.setenv("KUBECONFIG", "from-environment")

    run("doctor")
    run("doctor", "--kubeconfig=f", "--context=c", "--namespace=n", "--try-in=t")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", "/home/of-somebody")
    run("doctor")

    assert seen == [
        (Path("from-environment"), None, None, "default"),
        (Path("f"), "c", "n", "t"),
        (Path("/home/of-somebody/.kube/config"), None, None, "default"),
    ]


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_without_a_kubeconfig_it_says_so(run: Run) -> None:
    ran = run("doctor", "--kubeconfig", "nowhere")

    assert (ran.code, ran.out, ran.err) == (2, "", ["Error: there is no kubeconfig nowhere"])


def test_where_nobody_answers_it_says_where(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(kubeconfig("http://127.0.0.1:1"))

    ran = run("doctor", "--kubeconfig", "config")

    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err
    assert line.startswith("Error: cannot connect to 127.0.0.1:1")
