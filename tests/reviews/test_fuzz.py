"""No input makes an exception, a fault or a hang: any JSON in any field, and bytes of any kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugins.framework.errors import BadReview
from plugins.framework.values import same
from tests.builders import Json, job_patch, make_runtime, make_train_job, mount, patched
from tests.hangs import no_hang
from tests.reviews import samples
from tests.reviews.desk import PHASES, Desk, Reply, create, read
from webhook.review import Phase, decode, shape_of

KINDS = {
    "trainjobs": "TrainJob",
    "trainingruntimes": "TrainingRuntime",
    "clustertrainingruntimes": "ClusterTrainingRuntime",
}

DESK = samples.desk()

WORDS = st.sampled_from(
    [
        *("", "a", "node", "trainer", "launcher", "auto", "delete", "1", "0", "-1", "$patch"),
        *("1Gi", "0.5Gi", "1e1000000000", "1e-400", "9" * 400, "x" * 300, "a/b~c", "{{", "hf://a"),
        *("\x00\n", "\u2028\u202e", "\U0001f600", "2026-01-01T00:00:00Z", "kueue.x-k8s.io/manager"),
    ]
)
NUMBERS = st.sampled_from([0, -1, 1, 3, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, -0.0, 1e300])
KEYS = WORDS | st.sampled_from(
    ["name", "env", "spec", "metadata", "labels", "value", "time", "cpu"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.recursive(
    st.booleans() | NUMBERS.filter(lambda n: n == n // 1) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)

fuzz = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value but the root."""
    out: list[tuple[Any, ...]] = []
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, item in pairs:
        out += [(*at, key), *places(item, (*at, key))]
    return out


def parent(value: Any, place: tuple[Any, ...]) -> Any:
    """What holds the last step of a place."""
    for step in place[:-1]:
        value = value[step]
    return value


def break_one(draw: st.DrawFn, root: Any) -> None:
    """Do one thing to a random place: other value, gone, twice, or one more field."""
    there = places(root)
    if not there:
        return
    place = draw(st.sampled_from(there))
    holder, key = parent(root, place), place[-1]
    what = draw(st.sampled_from(["replace", "replace", "replace", "delete", "repeat", "add"]))
    if what == "delete":
        del holder[key]
    elif what == "repeat" and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == "add" and isinstance(holder[key], dict):
        holder[key][draw(KEYS)] = draw(VALUES)
    elif what == "add" and isinstance(holder[key], list):
        holder[key].append(draw(VALUES))
    else:
        holder[key] = draw(VALUES)


@st.composite
def broken_objects(draw: st.DrawFn) -> Json:
    """A valid review of which the object (and now and then the old one) is broken in some places."""
    asked = samples.review(draw(st.integers(0, samples.count() - 1)))
    request = asked["request"]
    for _ in range(draw(st.integers(1, 4))):
        keys = [k for k in ("object", "object", "oldObject") if isinstance(request.get(k), dict)]
        break_one(draw, request[draw(st.sampled_from(keys))])
    return asked


@st.composite
def broken_reviews(draw: st.DrawFn) -> Json:
    """A valid review, broken anywhere in its envelope or in it."""
    asked = samples.review(draw(st.integers(0, samples.count() - 1)))
    for _ in range(draw(st.integers(1, 3))):
        break_one(draw, asked)
    return asked


def ask(phase: Phase, asked: Json, desk: Desk = DESK) -> Reply:
    """Ask, and hold the answer to the contract."""
    with no_hang():
        return desk.post(phase, asked)


def failed(reply: Reply) -> bool:
    """Whether the answer speaks of a fault of ours."""
    return reply.answer.decision == "error" or any(" failed in " in w for w in reply.warnings)


def storable(asked: Json) -> bool:
    """Whether the old object has a shape that could be stored."""
    request = asked["request"]
    kind = KINDS.get(str(request["resource"]["resource"]))
    old = request.get("oldObject")
    return kind is None or old is None or shape_of("2.3", kind)(old)


@fuzz
@given(broken_objects())
def test_any_json_in_any_field_gets_an_answer(asked: Json) -> None:
    for phase in PHASES:
        reply = ask(phase, asked)
        assert not failed(reply) or not storable(asked), reply.answer.body


@fuzz
@given(broken_objects())
def test_a_patch_makes_in_the_cluster_what_it_made_here(asked: Json) -> None:
    reply = ask("mutate", asked)
    if not reply.allowed or failed(reply) or not isinstance(asked["request"].get("object"), dict):
        return
    here = decode(orjson.dumps(asked))
    asyncio.run(DESK.reviewer.judge("mutate", here))
    assert same(reply.after, here.object)


