"""The CRDs and reading say the same: what is accepted from a file is accepted by the API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from policies import reading
from policies.document import KINDS
from policies.reading.exception import SPEC as EXCEPTION_SPEC
from policies.reading.policy import SPEC as POLICY_SPEC
from scripts import crds
from tests.policies.documents import Json, changed, complete
from tests.policies.structural import mistakes

DEFINITIONS = {crd["spec"]["names"]["kind"]: crd for crd in crds.definitions()}
SCHEMAS: dict[str, Json] = {
    kind: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for kind, crd in DEFINITIONS.items()
}
ROOT: Json = {"metadata": {"properties": {"name": {}, "namespace": {}}}}


def schema_of(kind: str) -> Json:
    """With what the API server knows of metadata."""
    schema = SCHEMAS[kind]
    return {**schema, "properties": {**schema["properties"], **ROOT}}


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from nodes(schema[key], path + suffix)


def test_the_files_are_those_that_the_script_writes() -> None:
    for path, text in crds.files().items():
        assert path.read_text("utf-8") == text, f"{path.name}: python -m scripts.crds"


def test_the_chart_has_the_same_kinds_but_for_its_own_metadata() -> None:
    """Without helm: its directives stand on lines of their own."""
    for path, text in crds.files().items():
        if path.parent == crds.CHART:
            lines = [line for line in text.splitlines() if "{{" not in line]
            crd = yaml.safe_load("\n".join(lines))
            assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
            assert crd["metadata"].pop("labels") is None
            assert crd == DEFINITIONS[crd["spec"]["names"]["kind"]]


def test_each_kind_has_one() -> None:
    assert tuple(DEFINITIONS) == KINDS
    for crd in DEFINITIONS.values():
        names = crd["spec"]["names"]
        assert crd["metadata"]["name"] == f"{names['plural']}.stationmaster.dev"
        assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", KINDS)
def test_reading_and_the_schema_know_the_same_fields(kind: str) -> None:
    known = EXCEPTION_SPEC if kind == "PolicyException" else POLICY_SPEC

    assert set(SCHEMAS[kind]["properties"]["spec"]["properties"]) == set(known)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_bounded_so_that_rules_have_a_cost(kind: str) -> None:
    for path, node in nodes(SCHEMAS[kind]["properties"]["spec"]):
        if node.get("type") == "array":
            assert "maxItems" in node, path
            assert "x-kubernetes-list-type" in node, path
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path


@pytest.mark.parametrize("raw", complete(), ids=KINDS)
def test_a_complete_document_says_every_field_of_the_schema(raw: Json) -> None:
    said: set[str] = set()

    def walk(schema: Json, value: Any, path: str) -> None:
        said.add(path)
        for name, below in schema.get("properties", {}).items():
            if isinstance(value, dict) and name in value:
                walk(below, value[name], f"{path}.{name}")
        if isinstance(value, list):
            for item in value:
                walk(schema["items"], item, f"{path}[]")

    schema = SCHEMAS[raw["kind"]]["properties"]["spec"]
    walk(schema, raw["spec"], "")
    known = {
        path
        for path, _ in nodes(schema)
        if "{}" not in path and not path.startswith((".defaults.", ".overrides."))
    }
    alone = {".params.value", ".overrides"}  # beside a ConfigMap; in a namespaced policy
    elsewhere = {path for path in known if "Selector" in path or path.startswith(".match")}
    assert known - said - alone - elsewhere == set()
    assert mistakes(schema_of(raw["kind"]), raw) == []


@pytest.mark.slow
def test_what_reading_accepts_the_schema_accepts() -> None:
    dice = Random(7)
    accepted = refused = 0
    for _ in range(4000):
        raw = changed(dice)
        found = mistakes(schema_of(raw["kind"]), raw)
        read = reading.read(raw)
        if read.document is not None:
            accepted += 1
            assert found == [], raw
        elif found:
            refused += 1
    assert accepted > 300
    assert refused > 1000


MISTAKES = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text("utf-8"))


def test_the_api_server_finds_most_mistakes_by_itself() -> None:
    """The rest is for the webhook that is called for our kinds, and for lint."""
    found = [
        case["name"]
        for case in MISTAKES
        if "kind" in case
        and not mistakes(SCHEMAS[case["kind"]]["properties"]["spec"], case["spec"])
    ]

    assert len(found) < len(MISTAKES) / 3
