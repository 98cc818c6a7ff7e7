"""The library of policies: sound, tested rule by rule, described as it is, and a burden to nobody."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

import pytest

from plugins.framework import values
from plugins.framework.api import names
from tests.builders import Json, make_train_job
from tests.folder import Folder, texts
from tests.sdk import bodies
from webhook import offline, yamlio
from webhook.cli import library
from webhook.files import read_tree
from webhook.offline import Outcome
from webhook.suites import coverage, reading, running
from webhook.suites.document import Case, Suite
from webhook.suites.running import SuiteRan
from webhook.yamlio import Document

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "docs" / "policies" / "library"
NAMES: Final = library.names()
SAMPLES: Final = [
    (page.stem, *found)
    for page in sorted(PAGES.glob("*.md"))
    for found in re.findall(
        r"<!-- case: ([^\n]+) -->\n```(\w*)\n(.*?)\n```",
        page.read_text(encoding="utf-8"),
        re.DOTALL,
    )
]
ASKED: Final = (
    "GPU caps per job and node: gpu-caps",
    "queue name default: default-queue",
    "team label: team-label",
    "image registries: image-registries",
    "image digests: image-digests",
    "no host namespaces: no-host-namespaces",
    "non-root: non-root",
    "runtime allow-list per namespace: runtime-allow-list",
    "longest run: longest-run",
    "suspended on create: suspended-on-create",
    "node pool and tolerations by accelerator: gpu-node-pool",
    "spot tolerations: spot-tolerations",
    "NCCL env: nccl-env",
    "shared-memory volume: shared-memory",
    "dataset secrets: dataset-secrets",
    "deprecated runtimes: deprecated-runtimes",
    "minimum resources: minimum-resources",
)


@lru_cache(maxsize=64)
def suite(name: str) -> Suite:
    """The tests of a policy."""
    found = reading.read([library.FOLDER / f"{name}_test.yaml"])
    assert found.problems == []
    [one] = found.suites
    return one


@lru_cache(maxsize=64)
def ran(name: str) -> SuiteRan:
    """The same, run."""
    return running.run(suite(name), suite(name).cases, None, time.perf_counter)


def admitted(name: str, case: Case) -> Outcome:
    """What becomes of the job of a case."""
    tests = suite(name)
    documents = read_tree(*tests.cluster, *tests.policies)
    documents += [Document(obj=obj, source="objects", line=1) for obj in tests.objects]
    engine = offline.load(documents, line=case.trainer_version, profile=None)
    old = None if case.old is None else Document(obj=values.copy(case.old), source="old", line=1)
    job = Document(obj=values.copy(case.job), source="job", line=1)
    return engine.admit(job, old, asked=case.asked)


def holds(found: object, wanted: object) -> bool:
    """Whether all that is wanted is there: objects may hold more, and lists too."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(key in found and holds(found[key], value) for key, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return all(any(holds(item, one) for item in found) for one in wanted)
    return found == wanted


def policies() -> list[Json]:
    """All policies of the library."""
    return [d.obj for name in NAMES for d in read_tree(library.FOLDER / f"{name}.yaml")]


# Each by itself


@pytest.mark.parametrize("name", NAMES)
def test_its_tests_pass_and_every_rule_goes_both_ways(name: str) -> None:
    done = ran(name)
    assert done.problems == []
    for case in done.ran:
        assert case.is_ok, (case.case.name, case.error, case.missed)
    measured = coverage.measure([done])
    assert measured.rules
    assert [str(r.name) for r in measured.rules.values() if not r.is_covered] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_the_policy_of_its_name_and_says_what_it_does(name: str) -> None:
    [document] = read_tree(library.FOLDER / f"{name}.yaml")
    assert document.obj["kind"] == names.POLICY
    assert document.obj["metadata"] == {"name": name}
    assert library.read(name).startswith("# ")
    assert library.summary(name).endswith(".")
    params = document.obj["spec"].get("params")
    if params is not None:
        assert params["configMapRef"] == {"name": name, "namespace": "stationmaster-system"}


