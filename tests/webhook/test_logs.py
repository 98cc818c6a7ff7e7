from __future__ import annotations

import asyncio
import io
import logging
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from tests.webhook.fakes import make_answer
from webhook import logs
from webhook.config import LogFormat, LogLevel
from webhook.logs import DecisionLog


class Written:
    """A stream and what was written to it."""

    def __init__(self, form: LogFormat = "json", level: LogLevel = "info") -> None:
        self.stream = io.BytesIO()
        clock = datetime(2026, 11, 30, 12, 34, 56, 789_123, tzinfo=UTC)
        self.logger = logs.build(self.stream, form=form, level=level, clock=lambda: clock)

    @property
    def text(self) -> str:
        return self.stream.getvalue().decode()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.stream.getvalue().splitlines()]


def test_a_decision_is_one_line_with_the_keys_of_other_webhooks() -> None:
    written = Written()
    answer = make_answer(decision="denied", findings=2, warnings=1)

    DecisionLog(written.logger).write("mutate", answer, 0.0012345)

    assert written.lines == [
        {
            "ts": "2026-11-30T12:34:56.789Z",
            "level": "info",
            "logger": "stationmaster.admission",
            "msg": "admission denied",
            "webhook": "mutate",
            "decision": "denied",
            "operation": "CREATE",
            "kind": "TrainJob",
            "object": {"name": "demo", "namespace": "team-a"},
            "namespace": "team-a",
            "name": "demo",
            "user": "alice@example.com",
            "requestID": "u-1",
            "dryRun": False,
            "findings": 2,
            "warnings": 1,
            "durationMs": 1.234,
        }
    ]
    assert list(written.lines[0])[:4] == ["ts", "level", "logger", "msg"]


LEVELS = {
    "denied": "info",
    "patched": "info",
    "error": "error",
    "would_be_denied": "info",
    "would_be_patched": "info",
}


@pytest.mark.parametrize(("decision", "level"), LEVELS.items())
def test_what_was_not_simply_allowed_is_always_told(decision: str, level: str) -> None:
    written = Written()

    DecisionLog(written.logger).write("mutate", make_answer(decision=decision), 0.001)

    assert [line["level"] for line in written.lines] == [level]


def test_what_was_simply_allowed_is_told_at_debug_only() -> None:
    quiet, verbose = Written(), Written(level="debug")

    for written in (quiet, verbose):
        DecisionLog(written.logger).write("validate", make_answer(), 0.001)

    assert quiet.lines == []
    assert [line["level"] for line in verbose.lines] == ["debug"]


def test_the_level_is_kept() -> None:
    written = Written(level="error")

    DecisionLog(written.logger).write("mutate", make_answer(decision="denied"), 0.001)
    written.logger.error("this one")

    assert [line["msg"] for line in written.lines] == ["this one"]


def test_a_name_of_a_mebibyte_does_not_make_such_a_line() -> None:
    written = Written()
    long = "x" * 1_000_000
    answer = make_answer(
        decision="denied", name=long, namespace=long, user=long, uid=long, kind=long, operation=long
    )

    DecisionLog(written.logger).write("mutate", answer, 0.001)

    assert len(written.text) < 3000


HOSTILE = 'a\n{"level":"info"}\x1b[31m\u202e'


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_name_cannot_forge_a_line(form: LogFormat) -> None:
    written = Written(form=form)

    DecisionLog(written.logger).write("mutate", make_answer(decision="denied", name=HOSTILE), 0.001)

    assert written.text.count("\n") == 1
    assert "\x1b" not in written.text


def test_text_is_for_people() -> None:
    written = Written(form="text")

    DecisionLog(written.logger).write("mutate", make_answer(decision="patched"), 0.002)

    assert written.text == (
        "12:34:56 INFO    admission patched webhook=mutate decision=patched operation=CREATE"
        " kind=TrainJob namespace=team-a name=demo user=alice@example.com requestID=u-1"
        " findings=0 warnings=0 durationMs=2.0\n"
    )


def failing() -> Exception:
    try:
        int("the value of PASSWORD")
    except ValueError as exc:
        return exc
    raise AssertionError("not reached")


def test_an_exception_is_described_by_type_and_place_and_never_by_its_text() -> None:
    described = logs.describe(failing())

    assert described["error"] == "ValueError"
    assert described["at"].startswith("tests/webhook/test_logs.py:")
    assert "PASSWORD" not in str(described)


def test_an_exception_that_was_never_raised_has_no_place() -> None:
    assert logs.describe(KeyError("x")) == {"error": "KeyError"}


def test_what_libraries_say_comes_without_its_values() -> None:
    written = Written()
    library = logging.getLogger("tests.some.library")
    library.addHandler(bridge := logs.Bridge(written.logger))

    library.warning("request of %s failed", "alice with PASSWORD")
    library.error("broken", exc_info=failing())
    library.info("chatter")
    library.removeHandler(bridge)

    first, second = written.lines
    assert (first["logger"], first["level"]) == ("tests.some.library", "warning")
    assert first["msg"] == "request of %s failed"
    assert (second["msg"], second["error"]) == ("broken", "ValueError")
    assert "PASSWORD" not in written.text


def test_what_the_loop_reports_comes_without_its_values() -> None:
    written = Written()
    handle = logs.loop_errors(written.logger)
    loop = asyncio.new_event_loop()

    handle(loop, {"message": "Task exception was never retrieved", "exception": failing()})
    handle(loop, {"message": "something else"})
    loop.close()

    assert [line["what"] for line in written.lines] == [
        "Task exception was never retrieved",
        "something else",
    ]
    assert written.lines[0]["error"] == "ValueError"
    assert "PASSWORD" not in written.text
