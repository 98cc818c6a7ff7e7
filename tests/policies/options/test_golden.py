"""Golden cases of the options: a policy, a job, and all that is said and changed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from policies.options import OPTIONS
from tests.builders import Json
from tests.folder import texts
from tests.test_golden import changed, folder_of, sent
from webhook import yamlio

FOLDER: Final = Path(__file__).parents[2] / "golden" / "options"
CASES: Final = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(case: str) -> Json:
    found: Json = yamlio.load((FOLDER / f"{case}.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    document = load(case)
    given, want = document["given"], document["want"]
    assert document.keys() == {"description", "option", "given", "want"}
    assert want.keys() <= {"findings", "warnings", "changed"}
    outcome = folder_of(given).admit(sent(given))
    assert texts(outcome.findings.errors) == want.get("findings", [])
    assert outcome.findings.warnings == want.get("warnings", [])
    assert changed(outcome) == want.get("changed", {})


def test_every_option_of_the_sdk_has_a_case() -> None:
    known = {option.name for option in OPTIONS}
    has = {load(case)["option"] for case in CASES}
    assert has <= known
    assert has >= {option.name for option in OPTIONS if option.facts.sdk}
