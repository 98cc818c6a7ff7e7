"""The CEL rules of the TrainJob and runtime APIs, written by hand.

The tables say where which rule stands; ``RULES`` holds, for the text of each rule, what it comes to in Python. A
test compares the two, so that no rule of any line can be forgotten. The walk is that of
``pkg/apiserver/schema/cel/validation.go``: a rule about ``oldSelf`` counts only where there is an old value to
compare with, any other only where the value changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from plugins.framework.field import ErrorType, FieldError, Path
from plugins.framework.schema.check import MOST_ERRORS
from plugins.framework.schema.node import OPEN_API_TYPES, Node, Rule
from plugins.framework.schema.walk import ABSENT, Place, below, same

_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+\Z")
_SUFFIX: Final = "00000"
"""Stands for the five characters that the API server adds to ``generateName``."""
_LONGEST_PREFIX: Final = 63 - len(_SUFFIX)
"""What the API server keeps of ``generateName`` (``k8s.io/apiserver/pkg/storage/names/generate.go``)."""


class NoSuchKey(Exception):
    """A rule read a field that is not there; CEL calls the rule failed, with these words."""


class NoSuchOverload(Exception):
    """A rule compared what cannot be compared."""


class RuleError(FieldError):
    """A failed rule about an object or a list: ``Invalid value: <message>``, without a value.

    The API server omits such values (``field.OmitValueType``).
    """

    @property
    def body(self) -> str:
        """The message without the path."""
        return f"{self.type.text}: {self.detail}"


def _unchanged(_self: Any) -> bool:
    # Asked only where there is an old value and it differs; see _Walk.visit.
    return False


def _name_is_label(self: Any) -> bool:
    return _LABEL_1035.match(_name(self)) is not None


def _name_is_short(self: Any) -> bool:
    return len(_name(self)) <= 63


def _name(root: Any) -> str:
    meta = root.get("metadata", {})
    name: str = meta.get("name") or meta.get("generateName", "")[:_LONGEST_PREFIX] + _SUFFIX
    return name


def _empty_or_uri(self: Any) -> bool:
    return self == "" or _URI.match(self) is not None


def _known_manager(self: Any) -> bool:
    return self in {"trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"}


def _torch_or_mpi(self: Any) -> bool:
    return not ("torch" in self and "mpi" in self)


def _one_policy(self: Any) -> bool:
    return sum(name in self for name in ("torch", "mpi", "jax", "xgboost", "flux")) <= 1


def _nodes_or_elastic(self: Any) -> bool:
    return not ("numNodes" in self and "torch" in self and "elasticPolicy" in self["torch"])


def _positive(self: Any) -> bool:
    return bool(self >= 1)


def _no_node(self: Any) -> bool:
    return "node" not in self


def _positive_or_word(self: Any) -> bool:
    if type(self) is not str:
        return bool(self > 0)
    if self not in {"auto", "cpu", "gpu"}:
        raise NoSuchOverload
    return True


def _order_or_depends_on(self: Any) -> bool:
    if self.get("startupPolicy", {}).get("startupPolicyOrder") != "InOrder":
        return True
    if "replicatedJobs" not in self:
        raise NoSuchKey("replicatedJobs")
    return not any("dependsOn" in job for job in self["replicatedJobs"])


def _no_claim_namespace(self: Any) -> bool:
    if "templates" not in self:
        raise NoSuchKey("templates")
    if any(template.get("metadata", {}).get("namespace") for template in self["templates"]):
        return False
    if not all("metadata" in template for template in self["templates"]):
        raise NoSuchKey("metadata")
    return True


def _has_last_updated_time(self: Any) -> bool:
    return "lastUpdatedTime" in self


UNCHANGED: Final = "self == oldSelf"
RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    UNCHANGED: _unchanged,
    "size(self.metadata.name) <= 63": _name_is_short,
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')": _name_is_label,
    "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')": _empty_or_uri,
    "self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']": _known_manager,
    "!(has(self.torch) && has(self.mpi))": _torch_or_mpi,
    "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost),has(self.flux)].filter(x, x).size() <= 1": (
        _one_policy
    ),
    "!(has(self.numNodes) && (has(self.torch) && has(self.torch.elasticPolicy)))": _nodes_or_elastic,
    "self >= 1": _positive,
    "!self.exists(c, c == 'node')": _no_node,
    "self > 0 || self in ['auto', 'cpu', 'gpu']": _positive_or_word,
    "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && "
    "self.replicatedJobs.exists(x, has(x.dependsOn)))": _order_or_depends_on,
    "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)": _no_claim_namespace,
    "has(self.lastUpdatedTime)": _has_last_updated_time,
}


def breaches(root: Node, obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
    """All rules that ``obj`` breaks, given that its schema is kept."""
    walk = _Walk()
    meta = obj.get("metadata", {})
    # The rules of the root are about the name, which is where we say so; the API server names no field.
    path = Path("metadata", "name" if meta.get("name") else "generateName")
    for rule in root.rules:
        if path[-1] in meta and not RULES[rule.rule](obj):
            walk.add(ErrorType.INVALID, path, meta.get(path[-1]), rule.message)
    for place in below((root, obj, Path(), ABSENT if old is None else old), _has_rules):
        walk.visit(place)
    return walk.errors


def _has_rules(node: Node) -> bool:
    return node.has_rules


class _Walk:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def add(self, kind: ErrorType, path: Path, value: Any, detail: str) -> None:
        if len(self.errors) < MOST_ERRORS:
            error = RuleError if type(value) in {dict, list} else FieldError
            self.errors.append(error(type=kind, path=path, value=value, detail=detail))

    def visit(self, place: Place) -> None:
        node, value, path, old = place
        if len(self.errors) >= MOST_ERRORS or (old is not ABSENT and same(node, value, old)):
            return
        for rule in node.rules:
            if rule.rule != UNCHANGED or old is not ABSENT:
                self._apply(rule, node, value, path)
        for sub in below(place, _has_rules):
            self.visit(sub)

    def _apply(self, rule: Rule, node: Node, value: Any, path: Path) -> None:
        shown: Any = "" if node.kind == "x" else OPEN_API_TYPES[node.kind]
        try:
            if not RULES[rule.rule](value):
                self.add(ErrorType.INVALID, path, value, rule.message)
        except NoSuchKey as e:
            self.add(
                ErrorType.INVALID, path, shown, f"no such key: {e} evaluating rule: {rule.message}"
            )
        except (
            NoSuchOverload,
            AttributeError,
            TypeError,
        ):  # the latter: an old part of a wrong type
            words = "call arguments did not match a supported operator, function or macro signature for rule"
            self.add(ErrorType.INVALID, path, shown, f"'no such overload': {words}: {rule.message}")
