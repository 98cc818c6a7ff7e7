"""The same option, applied by the released SDK on the client and by a policy on the server, ends in the same JobSet.

The expected side is made here, by the unmodified SDK against a loopback server. The SDKs are installed once, with
``python -m tests.sdk.environments`` (part of ``make programs``).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from plugins.framework import values
from plugins.framework.api import names
from policies.custom import catalogue
from tests.builders import Json, make_train_job
from tests.folder import Folder, texts
from tests.policies.custom.packages import register
from tests.policies.test_engine import policy
from tests.policies.test_pages import PAGES, blocks
from tests.sdk import bodies, environments, sending
from tests.sdk.sections import PATCH_IN_OLD_WORDS, SECTIONS
from tests.sdk.sending import LINES, TRAINERS, Sent, base

HERE: Final = Path(__file__).parent
OF: Final = {
    "0.3.1": ("labels", "annotations", "spec-labels", "spec-annotations", "overrides", "command", "args"),
    "0.4.1": ("labels", "annotations", "patch", "command", "args"),
    "0.5.0": ("labels", "annotations", "patch", "command", "args", "deadline"),
}  # fmt: skip
CASES: Final = [
    pytest.param(version, line, case, trainer, id=f"{version}-on-{line}-{case}-{trainer}")
    for version, cases in OF.items()
    for line in LINES[version]
    for case in cases
    for trainer in TRAINERS
]
GENERATED: Final = {("command", "function"), ("args", "function")}
"""The SDK refuses these on the client; a policy leaves such jobs alone."""

pytestmark = pytest.mark.slow


@pytest.fixture
def sent() -> Callable[[str], Sent]:
    """Has a version of the SDK send all jobs, once."""

    def by(version: str) -> Sent:
        if not environments.is_asked_for() or not environments.is_installed(version):
            pytest.skip(f"compares with the unmodified SDK {version}: make sdk")
        return sending.sent(version)

    return by


def built(line: str, job: Json, *policies: Json) -> Json:
    """What becomes of a job: all that the controller makes, and what of the option is in the TrainJob alone."""
    folder = Folder.of(*bodies.runtimes(line), *policies, line=line)
    outcome = folder.admit(job)
    assert texts(outcome.findings.errors) == []
    assert outcome.after is not None
    metadata = outcome.after["metadata"]
    ours = names.OUR_ANNOTATIONS
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if k not in ours}
    return {
        "objects": Folder.of(*bodies.runtimes(line), line=line).render(outcome.after).objects,
        "labels": metadata.get("labels", {}),
        "annotations": annotations,
        "deadline": outcome.after["spec"].get("activeDeadlineSeconds"),
        "trainer": outcome.after["spec"].get("trainer"),
    }


def assert_same(left: Json, right: Json) -> None:
    """Piece by piece, so that a failure is readable."""
    assert [o["kind"] for o in left["objects"]] == [o["kind"] for o in right["objects"]]
    assert left == right


@pytest.mark.parametrize("mode", ["defaults", "overrides"])
@pytest.mark.parametrize(("version", "line", "case", "trainer"), CASES)
def test_client_and_server_end_in_the_same(
    sent: Callable[[str], Sent], version: str, line: str, case: str, trainer: str, mode: str
) -> None:
    found = sent(version)
    section: Json = {mode: SECTIONS[case]}
    document = policy("server", **section)
    on_server = built(line, base(found, case, trainer), document)
    if (case, trainer) in GENERATED:
        assert found.said[f"{case}-{trainer}"] is None
        assert_same(on_server, built(line, base(found, case, trainer)))
        return
    on_client = built(line, found.jobs[f"{case}-{trainer}"])
    assert_same(on_server, on_client)
    assert on_client != built(line, base(found, case, trainer)), "the option does something"


@pytest.mark.parametrize("version", ["0.4.1", "0.5.0"])
def test_a_patch_may_be_said_in_the_words_before_it(
    sent: Callable[[str], Sent], version: str
) -> None:
    found = sent(version)
    document = policy("server", overrides=PATCH_IN_OLD_WORDS)
    on_server = built("2.3", base(found, "patch", "container"), document)
    assert_same(on_server, built("2.3", found.jobs["patch-container"]))


@pytest.mark.parametrize("line", ["2.2", "2.3"])
def test_what_the_new_crd_prunes_a_policy_still_does(
    sent: Callable[[str], Sent], line: str
) -> None:
    """Options of SDK 0.3.1 are lost on Trainer 2.2 and later; the same words in a policy are not."""
    found = sent("0.3.1")
    for case in ("spec-labels", "overrides"):
        plain = built(line, base(found, case, "container"))
        assert_same(built(line, found.jobs[f"{case}-container"]), plain)
        document = policy("server", overrides=SECTIONS[case])
        assert built(line, base(found, case, "container"), document)["objects"] != plain["objects"]


@pytest.mark.parametrize("version", OF)
def test_a_name_that_the_sdk_sets_is_held_to_the_rule(
    sent: Callable[[str], Sent], version: str
) -> None:
    """``Name`` on the client; on the server ``naming``, which never renames."""
    found = sent(version)
    line = LINES[version][-1]
    rule = policy("names", overrides={"naming": {"pattern": "nlp-[a-z]+"}})
    folder = Folder.of(*bodies.runtimes(line), rule, line=line)
    assert found.said["named"] == "nlp-run"
    assert folder.admit(found.jobs["nlp-run"]).allowed
    unnamed = found.said["unnamed"]
    assert unnamed is not None
    [error] = texts(folder.admit(found.jobs[unnamed]).findings.errors)
    assert error.startswith("metadata.name: [names/naming] Invalid value")


# The SDK's own options, unmodified, in our workers

PACKAGE: Final = """
import sys
sys.path.insert(0, {here!r})
from given import OPTIONS
from policies.custom import CustomOption
DECLARED = {{case: CustomOption(name=case, make=make) for case, make in OPTIONS.items()}}
globals().update({{case.replace("-", "_"): one for case, one in DECLARED.items()}})
"""


def _site_of(version: str) -> Path:
    [found] = environments.python(version).parents[1].glob("lib/python3*/site-packages")
    return found


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Publishes each option of a version in an interpreter that has it."""

    def publish(version: str) -> None:
        if not environments.is_asked_for() or not environments.is_installed(version):
            pytest.skip(f"compares with the unmodified SDK {version}: make sdk")
        monkeypatch.setenv(catalogue.VARIABLE, str(_with_options(tmp_path, version)))

    return publish


