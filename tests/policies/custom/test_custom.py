"""Options of installed packages over jobs from end to end, in real workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugins.framework import lines
from policies.custom import catalogue
from policies.strikes import Strikes
from tests.builders import Json, make_train_job
from tests.folder import Folder, jobset, pod, texts
from tests.policies.custom.packages import publish
from tests.policies.test_engine import RUNTIME, Given, admit, at, policy, refusals
from webhook.assembly import platform_policy

GIVEN = '''
def writes(job_spec):
    """An option that writes just this."""
    return lambda spec, trainer, backend: spec.update(job_spec)

def declared(name, job_spec, **more):
    return CustomOption(name=name, make=lambda: writes(job_spec), **more)
'''


def use(name: str, mode: str = "overrides", **args: Any) -> Json:
    """A policy of an option's name that uses it."""
    entry = {"name": name, **({"args": args} if args else {})}
    section: Json = {mode: {"options": [entry]}}
    return policy(name, **section)


@pytest.fixture
def wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What admission makes of a job where an option writes this."""

    def admitted(job_spec: Json, mode: str = "overrides", *, line: str = "2.3") -> Any:
        source = f"{GIVEN}\nGIVEN = declared('given', {job_spec!r})\n"
        publish(monkeypatch, tmp_path / "site", source, "given")
        return admit(make_train_job().label("mine", "kept"), use("given", mode), line=line)

    return admitted


def test_what_an_option_writes_is_merged_by_keys_under_our_manager_and_recorded(wrote: Any) -> None:
    patch = {
        "manager": "trainer.kubeflow.org/kubeflow-sdk",
        "trainingRuntimeSpec": {
            "template": {
                "metadata": {"labels": {"of": "jobset"}},
                "spec": {
                    "replicatedJobs": [
                        {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}}
                    ]
                },
            }
        },
    }  # fmt: skip
    outcome = wrote(
        {
            "metadata": {"labels": {"theirs": "x"}, "annotations": None},
            "spec": {
                "activeDeadlineSeconds": 60.0,
                "runtimePatches": [patch, {"manager": "a.b/c"}],
                "trainer": {"env": [{"name": "A", "value": "1"}], "args": []},
            },
        }
    )
    assert refusals(outcome) == []
    assert at(outcome, "metadata", "labels") == {"mine": "kept", "theirs": "x"}
    assert at(outcome, "spec", "activeDeadlineSeconds") == 60
    assert at(outcome, "spec", "trainer", "env") == [{"name": "A", "value": "1"}]
    [entry] = at(outcome, "spec", "runtimePatches")
    assert entry["manager"] == "stationmaster.dev/overrides"
    record = at(outcome, "metadata", "annotations", "stationmaster.dev/applied")
    assert '"/metadata/labels/theirs":"policy/given' in record


@pytest.mark.parametrize("line", ["2.1", "2.2", "2.3"])
def test_old_words_are_translated_for_the_line(wrote: Any, line: str) -> None:
    override = {
        "targetJobs": [{"name": "node"}],
        "spec": {"nodeSelector": {"pool": "a"}},
    }
    job_spec = {"spec": {"labels": {"of": "jobset"}, "podTemplateOverrides": [override]}}
    outcome = wrote(job_spec, line=line)
    assert refusals(outcome) == []
    rendered = Folder.of(RUNTIME, line=line).render(Given(outcome.after))
    assert pod(rendered)["nodeSelector"] == {"pool": "a"}
    assert jobset(rendered)["metadata"]["labels"]["of"] == "jobset"


FAULTS: dict[str, tuple[Json, str]] = {
    "the name": ({"metadata": {"name": "other"}}, "wrote metadata.name: whoever sends a job waits"),
    "the runtime": ({"spec": {"runtimeRef": {"name": "x"}}}, "wrote spec.runtimeRef: which runtime"),
    "ownership": ({"metadata": {"ownerReferences": [{}]}}, "wrote metadata.ownerReferences: an option may write"),
    "a finalizer": ({"metadata": {"finalizers": ["a/b"]}}, "wrote metadata.finalizers: an option may"),
    "the namespace": ({"metadata": {"namespace": "other"}}, "wrote metadata.namespace: an option may"),
    "the status": ({"status": {"conditions": [1]}}, "wrote status: only metadata and spec"),
    "the kind": ({"kind": "Pod"}, "wrote kind: only metadata and spec"),
    "a field that is none": ({"spec": {"replicas": 5}}, "wrote spec.replicas: an option may write metadata.labels"),
    "our annotations": (
        {"metadata": {"annotations": {"stationmaster.dev/applied": "{}"}}},
        "Stationmaster writes this annotation itself",
    ),
    "a list for an object": ({"metadata": ["labels"]}, 'wrote metadata: must be an object, and is ["labels"]'),
    "a number for a label": ({"metadata": {"labels": {"a": 5}}}, "labels[a]: Invalid value: 5: must be a string"),
    "an unknown field of the trainer": ({"spec": {"trainer": {"imag": "x"}}}, "did you mean image?"),
    "an expression": (
        {"metadata": {"labels": {"a": {"expression": "object.metadata.name"}}}},
        "wrote an expression at labels[a].expression: only values count",
    ),
    "a range": ({"spec": {"trainer": {"numNodes": {"max": 5}}}}, "must be a value, not a range"),
    "insistence": ({"spec": {"trainer": {"force": True, "args": ["a"]}}}, "a policy says force beside args"),
    "a patch that is none": ({"spec": {"runtimePatches": ["x"]}}, "runtimePatches[0]: Invalid value"),
    "an image in a patch": (
        {"spec": {"podTemplateOverrides": [{"spec": {"containers": [{"name": "node", "image": "x"}]}}]}},
        "no such field",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_not_an_options_to_write_is_refused_by_name(wrote: Any, case: str) -> None:
    job_spec, words = FAULTS[case]
    [error] = refusals(wrote(job_spec))
    assert error.startswith("[given] Forbidden: spec.overrides.options[0]: option given wrote ")
    assert words in error


def test_a_field_that_the_line_lacks_is_named(wrote: Any) -> None:
    [error] = refusals(wrote({"spec": {"activeDeadlineSeconds": 60}}, line="2.1"))
    assert "the TrainJob of Trainer 2.1 has no activeDeadlineSeconds; it came with 2.2" in error


def test_a_default_leaves_what_the_user_says(wrote: Any) -> None:
    outcome = wrote({"metadata": {"labels": {"mine": "theirs", "new": "x"}}}, "defaults")
    assert at(outcome, "metadata", "labels") == {"mine": "kept", "new": "x"}


HOSTILE = """
import os, sys, threading, time
def option(name, act, **more):
    return CustomOption(name=name, make=lambda: act, **more)