@fuzz
@given(broken_objects())
def test_called_again_nothing_is_changed_and_validation_agrees(asked: Json) -> None:
    reply = ask("mutate", asked)
    request = asked["request"]
    if not reply.allowed or failed(reply) or request["operation"] != "CREATE":
        return
    again = {**asked, "request": {**request, "object": reply.after}}
    assert ask("mutate", again).patch is None
    assert ask("validate", again).allowed


@fuzz
@given(broken_reviews())
def test_a_broken_review_is_answered_or_said_to_be_none(asked: Json) -> None:
    for phase in PHASES:
        with suppress(BadReview):
            ask(phase, asked)


@fuzz
@given(st.binary(max_size=200) | VALUES.map(orjson.dumps))
def test_bytes_of_any_kind_are_no_review(body: bytes) -> None:
    with pytest.raises(BadReview):
        asyncio.run(DESK.reviewer.mutate(body, deadline=1.0))


@fuzz
@given(st.data())
def test_unknown_fields_survive(data: st.DataObject) -> None:
    """At every level of a TrainJob: what no schema of ours knows goes back as it came."""
    asked = samples.review(data.draw(st.integers(15, samples.count() - 1)))
    obj = asked["request"]["object"]
    holders = [(), *(p for p in places(obj) if isinstance(parent(obj, (*p, 0)), dict))]
    # Maps of strings and of quantities have no unknown fields: each key is data.
    maps = {"labels", "annotations", "nodeSelector", "limits", "requests"}
    place = data.draw(st.sampled_from([p for p in holders if not maps & set(p)]))
    value = data.draw(FIELDS)
    parent(obj, (*place, "x"))["x-unknown"] = value
    reply = ask("mutate", asked)
    if reply.allowed:
        assert same(parent(reply.after, (*place, "x"))["x-unknown"], value)


# What is large or deep


def a_job(**trainer: Any) -> Json:
    """A review of a job with these fields in ``spec.trainer``."""
    return create(make_train_job().trainer(**trainer).obj)


@pytest.fixture
def torch() -> Desk:
    """A desk with one runtime, warm."""
    desk = Desk.of(make_runtime().torch().node().coscheduling())
    desk.mutate(a_job())
    return desk


MANY = range(10_000)
SELECTOR = {"nodeSelector": {"a": "1"}}


def patches(*jobs: Json) -> Json:
    """A job with one patch of these jobs."""
    return make_train_job().patch("a.example/m", *jobs).obj


CROWDS: dict[str, Callable[[], Json]] = {
    "spec.trainer.env": lambda: (
        make_train_job().trainer(env=[{"name": "PET_NNODES", "value": str(i)} for i in MANY]).obj
    ),
    "spec.trainer.args": lambda: make_train_job().args(*(["a"] * len(MANY))).obj,
    "spec.runtimePatches": lambda: (
        make_train_job()
        .field([{"manager": f"a{i}.example/m"} for i in MANY], "spec", "runtimePatches")
        .obj
    ),
    "replicatedJobs": lambda: patches(*(job_patch(f"n{i}", pod=SELECTOR) for i in MANY)),
    "containers": lambda: patches(
        job_patch("node", pod={"containers": [patched(f"c{i}") for i in MANY]})
    ),
    "volumeMounts": lambda: patches(
        job_patch(
            "node",
            pod={"containers": [patched("x", volumeMounts=[mount("v", f"/{i}") for i in MANY])]},
        )
    ),
    "tolerations": lambda: patches(
        job_patch("node", pod={"tolerations": [{"key": str(i)} for i in MANY]})
    ),
}
"""Lists of ten thousand; what stands before the name in the path is left out."""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("place", CROWDS)
def test_lists_past_their_bounds_are_refused_before_they_cost_time(
    torch: Desk, place: str, phase: Phase
) -> None:
    obj = CROWDS[place]()
    torch.mutate(a_job(numNodes="x"))  # whatever is loaded once is loaded now
    reply = ask(phase, create(obj), torch)
    [(path, reason)] = reply.causes
    assert path.endswith(place)
    assert reason == "FieldValueTooMany"


@pytest.mark.parametrize("phase", PHASES)
def test_ten_thousand_findings_take_no_time_of_their_own(torch: Desk, phase: Phase) -> None:
    """Maps have no bounds: each of these labels is a finding."""
    labels = {f"bad key {i}": "v" for i in MANY}
    patch = job_patch("node", pod_metadata={"labels": labels})
    reply = ask(phase, create(patches(patch)), torch)
    assert len(reply.causes) == 100
    assert reply.message.endswith("* and 9900 more")


