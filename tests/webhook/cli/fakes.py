"""An engine in the place of ``webhook.offline``: says what the test tells it to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugins.framework.field import Findings
from webhook.asked import Asked
from webhook.yamlio import Document

UID = "00000000-0000-0000-0000-000000000000"


@dataclass(kw_only=True)
class Outcome:
    allowed: bool = True
    findings: Findings = field(default_factory=Findings)
    kind: str = "TrainJob"
    namespace: str = "team"
    name: str = "a"
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    patch: list[dict[str, Any]] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)

    @property
    def review(self) -> dict[str, Any]:
        response = {"uid": UID, "allowed": self.allowed, "warnings": self.findings.warnings}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        }


@dataclass(kw_only=True)
class Row:
    name: str = "node"
    ancestor: str = "trainer"
    count: int = 2
    per_pod: dict[str, str] = field(default_factory=lambda: {"memory": "1Gi", "cpu": "4"})
    total: dict[str, str] = field(default_factory=lambda: {"memory": "2Gi", "cpu": "8"})


@dataclass(kw_only=True)
class Rendered:
    objects: list[dict[str, Any]] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    pod_sets: list[Row] = field(default_factory=list)
    members: int = 0
    resources: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Change:
    path: tuple[str | int, ...]
    by: str
    before: Any
    after: Any


@dataclass(kw_only=True)
class Layer:
    path: str
    value: Any
    layer: str
    by: str


@dataclass(kw_only=True)
class Explained:
    outcome: Outcome = field(default_factory=Outcome)
    layers: list[Layer] = field(default_factory=list)
    policies: list[Any] = field(default_factory=list)
    unread: dict[Any, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Converted:
    obj: dict[str, Any]
    findings: Findings = field(default_factory=Findings)


def complete(document: Document, _old: Document | None) -> Outcome:
    """The answer of an engine that finds nothing wrong, and sets numNodes."""
    obj = document.obj
    after = {**obj, "spec": {**obj.get("spec", {}), "trainer": {"numNodes": 1}}}
    return Outcome(
        name=obj.get("metadata", {}).get("name", ""),
        before=obj,
        after=after,
        patch=[{"op": "add", "path": "/spec/trainer", "value": {"numNodes": 1}}],
    )


@dataclass
class Engine:
    """Stands in for the module ``webhook.offline`` and for the Offline that it loads."""

    on_admit: Callable[[Document, Document | None], Outcome] = complete
    on_render: Callable[[Document, bool], Rendered] = lambda _d, _a: Rendered()
    on_explain: Callable[[Document], Explained] = lambda _d: Explained()
    on_convert: Callable[[Document, str], Converted] = lambda d, _to: Converted(obj=d.obj)
    loaded: tuple[list[Document], str | None, Path | None] | None = None
    pod_groups: bool = False
    asked: Asked | None = None
    all_parts: bool = False
    old: list[Document | None] = field(default_factory=list)

    def load(
        self,
        documents: list[Document],
        *,
        line: str | None,
        profile: Path | None,
        pod_groups: bool = False,
        asked: Asked | None = None,
    ) -> Engine:
        self.loaded = (documents, line, profile)
        self.asked = asked
        self.pod_groups = pod_groups
        return self

    def admit(self, document: Document, old: Document | None = None) -> Outcome:
        self.old.append(old)
        return self.on_admit(document, old)

    def render(self, document: Document, *, admitted: bool = False) -> Rendered:
        return self.on_render(document, admitted)

    def explain(
        self, document: Document, old: Document | None = None, *, all_parts: bool = False
    ) -> Explained:
        self.old.append(old)
        self.all_parts = all_parts
        return self.on_explain(document)

    def convert(self, document: Document, to: str) -> Converted:
        return self.on_convert(document, to)