def hangs(spec, trainer, backend):
    while True: pass
def sleeps(spec, trainer, backend):
    threading.Event().wait()
def raises(spec, trainer, backend):
    raise ValueError("no " * 5000)
def exits(spec, trainer, backend):
    sys.exit(0)
def dies(spec, trainer, backend):
    os._exit(0)
def recurses(spec, trainer, backend):
    recurses(spec, trainer, backend)
def hoards(spec, trainer, backend):
    bytearray(2**40)
def cycles(spec, trainer, backend):
    spec["spec"] = spec
def sets(spec, trainer, backend):
    spec["metadata"] = {"labels": {1, 2}}
def numbers(spec, trainer, backend):
    spec["spec"] = {"activeDeadlineSeconds": float("nan")}
def keys(spec, trainer, backend):
    spec["spec"] = {5: 6}
def floods(spec, trainer, backend):
    spec["metadata"] = {"labels": {str(i): "x" for i in range(200000)}}
def prints(spec, trainer, backend):
    print("x" * 100000, flush=True)
    for fd in range(3, 20):
        try: os.write(fd, b"\\0\\0\\0\\4null")
        except OSError: pass
def mutates(spec, trainer, backend):
    backend.train_job["metadata"]["name"] = "other"
    backend.train_job["spec"].clear()
    backend.namespace = "kube-system"
    for name in ("custom_api", "core_api"):
        try: getattr(backend, name)
        except RuntimeError: pass
        else: spec["oops"] = True
class Sly(Exception):
    def __str__(self): raise KeyError
def sly(spec, trainer, backend):
    raise Sly