@pytest.mark.parametrize("phase", PHASES)
def test_ten_thousand_resources(torch: Desk, phase: Phase) -> None:
    amounts = {f"example.com/r{i}": "1" for i in MANY}
    assert ask(phase, a_job(resourcesPerNode={"limits": amounts}), torch).allowed


@pytest.mark.parametrize("nodes", [10_000, 1_000_000, 2**31 - 1])
def test_many_nodes_are_not_counted_one_by_one(torch: Desk, nodes: int) -> None:
    assert ask("mutate", a_job(numNodes=nodes), torch).allowed


@pytest.mark.parametrize("number", ["2147483648", "1" + "0" * 19, "1" + "0" * 300, "1e300"])
def test_a_number_past_its_type_is_the_fields_fault(torch: Desk, number: str) -> None:
    asked = a_job(numNodes=1)
    body = orjson.dumps(asked).replace(b'"numNodes":1', f'"numNodes":{number}'.encode())
    reply = read("mutate", asked, asyncio.run(torch.reviewer.mutate(body, deadline=1.0)))
    assert {path for path, _ in reply.causes} == {"spec.trainer.numNodes"}


def test_a_string_of_three_megabytes(torch: Desk) -> None:
    image = "x" * 3_000_000
    reply = ask("mutate", a_job(image=image), torch)
    assert reply.after["spec"]["trainer"]["image"] == image
    assert len(reply.answer.body) < 4096


def test_a_wrong_value_of_three_megabytes_is_quoted_in_part(torch: Desk) -> None:
    reply = ask("mutate", a_job(numNodes="x" * 3_000_000), torch)
    assert len(reply.answer.body) < 4096


def test_a_name_and_a_key_of_three_megabytes_are_quoted_in_part(torch: Desk) -> None:
    huge = "A" * 3_000_000
    pod = {
        "containers": [patched("node", volumeMounts=[mount("gone", "/w")])],
        "volumes": [{"name": huge, "emptyDir": {}}],
    }
    metadata = {"labels": {huge: "v"}, "annotations": {"x": huge}}
    patch = job_patch("node", pod=pod, pod_metadata=metadata)
    job = make_train_job(huge).patch(huge, patch).env(huge, huge).env("PET_NNODES", huge)
    reply = ask("mutate", create(job.obj), torch)
    assert len(reply.causes) > 3
    assert len(reply.answer.body) < 16_384
    assert len(reply.answer.name) < 512


def test_what_could_forge_a_line_is_escaped(torch: Desk) -> None:
    bad = "a\n* spec.fine: \x1b[31mred\u202e"
    pod = {
        "containers": [patched("node", volumeMounts=[mount("gone", "/w")])],
        "volumes": [{"name": bad, "emptyDir": {}}],
    }
    patch = job_patch("node", pod=pod, pod_metadata={"labels": {bad: bad}})
    job = make_train_job(bad).patch(bad, patch).env("PET_NNODES", "1")
    reply = ask("mutate", create(job.obj), torch)
    assert reply.message.count("\n") == len(reply.causes)
    assert "\\u001b[31mred\\u202e" in reply.message


def nested(levels: int, inner: str) -> bytes:
    """A review whose object holds lists or objects that deep."""
    body = orjson.dumps(a_job())
    left, right = ("[", "]") if inner == "list" else ('{"a":', "}")
    deep = f'"x":{left * levels}1{right * levels},'
    return body.replace(b'"spec":{', b'"spec":{' + deep.encode(), 1)


@pytest.mark.parametrize("inner", ["list", "object"])
@pytest.mark.parametrize("levels", [100, 190])
def test_a_deep_object_is_answered(torch: Desk, levels: int, inner: str) -> None:
    answer = asyncio.run(torch.reviewer.mutate(nested(levels, inner), deadline=1.0))
    assert answer.decision == "patched"


@pytest.mark.parametrize("inner", ["list", "object"])
@pytest.mark.parametrize("levels", [200, 254, 255, 1000, 1023, 1024, 100_000])
def test_a_deeper_one_is_refused_at_once(torch: Desk, levels: int, inner: str) -> None:
    with no_hang(), pytest.raises(BadReview):
        asyncio.run(torch.reviewer.mutate(nested(levels, inner), deadline=1.0))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'{"kind": NaN}',
        b"\xff\xfe",
        b"[" * 5_000_000,
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"\\ud800"}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":""}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
    ],
    ids=lambda body: body[-24:].decode(errors="replace"),
)
def test_what_is_no_review_is_said_to_be_none(torch: Desk, body: bytes) -> None:
    for call in (torch.reviewer.mutate, torch.reviewer.validate):
        with pytest.raises(BadReview):
            asyncio.run(call(body, deadline=1.0))
