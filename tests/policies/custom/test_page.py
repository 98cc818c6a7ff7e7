"""Who follows the page "write your own option" to the letter has an option."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from policies.custom import catalogue
from tests.builders import make_train_job
from tests.policies.custom.packages import register
from tests.policies.test_engine import admit, at, refusals
from tests.policies.test_pages import PAGES, blocks, documents

if TYPE_CHECKING:
    import pytest

FILES = blocks("file", PAGES["custom-options.md"])
MODULE = "my_options/__init__.py"


def test_what_the_page_shows_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MODULE).parent.mkdir()
    (tmp_path / MODULE).write_text(FILES[MODULE])
    points = tomllib.loads(FILES["pyproject.toml"])["project"]["entry-points"]
    register(tmp_path, points["stationmaster.options"])
    monkeypatch.syspath_prepend(tmp_path)
    [one] = catalogue.all_declared()
    assert (one.problem, one.example) == ("", {"seconds": 3600})
    [policy] = documents(FILES["policy.yaml"])
    outcome = admit(make_train_job(), policy)
    assert refusals(outcome) == []
    assert at(outcome, "spec", "activeDeadlineSeconds") == 3600