"""
HARMLESS: dict[str, str] = {
    "hangs": "took longer than 1 s",
    "sleeps": "took longer than 5 s",
    "raises": "raised ValueError: no no no",
    "exits": "raised SystemExit: 0",
    "dies": "ended the process that evaluated it",
    "recurses": "raised RecursionError",
    "hoards": "took too much memory",
    "cycles": "wrote what is no part of a TrainJob: more than 64 levels",
    "sets": "wrote what is no part of a TrainJob: a value of type set",
    "numbers": "wrote what is no part of a TrainJob: a value of type float",
    "keys": "wrote what is no part of a TrainJob: a key that is not a string",
    "floods": "wrote what is no part of a TrainJob: more than 10000 values",
    "prints": "ended the process that evaluated it",
    "sly": "raised Sly",
}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs some of them."""

    def install(*names: str) -> None:
        source = HOSTILE + "".join(f"{n.upper()} = option({n!r}, {n})\n" for n in names)
        publish(monkeypatch, tmp_path / "site", source, *names)

    return install


@pytest.mark.parametrize("name", HARMLESS)
def test_a_hostile_option_refuses_by_its_policy_and_does_no_harm(
    hostile: Callable[..., None], name: str
) -> None:
    """Its text is bounded, and the next job is judged, too."""
    hostile(name)
    folder = Folder.of(RUNTIME, use(name))
    for _ in range(2):
        [error] = texts(folder.admit(make_train_job()).findings.errors)
        assert error.startswith(f"[{name}] Forbidden: spec.overrides.options[0]: option {name} ")
        assert HARMLESS[name] in error
        assert len(error) < 500


def test_failure_policy_ignore_passes_it_over_and_says_so(hostile: Callable[..., None]) -> None:
    """What other policies say beside it is done, expressions too."""
    hostile("raises")
    ignored = use("raises")
    ignored["spec"]["failurePolicy"] = "Ignore"
    risky = {"expression": "object.metadata.name.replace('-', '_')"}
    other = policy("other", defaults={"labels": {"other": "x", "worker": risky}})
    outcome = admit(make_train_job("a-b"), ignored, other)
    assert outcome.allowed
    assert at(outcome, "metadata", "labels") == {"other": "x", "worker": "a_b"}
    [warning] = outcome.findings.warnings
    assert warning.startswith(
        "[raises] is passed over: spec.overrides.options[0]: option raises raised ValueError"
    )


def test_after_two_kills_a_policy_is_quarantined_and_others_are_not(
    hostile: Callable[..., None],
) -> None:
    hostile("hangs", "mutates")
    folder = Folder.of(RUNTIME, use("hangs"), use("mutates"))
    said = [texts(folder.admit(make_train_job()).findings.errors) for _ in range(3)]
    assert [len(each) for each in said] == [1, 1, 1], "nothing is said of the other"
    assert said[2] == [
        "[hangs] Forbidden: the policy is not Ready until it changes: its worker was killed 2 times"
    ]


def strikes(folder: Folder) -> Strikes:
    found = platform_policy(folder.engine._pipeline)
    assert found is not None
    return found.strikes


def test_a_quarantined_policy_is_so_by_the_digest_that_its_status_goes_by(
    hostile: Callable[..., None],
) -> None:
    """Also where options of both modes hang: a kill of one mode must not make that of the other forgotten."""
    hostile("dies")
    dies = {"options": [{"name": "dies"}]}
    both = policy("both", defaults={**dies, "labels": {"half": "done"}}, overrides=dies)
    both["spec"]["failurePolicy"] = "Ignore"
    folder = Folder.of(RUNTIME, both)
    for _ in range(2):
        folder.admit(make_train_job())
    [compiled] = folder.engine.policies.policies
    assert strikes(folder).quarantined == {"both": compiled.digest}
    outcome = folder.admit(make_train_job())
    assert outcome.findings.warnings == [
        "[both] is passed over: the policy is not Ready until it changes: its worker was killed 2 times"
    ]


def test_what_an_option_does_to_its_arguments_goes_nowhere(hostile: Callable[..., None]) -> None:
    hostile("mutates")
    job = make_train_job()
    outcome = admit(job, use("mutates"))
    assert outcome.allowed, refusals(outcome)
    assert at(outcome, "metadata", "name") == job.obj["metadata"]["name"]


def test_an_option_that_says_otherwise_each_time_is_refused_with_its_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import uuid
def option(job_spec, trainer, backend):
    job_spec["metadata"] = {"labels": {"run": str(uuid.uuid4())}}
