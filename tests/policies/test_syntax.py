from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.reading import syntax

DURATIONS = {
    "720h": timedelta(hours=720),
    "1h30m": timedelta(minutes=90),
    "1.5h": timedelta(minutes=90),
    "100ms": timedelta(milliseconds=100),
    "1500ns": timedelta(microseconds=1),
    "0s": timedelta(0),
    "999999999999999999h": timedelta.max,
    "": None,
    "h": None,
    "5": None,
    "30d": None,
    "-1h": None,
    "1 h": None,
    "1h ": None,
    "\u0661h": None,
    "1h" * 17: None,
}
MOMENTS = {
    "2027-03-31T00:00:00Z": datetime(2027, 3, 31, tzinfo=UTC),
    "2027-03-31T02:00:00+02:00": datetime(2027, 3, 31, tzinfo=UTC),
    "2027-03-31T00:00:00.25Z": datetime(2027, 3, 31, 0, 0, 0, 250_000, tzinfo=UTC),
    "2027-03-31T00:00:00.123456789Z": datetime(2027, 3, 31, 0, 0, 0, 123_456, tzinfo=UTC),
    "2027-03-31": None,
    "2027-03-31T00:00:00": None,
    "2027-03-31 00:00:00Z": None,
    "2027-03-31T24:00:00Z": None,
    "2027-03-31T00:00:60Z": None,
    "2027-02-29T00:00:00Z": None,
    "0000-01-01T00:00:00Z": None,
    "0001-01-01T00:00:00+00:01": None,
    "9999-12-31T23:59:59-00:01": None,
    "2027-03-31T00:00:00Z\n": None,
    "\u0662027-03-31T00:00:00Z": None,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_durations_are_those_of_go(text: str) -> None:
    assert syntax.duration(text) == DURATIONS[text]


@pytest.mark.parametrize("text", MOMENTS)
def test_moments_are_those_of_rfc_3339(text: str) -> None:
    assert syntax.moment(text) == MOMENTS[text]


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_can_be_said(moment: datetime) -> None:
    assert syntax.moment(moment.isoformat().replace("+00:00", "Z")) == moment


@given(st.text(alphabet="0123456789.hmsnuTZ:+- ", max_size=40))
def test_any_text_is_a_span_a_moment_or_neither(text: str) -> None:
    syntax.duration(text)
    syntax.moment(text)
