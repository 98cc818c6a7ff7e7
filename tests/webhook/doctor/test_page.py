"""docs/doctor.md shows what is printed, and describes each check."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.webhook.doctor import good as g
from tests.webhook.doctor.test_checks import calling, entry, with_bundle
from webhook.cli.doctor import text
from webhook.doctor.checks import examine

PAGE: Final = (Path(__file__).parents[3] / "docs/doctor.md").read_text(encoding="utf-8")
UNTRUSTED: Final = (
    "tls: failed to verify certificate: x509: certificate signed by unknown authority"
)


def test_each_check_has_its_row_in_the_order_of_the_report() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \|", PAGE, re.MULTILINE)

    assert rows == ["check", *(finding.check for finding in examine(g.good()))]


def test_the_sample_is_what_is_printed() -> None:
    wiped = entry(0, with_bundle(b""))
    found = examine(replace(wiped, trial=g.trial(calling(UNTRUSTED), status=500)))

    (sample,) = re.findall(r"<!-- sample -->\n```\n(.*?)```", PAGE, re.DOTALL)
    assert sample == text(found)
