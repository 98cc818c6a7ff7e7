"""What the documentation says of plugins, differences, faults and messages is what is built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from plugins import jax, lifecycle, mpi, runtime_defaults, torch, xgboost
from plugins.framework.interface import EXTENSION_POINTS, Plugin
from plugins.framework.profile import CONTROLLERS, decode
from plugins.registry import in_tree, opt_in
from tests import kubectl, test_golden
from tests.conformance import ledger
from webhook import assembly, yamlio

DOCS: Final = Path(__file__).parents[1] / "docs"
PLUGINS: Final = (DOCS / "plugins.md").read_text(encoding="utf-8")
FAULTS: Final = (DOCS / "faults.md").read_text(encoding="utf-8")
FIDELITY: Final = (DOCS / "fidelity.md").read_text(encoding="utf-8")
ERRORS: Final = (DOCS / "errors.md").read_text(encoding="utf-8")
PROFILE: Final = (DOCS / "profile.md").read_text(encoding="utf-8")

NAMES: Final = assembly.names()
ALL_NAMES: Final = [*NAMES, *(spec.name for spec in opt_in())]
SAMPLES: Final[dict[str, str]] = dict(
    re.findall(r"<!-- golden: (\S+) -->\n```\n(.*?)\n?```", ERRORS, re.DOTALL)
)


# plugins.md


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_plugin_has_its_row_and_its_section(name: str) -> None:
    plugin: Plugin = assembly.built_in().build(name, {})
    points = [point for point, protocol, _ in EXTENSION_POINTS if isinstance(plugin, protocol)]
    [row] = re.findall(rf"^\| {name} \|.*\| ([^|]*) \|$", PLUGINS, re.MULTILINE)
    assert [p[0].lower() + p[1:] for p in row.split(", ")] == points
    assert f"\n### {name}\n" in PLUGINS


def test_rows_and_sections_are_in_the_order_in_which_plugins_run() -> None:
    assert re.findall(r"^### (\w+)$", PLUGINS, re.MULTILINE) == ALL_NAMES
    rows = re.findall(r"^\| (\w+) \|", PLUGINS, re.MULTILINE)
    assert rows[1 : len(ALL_NAMES) + 1] == ALL_NAMES


def test_every_reserved_name_is_listed() -> None:
    for plugin in (torch, mpi, jax, xgboost):
        for name in plugin.RESERVED:
            assert f"`{name}`" in PLUGINS


def test_args_are_described_with_their_defaults() -> None:
    default = runtime_defaults.RuntimeDefaultsArgs().fields
    assert f"default `[{', '.join(default)}]`" in PLUGINS
    for field in runtime_defaults.ORDER:
        assert f"`{field}`" in PLUGINS
    with_args = [spec.name for spec in in_tree() if spec.args.__struct_fields__]
    assert with_args == ["RuntimeDefaults", "Lifecycle"], "the page says that only these have args"
    for arg in msgspec.structs.fields(lifecycle.LifecycleArgs):
        assert f"\n| `{arg.encode_name}` |" in PLUGINS
        assert arg.default is True


# fidelity.md and faults.md


def test_the_rows_of_the_ledger_are_the_rows_of_the_page() -> None:
    rows = [row.id for row in ledger.OBJECT_ROWS]
    rows += dict.fromkeys(row.id for row in ledger.ALL_ROWS)
    said = re.findall(r"^\| ([AFSR]\d+-[-\w]+) \|", FIDELITY, re.MULTILINE)
    assert sorted(said) == sorted([*rows, "R1-ratchet", "A1-rewritten-by-the-defaulter"])


def test_every_fault_is_decided() -> None:
    rows = re.findall(r"^\| (G\d+b?) \| [^|]+ \| ([^|]+) \| ?([^|]*?) ?\|$", FAULTS, re.MULTILINE)
    wanted = [f"G{n}" for n in range(1, 51)]
    wanted.insert(16, "G16b")
    assert [row[0] for row in rows] == wanted
    for fault, decision, test in rows:
        assert re.match(r"\*\*(better|same|outside)\*\*", decision), fault
        assert test.strip() or decision.startswith(("**outside**", "**same**")), fault


@pytest.mark.parametrize("page", [FAULTS, FIDELITY], ids=["faults", "fidelity"])
def test_the_tests_that_are_named_exist(page: str) -> None:
    folders = {"P": "plugins", "R": "reviews", "F": "faults"}
    root = Path(__file__).parent
    for letter, path in re.findall(r"\b([PRF])/([\w/.]+)", page):
        assert (root / folders[letter] / path.rstrip(".")).exists(), path
    for number in re.findall(r"\bG/(\d+)", page):
        assert list(test_golden.FOLDER.glob(f"{number}-*.yaml")), number
    for path in re.findall(r"\btests/([\w/]+\.py)", page):
        assert (root / path).exists(), path
    rows = set(re.findall(r"\bB\d{3}\b", page))
    sources = "".join(p.read_text(encoding="utf-8") for p in (root / "faults").glob("*.py"))
    assert all(f"test_{row.lower()}_" in sources for row in rows)


# errors.md and profile.md


def test_there_are_samples() -> None:
    assert len(SAMPLES) == ERRORS.count("<!-- golden:") > 3


@pytest.mark.parametrize("case", SAMPLES)
def test_a_sample_is_what_kubectl_prints(case: str) -> None:
    given = test_golden.load(case)["given"]
    outcome = test_golden.folder_of(given).admit(test_golden.sent(given), given.get("old"))
    created = f"{outcome.kind.lower()}.trainer.kubeflow.org/{outcome.name}"
    assert SAMPLES[case] == kubectl.printed(outcome.review, "job.yaml", created)


def test_the_sample_profile_is_one() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", PROFILE, re.DOTALL)
    profile = decode(yamlio.load(text), NAMES)
    assert profile.plugins == (*(n for n in NAMES if n != "Volcano"), "AcmeSite")
    assert "TrainerFields" not in profile.at("customValidation")
    assert profile.on_fault["PodGroupTotals"] == "Refuse"
    for point, _, _ in EXTENSION_POINTS:
        assert f"`{point}`" in PROFILE
    for user in CONTROLLERS:
        assert f"`{user}`" in PROFILE
