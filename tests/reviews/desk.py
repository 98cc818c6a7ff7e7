"""Sends AdmissionReviews to a Reviewer as bytes, and reads the answers as a strict API server would.

    desk = Desk.of(make_runtime().torch().node())
    reply = desk.mutate(create(make_train_job().obj))
    reply.allowed, reply.patch, reply.after

Every answer is held to the contract of ``admission.k8s.io/v1`` on the way: the uid, ``patch`` and
``patchType`` together, base64 of a list of plain operations, a refusal that can be read, warnings that fit.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import jsonpatch
import orjson

from plugins.framework import lines, profile
from plugins.framework.api import names
from plugins.framework.cluster import Snapshot
from plugins.framework.pipeline import Pipeline
from plugins.registry import in_tree, registry
from tests.builders import Builder, Json
from webhook.mode import Position
from webhook.review import ENFORCING, Answer, Phase, Reviewer

USER: Final = "alice@example.com"
KUEUE: Final = "system:serviceaccount:kueue-system:kueue-controller-manager"
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACE_CONTROLLER: Final = "system:serviceaccount:kube-system:namespace-controller"
TRAINER: Final = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"

WHOLE_BUDGET: Final = 4096
"""Characters of all warnings together that the API server passes on."""
ONE_WARNING: Final = 256

PHASES: Final[tuple[Phase, ...]] = ("mutate", "validate")

_uids = count(1)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer, with what the API server makes of it."""

    answer: Answer
    response: Json
    sent: Json | None
    """The object in the review."""
    patch: list[Json] | None
    """None where the answer carries no patch."""

    @property
    def allowed(self) -> bool:
        return self.response["allowed"] is True

    @property
    def warnings(self) -> list[str]:
        found: list[str] = self.response.get("warnings", [])
        return found

    @property
    def status(self) -> Json:
        found: Json = self.response["status"]
        return found

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Path and cause type of each finding; none where the object is allowed."""
        causes = self.response.get("status", {}).get("details", {}).get("causes", [])
        return [(cause.get("field", ""), cause["reason"]) for cause in causes]

    @property
    def message(self) -> str:
        """What a refusal says; empty where the object is allowed."""
        return str(self.response.get("status", {}).get("message", ""))

    @property
    def after(self) -> Json:
        """The object with the patch applied."""
        assert self.allowed, self.message
        return apply(self.sent, self.patch)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A Reviewer, and a snapshot that a test may exchange."""

    snapshot: list[Snapshot]
    pipeline: Pipeline
    line: str | None
    clock: list[float] = field(default_factory=lambda: [0.0])
    switch: Position = ENFORCING

    @classmethod
    def of(
        cls,
        *objects: Builder | Json,
        line: str | None = "2.3",
        profile_document: Json | None = None,
    ) -> Desk:
        """A desk in a cluster that holds these objects. ``line`` None lets the Reviewer find out."""
        return cls(
            snapshot=[snapshot_of(*objects)], pipeline=pipeline_of(profile_document), line=line
        )

    @property
    def reviewer(self) -> Reviewer:
        return Reviewer(
            self.pipeline,
            lambda: self.snapshot[0],
            line=lines.LINES[self.line] if self.line else None,
            clock=lambda: self.clock[0],
            switch=self.switch,
        )

    def swap(self, *objects: Builder | Json) -> None:
        """Have the cluster hold these objects from now on."""
        self.snapshot[0] = snapshot_of(*objects)

    def mutate(self, review: Json) -> Reply:
        """POST to ``/mutate``."""
        return self.post("mutate", review)

    def validate(self, review: Json) -> Reply:
        """POST to ``/validate``."""
        return self.post("validate", review)

    def post(self, phase: Phase, review: Json, *, deadline: float = 1.0) -> Reply:
        """Send a review as bytes, read the answer, and hold it to the contract."""
        body = orjson.dumps(review)
        reviewer = self.reviewer
        call = reviewer.mutate if phase == "mutate" else reviewer.validate
        return read(phase, review, asyncio.run(call(body, deadline=deadline)))


def snapshot_of(*objects: Builder | Json) -> Snapshot:
    """A cluster of these objects; runtimes meet the API server's rules first."""
    return Snapshot.of((o.obj if isinstance(o, Builder) else o for o in objects), admit=True)


