"""The strategic merge: what is merged, what is replaced, in which order lists end; and what directives do."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.framework import goform, values
from plugins.framework.errors import BuildError
from plugins.framework.merge import Merger
from tests.builders import Json, container, mount, patched
from tests.plugins.kit import table

MERGER = Merger(goform.load("2.3"))


def merge(original: Json, patch: Json, type_name: str = "PodSpec") -> Json:
    return MERGER.merge(original, patch, type_name)


# Order of lists (semantics 3.3)


def named(names: str) -> list[Json]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("original", "patch", "wanted"),
    [
        ("AXB", "N", "NAXB"),
        ("AXB", "X", "AXB"),
        ("AXB", "XN", "AXNB"),
        ("AXB", "BA", "XBA"),
        ("AXB", "", "AXB"),
        ("", "NM", "NM"),
        ("AB", "NA", "NAB"),
        ("AB", "BN", "ABN"),
        ("ABCD", "DNB", "ACDNB"),
    ],
)
def test_m18_the_order_of_a_merged_list(original: str, patch: str, wanted: str) -> None:
    merged = merge({"containers": named(original)}, {"containers": named(patch)})
    assert "".join(c["name"] for c in merged["containers"]) == wanted


@dataclass(frozen=True)
class Case:
    original: Json
    patch: Json
    wanted: Json
    type_name: str = "PodSpec"


CASES = {
    "a scalar is replaced": Case(
        {"serviceAccountName": "a"}, {"serviceAccountName": "b"}, {"serviceAccountName": "b"}
    ),
    "a key that only the patch has is added": Case(
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"b": "2"}},
        {"nodeSelector": {"a": "1", "b": "2"}},
    ),
    "a list without a strategy is replaced": Case(
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
    "items of one name are merged, deep": Case(
        {"containers": [container("a", {"X": "1", "Y": "2"})]},
        {"containers": [patched("a", {"Y": "3"})]},
        {"containers": [container("a", {"X": "1", "Y": "3"})]},
    ),
    "env with another source keeps both": Case(
        {"containers": [container("a", {"X": "1"})]},
        {"containers": [patched("a", {"X": {"fieldRef": {"fieldPath": "p"}}})]},
        {
            "containers": [
                {
                    **container("a"),
                    "env": [
                        {"name": "X", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}
                    ],
                }
            ]
        },
    ),
    "mounts are merged by path, not by name": Case(
        {"containers": [patched("a", volumeMounts=[mount("v", "/a")])]},
        {"containers": [patched("a", volumeMounts=[mount("v", "/b"), mount("w", "/a")])]},
        {"containers": [patched("a", volumeMounts=[mount("v", "/b"), mount("w", "/a")])]},
    ),
    "capabilities are replaced": Case(
        {
            "containers": [
                patched("a", securityContext={"capabilities": {"add": ["A"], "drop": ["B"]}})
            ]
        },
        {"containers": [patched("a", securityContext={"capabilities": {"add": ["C"]}})]},
        {
            "containers": [
                patched("a", securityContext={"capabilities": {"add": ["C"], "drop": ["B"]}})
            ]
        },
    ),
    "new finalizers come first, and each once": Case(
        {"finalizers": ["a", "a"]},
        {"finalizers": ["b", "b"]},
        {"finalizers": ["b", "a"]},
        "ObjectMeta",
    ),
    "finalizers are united": Case(
        {"finalizers": ["a", "b"]},
        {"finalizers": ["b", "c"]},
        {"finalizers": ["a", "b", "c"]},
        "ObjectMeta",
    ),
    "containers and init containers are two lists": Case(
        {"containers": named("a")},
        {"initContainers": named("a")},
        {"containers": named("a"), "initContainers": named("a")},
    ),
}


@table(CASES)
def test_merge(case: Case) -> None:
    original, patch = deepcopy(case.original), deepcopy(case.patch)
    assert merge(original, patch, case.type_name) == case.wanted
    assert (original, patch) == (case.original, case.patch), "what is given is not changed"


# Directives, as the Trainer's own code obeys them


SELECTOR = {"nodeSelector": {"a": "1", "b": "2"}}


def terms(**labels: str) -> list[Json]:
    return [{"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}]


def affinity(**labels: str) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(**labels)}}


DIRECTIVES = {
    "replace replaces a map that is there": Case(
        SELECTOR, {"nodeSelector": {"$patch": "replace", "c": "3"}}, {"nodeSelector": {"c": "3"}}
    ),
    "replace drops a map that meets nothing": Case(
        {}, {"nodeSelector": {"$patch": "replace", "c": "3"}}, {}
    ),
    "delete empties a map that is there": Case(
        SELECTOR, {"nodeSelector": {"$patch": "delete", "c": "3"}}, {"nodeSelector": {}}
    ),
    "delete drops a map that meets nothing": Case({}, {"nodeSelector": {"$patch": "delete"}}, {}),
    "$patch is dropped with its map from a list that meets nothing, however deep": Case(
        {},
        {"affinity": affinity(a="1", **{"$patch": "merge"})},
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {}}
                    ]
                }
            }
        },
    ),
    "$patch stays in a list that replaces another": Case(
        {"affinity": affinity(x="1")},
        {"affinity": affinity(a="1", **{"$patch": "merge"})},
        {"affinity": affinity(a="1", **{"$patch": "merge"})},
    ),
    "0.1.3 in an item that is new in a merged list it stays": Case(
        {"volumes": [{"name": "v"}]},
        {
            "volumes": [
                {"name": "w", "csi": {"driver": "d", "volumeAttributes": {"$patch": "delete"}}}
            ]
        },
        {
            "volumes": [
                {"name": "w", "csi": {"driver": "d", "volumeAttributes": {"$patch": "delete"}}},
                {"name": "v"},
            ]
        },
    ),
    "another key with a dollar is data": Case(
        SELECTOR,
        {"nodeSelector": {"$other": "x"}},
        {"nodeSelector": {"a": "1", "b": "2", "$other": "x"}},
    ),
    "$deleteFromPrimitiveList is the value of the key that it names": Case(
        SELECTOR,
        {"nodeSelector": {"$deleteFromPrimitiveList/a": "x"}},
        {"nodeSelector": {"a": "x", "b": "2"}},
    ),
    "$deleteFromPrimitiveList of a key that is not there is ignored": Case(
        SELECTOR, {"nodeSelector": {"$deleteFromPrimitiveList/c": "x"}}, SELECTOR
    ),
}


@table(DIRECTIVES)
def test_directives(case: Case) -> None:
    assert merge(case.original, case.patch) == case.wanted


@pytest.mark.parametrize(
    "key", ["$retainKeys", "$setElementOrder/a", "$setElementOrder", "$deleteFromPrimitiveList"]
)
def test_a_directive_that_wants_a_list_fails(key: str) -> None:
    with pytest.raises(BuildError):
        merge(SELECTOR, {"nodeSelector": {key: "x"}})


@pytest.mark.parametrize("word", ["foo", "merge", ""])
def test_g9_any_other_word_of_patch_fails(word: str) -> None:
    with pytest.raises(BuildError, match=f"Unknown patch type found: {word}"):
        merge(SELECTOR, {"nodeSelector": {"$patch": word}})


# Against a slow model


KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}


def model(original: Any, patch: Any, field: str = "") -> Any:
    """The merge by its definition: untyped, one item at a time, lists by ``KEYS``."""
    if isinstance(original, dict) and isinstance(patch, dict):
        shared = {k: model(v, patch[k], k) if k in patch else v for k, v in original.items()}
        return shared | {k: v for k, v in patch.items() if k not in original}
    if isinstance(original, list) and isinstance(patch, list) and field in KEYS:
        return model_list(original, patch, KEYS[field])
    return patch


def model_list(original: list[Json], patch: list[Json], key: str) -> list[Json]:
    places = {item[key]: i for i, item in enumerate(original)}
    changed = [
        model(original[places[item[key]]], item) if item[key] in places else item for item in patch
    ]
    left = [item for item in original if item[key] not in {p[key] for p in patch}]
    out: list[Json] = []
    while changed and left:
        place = places.get(changed[0][key])
        stood_before = place is not None and places[left[0][key]] < place
        out.append((left if stood_before else changed).pop(0))
    return out + changed + left


TEXTS = st.sampled_from(["1", "2", "3"])
NAMES = st.sampled_from("abcde")


def unique(items: st.SearchStrategy[Json], key: str) -> st.SearchStrategy[list[Json]]:
    return st.lists(items, min_size=1, max_size=4, unique_by=lambda item: str(item[key]))


ENV = st.fixed_dictionaries({"name": NAMES, "value": TEXTS})
MOUNTS = st.fixed_dictionaries({"name": NAMES, "mountPath": st.sampled_from(["/a", "/b", "/c"])})
CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "env": unique(ENV, "name"),
        "volumeMounts": unique(MOUNTS, "mountPath"),
        "securityContext": st.fixed_dictionaries(
            {}, optional={"runAsUser": st.integers(1, 3), "runAsGroup": st.integers(1, 3)}
        ),
    },
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "containers": unique(CONTAINERS, "name"),
        "initContainers": unique(CONTAINERS, "name"),
        "volumes": unique(
            st.fixed_dictionaries(
                {"name": NAMES},
                optional={"hostPath": st.just({"path": "/x"}), "emptyDir": st.just({})},
            ),
            "name",
        ),
        "imagePullSecrets": unique(st.fixed_dictionaries({"name": NAMES}), "name"),
        "schedulingGates": unique(st.fixed_dictionaries({"name": NAMES}), "name"),
        "tolerations": st.lists(st.fixed_dictionaries({"key": NAMES}), min_size=1, max_size=2),
        "nodeSelector": st.dictionaries(NAMES, TEXTS, min_size=1, max_size=3),
        "serviceAccountName": TEXTS,
        "terminationGracePeriodSeconds": st.integers(1, 3),
    },
)


@given(PODS, st.lists(PODS, max_size=3))
def test_patches_give_what_the_definition_says(original: Json, patches: list[Json]) -> None:
    before = deepcopy((original, patches))
    ours = theirs = original
    for patch in patches:
        ours, theirs = merge(ours, patch), model(theirs, patch)
    assert values.same(ours, theirs)
    assert (original, patches) == before


@given(PODS, PODS)
def test_a_patch_merged_twice_changes_no_more(original: Json, patch: Json) -> None:
    """It may move items, and add none; a second time finds everything in place but for that order."""
    once = merge(original, patch)
    twice = merge(once, patch)

    def flat(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: flat(v) for k, v in value.items()}
        if isinstance(value, list):
            return sorted(map(str, map(flat, value)))
        return value

    assert flat(twice) == flat(once)
