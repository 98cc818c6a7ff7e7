"""Derive the tables of API facts in ``plugins/framework/tables`` from the Trainer's own CRDs.

Run ``python -m scripts.facts.tables``; it needs Go, which finds (and, the first time, downloads) the Trainer
module of each line. ``--check`` writes nothing and fails when a table on disk is not what would be written.

A table is ``{"rules": [[rule, message], ...], "kinds": {kind: [spec node, status node or null]}, "nodes": [...]}``. A node is
one schema with its children replaced by their numbers; equal nodes are stored once, so the three kinds, and the many
places where a volume or a container may stand, share their parts. The keys of a node are explained in
``plugins/framework/schema/node.py``, which reads them.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

import yaml

from scripts.facts.go import LINES, TABLES, keep_or_check, module_folder

PLURALS: Final = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")

TYPES: Final = {
    "object": "o",
    "array": "a",
    "string": "s",
    "integer": "i",
    "boolean": "b",
}

# CRD keyword -> key of the node, for what is copied as it stands.
COPIED: Final = {
    "required": "r",
    "default": "d",
    "enum": "n",
    "minimum": "ge",
    "maximum": "le",
    "pattern": "m",
    "minLength": "lmin",
    "maxLength": "lmax",
    "minItems": "imin",
    "maxItems": "imax",
    "minProperties": "pmin",
    "format": "f",
    "x-kubernetes-list-map-keys": "k",
}

# Keywords that are dealt with by name below, or that say nothing to a checker.
KNOWN: Final = {
    *COPIED,
    "type",
    "description",
    "properties",
    "items",
    "additionalProperties",
    "anyOf",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
}
KNOWN_OF_RULE: Final = {"rule", "message"}


def crds(line: str) -> list[dict[str, Any]]:
    """The Trainer's CustomResourceDefinitions of this line."""
    folder = module_folder(line) / "manifests" / "base" / "crds"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    return [
        yaml.load((folder / f"trainer.kubeflow.org_{plural}.yaml").read_text(), Loader=loader)  # noqa: S506  # either is safe
        for plural in PLURALS
    ]


class Table:
    """One line's table while it grows."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[dict[str, Any]] = []
        self.rules: list[list[str]] = []
        self._numbers: dict[str, int] = {}

    def add(self, schema: dict[str, Any], where: str) -> int:
        """The number of the node for ``schema``, which is stored if it is new."""
        unknown = set(schema) - KNOWN
        if unknown:
            sys.exit(f"{where}: keywords that the reader does not know: {sorted(unknown)}")
        node: dict[str, Any] = {"t": self._type(schema, where)}
        for keyword, key in COPIED.items():
            if keyword in schema:
                node[key] = schema[keyword]
        if schema.get("x-kubernetes-list-type") == "set":
            node["k"] = []
        if "properties" in schema:
            node["p"] = {
                name: self.add(sub, f"{where}.{name}")
                for name, sub in sorted(schema["properties"].items())
            }
        if "items" in schema:
            node["e"] = self.add(schema["items"], f"{where}[]")
        if "additionalProperties" in schema:
            node["a"] = self.add(schema["additionalProperties"], f"{where}{{}}")
        if "x-kubernetes-validations" in schema:
            node["v"] = [self._rule(rule, where) for rule in schema["x-kubernetes-validations"]]
        text = json.dumps(node, sort_keys=True)
        if text not in self._numbers:
            self._numbers[text] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[text]

    def _type(self, schema: dict[str, Any], where: str) -> str:
        if schema.get("x-kubernetes-int-or-string"):
            if schema["anyOf"] != [{"type": "integer"}, {"type": "string"}]:
                sys.exit(f"{where}: an int-or-string of an unknown form")
            return "x"
        if "anyOf" in schema:
            sys.exit(f"{where}: anyOf outside int-or-string")
        return TYPES[schema["type"]]

    def _rule(self, rule: dict[str, str], where: str) -> int:
        if set(rule) != KNOWN_OF_RULE:
            sys.exit(f"{where}: a rule of an unknown form: {rule}")
        pair = [rule["rule"], rule["message"]]
        if pair not in self.rules:
            self.rules.append(pair)
        return self.rules.index(pair)


def table(line: str) -> dict[str, Any]:
    """The whole table of one line."""
    grown = Table()
    kinds: dict[str, Any] = {}
    for crd in crds(line):
        (version,) = crd["spec"]["versions"]
        kind = crd["spec"]["names"]["kind"]
        root = dict(version["schema"]["openAPIV3Schema"])
        if root["properties"].get("metadata") != {"type": "object"}:
            sys.exit(f"{kind}: rules for metadata in the schema")
        kinds[kind] = {
            "root": grown.add(root, kind),
            "namespaced": crd["spec"]["scope"] == "Namespaced",
            "status": "status" in version.get("subresources", {}),
        }
    return {"kinds": kinds, "nodes": grown.nodes, "rules": grown.rules}


def main() -> int:
    """Write the tables, or compare them with those on disk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    same = [
        keep_or_check(TABLES / f"schema-{line}.json", table(line), check=check) for line in LINES
    ]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