def pipeline_of(document: Json | None = None) -> Pipeline:
    """The Pipeline of a profile, given without its head; None is the built-in one."""
    in_order = [spec.name for spec in in_tree()]
    if document is None:
        return Pipeline(registry(), profile.default(in_order))
    whole = {"apiVersion": profile.API_VERSION, "kind": profile.KIND, **document}
    return Pipeline(registry(), profile.decode(whole, in_order))


def read(phase: Phase, review: Json, answer: Answer) -> Reply:
    """The answer as the API server reads it; an AssertionError where it would not take it."""
    document = orjson.loads(answer.body)
    assert document.keys() == {"apiVersion", "kind", "response"}
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert document["kind"] == "AdmissionReview"
    response = document["response"]
    assert response.keys() <= {
        *("uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations")
    }
    assert response["uid"] == review["request"]["uid"]
    assert type(response["allowed"]) is bool
    _check_warnings(response)
    if not response["allowed"]:
        _check_refusal(response)
    return Reply(
        answer=answer,
        response=response,
        sent=review["request"].get("object"),
        patch=_patch_of(phase, review, response),
    )


def _check_warnings(response: Json) -> None:
    if "warnings" not in response:
        return
    warnings = response["warnings"]
    assert warnings, "an empty list says nothing"
    assert all(0 < len(warning) <= ONE_WARNING and warning.isprintable() for warning in warnings)
    assert sum(map(len, warnings)) <= WHOLE_BUDGET
    assert len(set(warnings)) == len(warnings)


def _check_refusal(response: Json) -> None:
    status = response["status"]
    assert (status["code"], status["reason"]) in {(422, "Invalid"), (403, "Forbidden")}
    assert status["status"] == "Failure"
    causes = status["details"]["causes"]
    assert status["details"]["kind"], "kubectl would call it `request`"
    assert causes, "`Invalid` without causes prints nothing"
    for cause in causes:
        assert cause["message"] in status["message"], "the SDK shows the message alone"
        assert cause.get("field", "") in status["message"]
    assert all(c.isprintable() or c == "\n" for c in status["message"])


def _patch_of(phase: Phase, review: Json, response: Json) -> list[Json] | None:
    assert ("patch" in response) == ("patchType" in response)
    if "patch" not in response:
        return None
    assert phase == "mutate", "a validating webhook may not patch"
    assert response["allowed"], "a refusal needs no patch"
    assert review["request"]["operation"] in {"CREATE", "UPDATE"}
    assert response["patchType"] == "JSONPatch"
    patch: list[Json] = orjson.loads(base64.b64decode(response["patch"], validate=True))
    assert patch, "an empty patch is no patch"
    for operation in patch:
        assert operation["op"] in {"add", "replace", "remove"}
        assert ("value" in operation) == (operation["op"] != "remove")
    return patch


def apply(raw: Json | None, patch: list[Json] | None) -> Json:
    """Apply a patch as RFC 6902 says; raises where the API server would answer 500."""
    assert raw is not None
    applied: Json = jsonpatch.apply_patch(deepcopy(raw), patch or [])
    return applied


# Reviews


def create(obj: Json, **changes: Any) -> Json:
    """The review of a new object."""
    return review(obj, None, **changes)


def update(old: Json, new: Json, **changes: Any) -> Json:
    """The review of an object that changes."""
    return review(new, old, **changes)


def delete(old: Json, **changes: Any) -> Json:
    """The review of an object that goes."""
    return review(None, old, operation="DELETE", **changes)


def review(
    obj: Json | None,
    old: Json | None,
    *,
    operation: str = "",
    user: str = USER,
    subresource: str = "",
    **changes: Any,
) -> Json:
    """A review as the API server would send it; ``changes`` are further keys of ``request``."""
    about = obj or old or {}
    kind = str(about.get("kind", names.TRAIN_JOB))
    group, _, version = str(about.get("apiVersion", names.API_VERSION)).partition("/")
    metadata: Mapping[str, Any] = about.get("metadata") or {}
    words = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    operation = operation or ("CREATE" if old is None else "UPDATE")
    request = {
        "uid": f"u-{next(_uids)}",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": f"{kind.lower()}s"},
        "operation": operation,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": deepcopy(obj),
        "oldObject": deepcopy(old),
        "dryRun": False,
        "options": {"kind": words.get(operation, ""), "apiVersion": "meta.k8s.io/v1"},
        **changes,
    }
    if subresource:
        request["subResource"] = subresource
    if "namespace" in metadata:
        request.setdefault("namespace", metadata["namespace"])
    if "name" in metadata:
        request.setdefault("name", metadata["name"])
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