@pytest.mark.parametrize("name", NAMES)
def test_it_has_its_page_which_names_its_rules_and_parameters(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert any(sample[0] == name for sample in SAMPLES)
    [document] = read_tree(library.FOLDER / f"{name}.yaml")
    spec = document.obj["spec"]
    rules = [rule["name"] for kind in ("limits", "validations") for rule in spec.get(kind, [])]
    for word in (*rules, *spec.get("params", {}).get("default", {})):
        assert f"`{word}`" in text or f"[{name}/{word}]" in text or f"`{word}:" in text


@pytest.mark.parametrize(("name", "title", "form", "text"), SAMPLES)
def test_what_a_page_shows_is_what_users_see(name: str, title: str, form: str, text: str) -> None:
    [case] = [case for case in suite(name).cases if case.name == title]
    outcome = admitted(name, case)
    if form == "yaml":
        assert outcome.allowed
        assert holds(outcome.after, yamlio.load(text)), outcome.after
        return
    said = texts(outcome.findings.errors) or [f"Warning: {w}" for w in outcome.findings.warnings]
    assert text.split("\n") == said


def test_nothing_that_was_asked_for_is_missing() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for one in ASKED:
        assert one.rpartition(": ")[2] in NAMES
    assert sorted(re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\)", index, re.MULTILINE)) == NAMES


# All together

REFUSED: Final = {
    "0.3.0-api2.2.1-04-speclabels-dropped": ["team-label/own-team"],
    "0.4.1-02-labels-runtimepatch": ["team-label/own-team"],
    "0.5.0-03-customtrainer-nodes-resources": ["runtime-allow-list/namespaced"],
    "0.5.0-12-name-labels-annotations-deadline": ["team-label/own-team"],
}
"""The bodies that say another team than their namespace's, or bring a runtime of their own."""


@lru_cache(maxsize=1)
def everything() -> Folder:
    """All policies over the runtimes that the Trainer ships."""
    return Folder.of(*bodies.runtimes("2.3"), *policies())


@pytest.mark.parametrize("name", [n for n in bodies.names() if not bodies.is_old(n)])
def test_what_the_sdk_sends_passes(name: str) -> None:
    outcome = everything().admit(bodies.body(name))
    assert [e.origin for e in outcome.findings.errors if e.origin] == REFUSED.get(name, [])
    assert not [w for w in outcome.findings.warnings if "passed over" in w or "conflict" in w]
    if outcome.allowed:
        assert outcome.after is not None
        again = everything().admit(outcome.after)
        assert again.patch == [], "on its own output it changes nothing"


def test_packages_of_a_runtime_can_be_listed() -> None:
    """The SDK's ``get_runtime_packages``: no labels, no options, and it waits for the end."""
    job = (
        make_train_job("a1b2c3")
        .runtime("torch-distributed")
        .trainer(command=["bash", "-c", "pip list"])
    )
    outcome = everything().admit(job)
    assert texts(outcome.findings.errors) == []
    assert outcome.after is not None
    assert not outcome.after["spec"].get("suspend")


def test_a_trial_of_katib_passes() -> None:
    """A generated job of a controller, with labels of its own and none of ours."""
    job = (
        make_train_job("tune-7xk2p")
        .runtime("torch-distributed")
        .label("katib.kubeflow.org/experiment", "tune")
        .trainer(numNodes=1, command=["python", "train.py"], args=["--lr=0.01"])
    )
    outcome = everything().admit(job)
    assert texts(outcome.findings.errors) == []
    assert outcome.after is not None
    assert not outcome.after["spec"].get("suspend")


def test_limits_that_are_defaulted_can_be_read_by_the_sdk() -> None:
    """What the SDK makes of a job's limits, when it has none of the resources that it knows, is an exception."""
    known = {"cpu", "nvidia.com/gpu", "google.com/tpu", "huawei.com/Ascend910"}
    for document in policies():
        for mode in ("defaults", "overrides"):
            limits = values.at(document, "spec", mode, "trainer", "resourcesPerNode", "limits")
            assert limits is None or known & limits.keys()