OTHERWISE = CustomOption(name="otherwise", make=lambda: option)
"""
    publish(monkeypatch, tmp_path / "site", source, "otherwise")
    [error] = refusals(admit(make_train_job(), use("otherwise")))
    assert error == (
        "[otherwise] Forbidden: what policies write still changes in round 4: a value changes what matches, and that "
        "the value, or an option gives another value each time; these change: otherwise"
    )


def test_two_policies_that_each_add_labels_both_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's own Labels replaces the map that it finds; here each begins with nothing."""
    source = GIVEN + (
        "ONE = declared('one', {'metadata': {'labels': {'one': '1'}}})\n"
        "TWO = declared('two', {'metadata': {'labels': {'two': '2'}}})\n"
    )
    publish(monkeypatch, tmp_path / "site", source, "one", "two")
    both = policy("both", overrides={"options": [{"name": "one"}, {"name": "two"}]})
    for documents in ([use("one"), use("two")], [both]):
        outcome = admit(make_train_job().label("mine", "0"), *documents)
        assert at(outcome, "metadata", "labels") == {"mine": "0", "one": "1", "two": "2"}


def test_an_option_sees_the_job_the_namespace_and_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
def make(*, text, max_retries=1):
    def option(job_spec, trainer, backend):
        said = [text, str(max_retries), type(trainer).__name__, trainer.image.replace("/", "-").replace(":", "-"),
                str(trainer.num_nodes), trainer.env["A"], type(backend).__name__, backend.namespace,
                backend.train_job["metadata"]["name"]]
        job_spec["metadata"] = {"annotations": {"example.com/said": " ".join(said)}}
    return option
SEES = CustomOption(name="sees", make=make, args={"type": "object", "required": ["text"], "properties": {
    "text": {"type": "string"}, "maxRetries": {"type": "integer"}}})
"""
    publish(monkeypatch, tmp_path / "site", source, "sees")
    job = make_train_job().trainer(image="a/b:1", numNodes=3, env=[{"name": "A", "value": "v"}])
    outcome = admit(job, use("sees", text="hi", maxRetries=7))
    assert outcome.allowed, refusals(outcome)
    name, namespace = (job.obj["metadata"][key] for key in ("name", "namespace"))
    said = f"hi 7 CustomTrainerContainer a-b-1 3 v KubernetesBackend {namespace} {name}"
    assert at(outcome, "metadata", "annotations", "example.com/said") == said


def problems(document: Json) -> list[str]:
    """Why a policy is not Ready."""
    policies = Folder.of(RUNTIME, document).engine.policies
    return [str(error) for _, errors in policies.problems() for error in errors]


def test_arguments_are_checked_when_the_policy_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
ARGS = {"type": "object", "required": ["seconds"], "properties": {
    "seconds": {"type": "integer", "minimum": 1, "maximum": 9}, "tags": {"type": "array", "items": {"type": "string"}},
    "kind": {"type": "string", "enum": ["a", "b"]}}}
CHECKED = CustomOption(name="checked", make=lambda **args: lambda *_: None, args=ARGS, modes=("overrides",), lines=("2.3",))
"""
    publish(monkeypatch, tmp_path / "site", source, "checked")
    assert problems(use("checked", seconds=5, tags=["a"], kind="b")) == []
    assert admit(make_train_job(), use("checked", seconds=5)).allowed
    [missing] = problems(use("checked"))
    assert missing == "spec.overrides.options[0].args.seconds: Required value"
    [low] = problems(use("checked", seconds=0))
    assert "greater than or equal to 1" in low
    [meant] = problems(use("checked", seconds=1, tagz=[]))
    assert "no such field; did you mean tags?" in meant
    [values] = problems(use("checked", seconds={"expression": "5"}))
    assert "arguments of options are values, not expressions" in values
    [mode] = problems(use("checked", "defaults", seconds=1))
    assert "may stand under overrides only" in mode
    [line] = refusals(admit(make_train_job(), use("checked", seconds=1), line="2.2"))
    assert "option checked is for Trainer 2.3, and this is 2.2" in line


SHAPES: list[Any] = [
    None,
    5,
    "x",
    {},
    [],
    [5],
    [{}],
    [{"name": 5}],
    [{"name": "a", "args": 5}],
    [{"nam": "a"}],
]


@pytest.mark.parametrize("raw", SHAPES)
def test_any_shape_of_options_is_reported(raw: Any) -> None:
    assert problems(policy("p", overrides={"options": raw}))