def _with_options(folder: Path, version: str) -> Path:
    """An environment that has all of the SDK's, and a package of options."""
    python, site = _environment(folder, version)
    (site / "sdk_options.py").write_text(PACKAGE.format(here=str(HERE)))
    cases = (*OF[version], "custom")
    register(site, {case: f"sdk_options:{case.replace('-', '_')}" for case in cases})
    return python


def _environment(folder: Path, version: str) -> tuple[Path, Path]:
    """An interpreter that has all of the SDK's, and where more packages are installed for it."""
    home = folder / version
    python = environments.python(version)
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(home)], check=True)
    [site] = home.glob("lib/python3*/site-packages")
    (site / "sdk.pth").write_text(f"{_site_of(version)}\n")
    return home / "bin" / "python", site


@pytest.mark.parametrize("version", OF)
def test_the_sdks_own_options_run_in_our_workers_and_end_in_the_same(
    sent: Callable[[str], Sent], theirs: Callable[[str], None], version: str
) -> None:
    theirs(version)
    found, line = sent(version), LINES[version][-1]
    for case in (*OF[version], "custom"):
        document = policy("server", overrides={"options": [{"name": case}]})
        on_server = built(line, base(found, case, "container"), document)
        assert_same(on_server, built(line, found.jobs[f"{case}-container"]))


def test_the_sdks_own_checks_refuse_by_the_policy(
    sent: Callable[[str], Sent], theirs: Callable[[str], None]
) -> None:
    """TrainerCommand refuses a function's job, as it does on the client; ``force`` insists."""
    theirs("0.5.0")
    found = sent("0.5.0")
    job = base(found, "command", "function")

    def admitted(**entry: Any) -> Any:
        document = policy("server", overrides={"options": [{"name": "command", **entry}]})
        return Folder.of(*bodies.runtimes("2.3"), document, line="2.3").admit(job)

    [error] = texts(admitted().findings.errors)
    assert "option command raised ValueError: TrainerCommand can only be used with" in error
    after = admitted(force=True).after
    assert values.at(after, "spec", "trainer", "command") == ["python", "train.py"]


@pytest.mark.parametrize("version", ["", "0.5.0"], ids=["the extra", "0.5.0"])
def test_the_page_on_the_sdks_own_options_works(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the server's own environment with ``stationmaster[sdk]``, and in another one that a later SDK needs."""
    if not environments.is_asked_for():
        pytest.skip("imports the SDK: make sdk")
    if version:
        python, site = _environment(tmp_path, version)
        monkeypatch.setenv(catalogue.VARIABLE, str(python))
    else:
        site = tmp_path
        monkeypatch.syspath_prepend(site)
    page = blocks("file", PAGES["custom-options.md"])
    (site / "page.py").write_text(page["sdk_options.py"])
    register(site, {"pool": "page:POOL", "command": "page:COMMAND"})
    uses = [
        {"name": "command", "args": {"command": ["python", "train.py"]}},
        {"name": "pool", "args": {"jobs": ["node"], "name": "h100"}},
    ]
    document = policy("server", overrides={"options": uses})
    job = make_train_job().runtime("torch-distributed")
    outcome = Folder.of(*bodies.runtimes("2.3"), document).admit(job)
    assert texts(outcome.findings.errors) == []
    assert values.at(outcome.after, "spec", "trainer", "command") == ["python", "train.py"]
    [entry] = values.at(outcome.after, "spec", "runtimePatches")
    assert "h100" in str(entry)
    assert not any(name.startswith("kubeflow.") for name in sys.modules)
