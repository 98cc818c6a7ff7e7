from __future__ import annotations

import io

import pytest

from webhook.cli.report import Report, wants_colour


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def test_labels_are_coloured_on_a_terminal() -> None:
    stream = Stream(is_terminal=True)
    report = Report(stream, is_coloured=True)
    report.warning("w", "TrainJob a")
    report.refusal("r")
    assert stream.getvalue() == "\x1b[33mWarning:\x1b[0m TrainJob a: w\n\x1b[1;31mError:\x1b[0m r\n"


COLOURS = {
    "a terminal": (True, {}, True),
    "a pipe": (False, {}, False),
    "who wants none": (True, {"NO_COLOR": "1"}, False),
    "who leaves NO_COLOR empty": (True, {"NO_COLOR": ""}, True),
    "a terminal that has none": (True, {"TERM": "dumb"}, False),
}


@pytest.mark.parametrize(("is_terminal", "environment", "want"), COLOURS.values(), ids=COLOURS)
def test_who_gets_colours(
    is_terminal: bool, environment: dict[str, str], want: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Stream(is_terminal=is_terminal)) is want


def test_the_highest_code_wins() -> None:
    report = Report(io.StringIO())
    assert report.code == 0
    report.failure("f")
    report.refusal("r")
    report.warning("w")
    assert report.code == 2