UNUSABLE: dict[str, tuple[str, str]] = {
    "raises at import": ("raise ImportError('no such thing')", "cannot be imported: ImportError: no such thing"),
    "exits at import": ("raise SystemExit", "cannot be imported: SystemExit"),
    "dies at import": ("import os; os._exit(3)", "cannot be imported: it ended the process"),
    "is not there": ("pass", "cannot be imported: AttributeError"),
    "is no declaration": ("BAD = 5", "outside:BAD must be a policies.custom.CustomOption"),
    "has another name": ("BAD = CustomOption(name='good', make=print)", "outside:BAD calls itself good"),
    "makes nothing": ("BAD = CustomOption(name='bad', make=5)", "has a make that cannot be called"),
    "declares no JSON": ("BAD = CustomOption(name='bad', make=print, args={1, 2})", "declares what is not JSON"),
    "declares no schema": ("BAD = CustomOption(name='bad', make=print, args={'type': 'number'})", "args.type: must be one of"),
    "declares a schema that nobody knows": (
        "BAD = CustomOption(name='bad', make=print, args={'type': 'object', 'oneOf': []})", "args.oneOf: is not known"),
    "is for no line": ("BAD = CustomOption(name='bad', make=print, lines=('9.9',))", "lines: must be of 2.0, 2.1, 2.2, 2.3"),
    "is for another backend": (
        "BAD = CustomOption(name='bad', make=print, backends=('LocalProcess',))",
        "is for other backends (LocalProcess), and TrainJobs are of Kubernetes"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_option_that_cannot_be_used_is_refused_with_what_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    source, words = UNUSABLE[case]
    publish(monkeypatch, tmp_path / "bad", source, "bad")
    publish(
        monkeypatch,
        tmp_path / "fine",
        f"{GIVEN}\nFINE = declared('fine', {{}})",
        "fine",
        package="other",
    )
    [error] = problems(use("bad"))
    assert error.startswith("spec.overrides.options[0].name: Forbidden: option bad of outside 2.0 ")
    assert words in error
    assert "installed ones that can be used here: fine; keys of their own: labels, " in error
    outcome = admit(make_train_job(), use("fine"))
    assert outcome.allowed, refusals(outcome)
    assert "is not Ready" in refusals(admit(make_train_job(), use("bad")))[0]


def test_an_import_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LOAD_SECONDS", 0.5)
    publish(monkeypatch, tmp_path / "slow", "import threading; threading.Event().wait()", "slow")
    publish(
        monkeypatch,
        tmp_path / "fine",
        f"{GIVEN}\nFINE = declared('fine', {{}})",
        "fine",
        package="other",
    )
    [error] = problems(use("slow"))
    assert "option slow of outside 2.0 cannot be imported: takes longer than 0.5 s" in error
    monkeypatch.undo()
    monkeypatch.syspath_prepend(tmp_path / "fine")
    assert admit(make_train_job(), use("fine")).allowed


def test_a_name_that_two_packages_publish_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("one", "two"):
        publish(
            monkeypatch,
            tmp_path / package,
            f"{GIVEN}\nSAME = declared('same', {{}})",
            "same",
            package=package,
        )
    [error] = problems(use("same"))
    assert "is published twice: by one 2.0 and two 2.0" in error


def test_a_misspelt_option_is_told_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(
        monkeypatch,
        tmp_path / "site",
        f"{GIVEN}\nDEADLINE = declared('deadline', {{}})",
        "deadline",
    )
    [error] = problems(use("deadlin"))
    assert 'no option "deadlin" is installed; did you mean deadline?' in error


def test_nothing_of_a_package_is_imported_into_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys  # noqa: PLC0415  # what it is about

    source = f"{GIVEN}\nGIVEN = declared('given', {{'metadata': {{'labels': {{'a': 'b'}}}}}})"
    publish(monkeypatch, tmp_path / "site", source, "given")
    assert at(admit(make_train_job(), use("given")), "metadata", "labels") == {"a": "b"}
    assert "outside" not in sys.modules
    assert not any(name.startswith("kubeflow.") for name in sys.modules)


def test_every_line_is_a_line_of_the_declaration() -> None:
    from policies.custom.declaration import CustomOption  # noqa: PLC0415  # stands apart

    assert tuple(lines.LINES) == CustomOption(name="a", make=lambda: print).lines
