"""Objects to compare ourselves on: grown at random from a table, and then damaged.

The same seed gives the same cases.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

from plugins.framework.schema import API_VERSION, Schemas, load
from plugins.framework.schema.node import Node

WORDS: Final = (
    "node",
    "a",
    "b-c",
    "launcher",
    "x.y/z",
    "dataset-initializer",
    "",
    "Ready",
    "auto",
    "InOrder",
    "AnyOrder",
)
QUANTITIES: Final = (
    "1",
    "500m",
    "1Gi",
    "0.5",
    "1e3",
    "-1",
    "+2",
    ".5",
    "1.50",
    "0.5Gi",
    "100000m",
    2,
    0,
    "12E",
)
NOT_QUANTITIES: Final = ("", "1 Gi", "x", "1gi", "--1", "1\n", "1e")
JUNK: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2.5,
    3.0,
    2**31,
    -(2**40),
    2**53 + 1,
    1e300,
    "",
    "x",
    "2",
    [],
    [None],
    ["x"],
    [1, {"a": None}],
    {},
    {"a": 1},
    {"a": None},
)


class Grower:
    """Grows objects of one line."""

    def __init__(self, schemas: Schemas, seed: str) -> None:
        """Begin at ``seed``."""
        self.schemas = schemas
        self.random = random.Random(seed)  # noqa: S311  # cases, not keys
        self.in_status = False

    def root(self, kind: str, density: float) -> dict[str, Any]:
        """One object, nearly right; ``density`` is the share of optional fields that it has."""
        facts = self.schemas._kinds[kind]  # noqa: SLF001  # a development script looks behind the face
        obj: dict[str, Any] = {"apiVersion": API_VERSION, "kind": kind, "metadata": self._meta()}
        for name, node in facts.root.properties.items():
            self.in_status = name == "status"
            if name not in {"apiVersion", "kind", "metadata"} and self.random.random() < 0.97:
                obj[name] = self.value(node, name, density)
        return obj

    def _meta(self) -> dict[str, Any]:
        r = self.random
        meta: dict[str, Any] = {"name": r.choice(("a", "job-1", "a" * 63)), "namespace": "default"}
        if r.random() < 0.1:
            meta = {"generateName": r.choice(("x-", "abc", "a" * 70, "9x-", "X"))}
        if r.random() < 0.15:
            meta["name"] = r.choice(("a" * 64, "9a", "a.b", "A", "a-", "-", "a_b", "x" * 254, ""))
        if r.random() < 0.3:
            meta["labels"] = {
                r.choice(("a", "x.y/z", "/a", "a/", "a/b/c", "-", "a" * 64)): r.choice(
                    ("", "v", "-v", "a b", "v" * 64)
                )
            }
        if r.random() < 0.2:
            meta["annotations"] = {
                r.choice(("a", "X.y/Z", "", "a/b/c")): "v" * r.choice((0, 1, 262144))
            }
        if r.random() < 0.1:
            meta["finalizers"] = r.choice((["orphan", "foregroundDeletion"], ["a.b/c"], ["-"], []))
        if r.random() < 0.1:
            meta["ownerReferences"] = r.choice(
                (
                    [{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "y"}],
                    [{"apiVersion": "", "kind": "", "name": "x"}],
                    [
                        {"apiVersion": "a/v1", "kind": "K", "name": n, "uid": n, "controller": True}
                        for n in "ab"
                    ],
                )
            )
        if r.random() < 0.1:
            meta[
                r.choice(
                    (
                        "labels",
                        "annotations",
                        "finalizers",
                        "generation",
                        "name",
                        "creationTimestamp",
                        "foo",
                    )
                )
            ] = r.choice(JUNK)
        return meta

    def value(self, node: Node, name: str, density: float) -> Any:
        """A value for one place."""
        r = self.random
        match node.kind:
            case "o" if node.values is not None:
                return {
                    r.choice(("a", "cpu", "memory", "nvidia.com/gpu")): self.value(
                        node.values, name, density
                    )
                    for _ in range(r.choice((0, 1, 1, 2)))
                }
            case "o":
                return {
                    sub_name: self.value(sub, sub_name, density * 0.93)
                    for sub_name, sub in node.properties.items()
                    if r.random() < (0.98 if sub_name in node.required else density)
                }
            case "a":
                most = r.choice((0, 1, 1, 2, 3)) if density > 0.05 else r.choice((0, 1, 1))
                if r.random() < 0.01 and node.max_items and node.items and node.items.kind == "s":
                    most = node.max_items + 1
                return (
                    [self.value(node.items, name, density) for _ in range(most)]
                    if node.items
                    else []
                )
            case "s":
                return self._string(node, name)
            case "i":
                return r.choice(
                    (0, 1, 2, 3, 10, -1, 100, 2**31 - 1, 2**31) if r.random() < 0.3 else (1, 2, 5)
                )
            case "x":
                return r.choice(QUANTITIES if r.random() < 0.9 else NOT_QUANTITIES)
            case "b":
                return r.random() < 0.5
            case _:
                return 1.5

    def _string(self, node: Node, name: str) -> str:
        r = self.random
        if node.enum:
            word: str = r.choice((*node.enum, *node.enum, "other"))
            return word
        if node.pattern:
            return r.choice(("Complete", "1Gi", "bad value", "1"))
        if name == "managedBy":
            return r.choice(
                (
                    "trainer.kubeflow.org/trainjob-controller",
                    "kueue.x-k8s.io/multikueue",
                    "kueue.x-k8s.io/multikueue",
                    "x",
                )
            )
        if name == "storageUri":
            return r.choice(("", "s3://a/b", "hf://x", "nope", "s3://", "s3://a\n"))
        if node.format == "date-time":
            # Not in the status: a rule about it fails on a wrong time even where nothing changed, but a wrong
            # time cannot have been stored.
            return r.choice(
                ("2024-01-01T00:00:00Z",) * 2 + ("yesterday", "") * (not self.in_status)
            )
        if node.max_length is not None and r.random() < 0.02 and node.max_length < 600:
            return "é" * (node.max_length + 1)
        return r.choice(WORDS)

    def damaged(self, obj: dict[str, Any], times: int) -> dict[str, Any]:
        """A copy with something wrong in ``times`` places."""
        obj = copy.deepcopy(obj)
        for _ in range(times):
            places = list(_places(obj, 0))
            if not places:
                break
            holder, key = self.random.choice(places)
            match self.random.randrange(7):
                case 0 | 1 | 2:
                    holder[key] = copy.deepcopy(self.random.choice(JUNK))
                case 3 if isinstance(holder, dict):
                    holder[
                        self.random.choice(("foo", "$patch", "spec", "", "Name", "metadata"))
                    ] = self.random.choice(JUNK)
                case 4 if isinstance(holder, list):
                    holder.append(copy.deepcopy(holder[key]))
                case 5:
                    del holder[key]
                case _:
                    holder[key] = None
        return obj

    def changed(self, node: Node, obj: Any, density: float) -> Any:
        """A copy in which a few subtrees have grown anew, list-maps turned round, or fields gone."""
        r = self.random
        if isinstance(obj, dict) and node.kind == "o" and node.values is None:
            out = {}
            for name, value in obj.items():
                sub = node.properties.get(name)
                if sub is None or name in {"apiVersion", "kind", "metadata"}:
                    out[name] = value
                elif r.random() < 0.06:
                    out[name] = self.value(sub, name, density)
                elif r.random() > 0.02:
                    out[name] = self.changed(sub, value, density)
            return out
        if isinstance(obj, list) and node.items is not None:
            items = [self.changed(node.items, item, density) for item in obj]
            if r.random() < 0.15:
                items.reverse()
            return items
        return obj


def _places(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        if depth == 0 and key in {"apiVersion", "kind"}:
            continue
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key], depth + 1)


def cases(line: str, count: int, seed: str) -> Iterator[dict[str, Any]]:
    """``count`` cases of one line: creates and updates of all kinds, more of TrainJobs."""
    schemas = load(line)
    grower = Grower(schemas, f"{seed}/{line}")
    r = grower.random
    for _ in range(count):
        kind = r.choice(("TrainJob", "TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"))
        density = (
            r.choice((0.03, 0.1, 0.2, 0.35, 0.5))
            if kind == "TrainJob"
            else r.choice((0.02, 0.05, 0.1, 0.15))
        )
        obj = grower.root(kind, density)
        case: dict[str, Any] = {"line": line, "kind": kind, "obj": obj}
        if r.random() < 0.35:
            root = schemas._kinds[kind].root  # noqa: SLF001  # as above
            obj["metadata"] = {"name": "a"} | {
                k: v
                for k, v in obj["metadata"].items()
                if k in {"name", "labels"} and v and v not in JUNK
            }
            case["old"], case["obj"] = obj, grower.changed(root, obj, density)
        if r.random() < 0.55:
            case["obj"] = grower.damaged(case["obj"], r.choice((1, 1, 2, 4)))
        yield case
