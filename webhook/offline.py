"""The same Pipeline over files: what ``admit``, ``render``, ``explain`` and ``convert`` print.

A file has met no API server, so an object from one first meets here what it would meet there (``schema``), and
the answer is what the API server and Stationmaster would say together. An AdmissionReview from a file has met
the API server, and goes straight to the Reviewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from plugins.framework import generations, lines, quantity, schema, totals, values
from plugins.framework.api import names
from plugins.framework.api.admission import AdmissionRequest, UserInfo
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.cluster import (
    Snapshot,
    document_key,
    is_document,
    is_meant_as_document,
)
from plugins.framework.context import Context
from plugins.framework.errors import BadReview, BuildError, ConfigError
from plugins.framework.field import Findings, show
from plugins.framework.pipeline import Pipeline, Result
from webhook import review
from webhook.asked import Asked
from webhook.assembly import build_pipeline, platform_policy
from webhook.podgroups import Documents
from webhook.provenance import Layer, layers_of

if TYPE_CHECKING:
    from plugins.framework.api.admission import UserInfo
    from plugins.framework.draft import Change
    from plugins.framework.field import FieldError
    from plugins.framework.info import Info
    from plugins.framework.lines import Line
    from policies.cel import Answers
    from policies.compile import PolicySet
    from policies.document import Key
    from policies.explaining import Asks, Explanation
    from policies.matching import Creator
    from policies.strikes import Strikes
    from policies.trace import Trace
    from webhook.evaluation import Evaluation
    from webhook.yamlio import Document

ASKED: Final = Asked()
UID: Final = "00000000-0000-0000-0000-000000000000"
"""The uid of the review that stands for a plain object: the same input gives the same bytes."""


_RESOURCES: Final = {
    names.TRAIN_JOB: "trainjobs",
    names.TRAINING_RUNTIME: "trainingruntimes",
    names.CLUSTER_TRAINING_RUNTIME: "clustertrainingruntimes",
}
_GENERATIONS: Final = ("podSpecOverrides", "podTemplateOverrides", "runtimePatches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What admission makes of one document."""

    kind: str
    namespace: str
    name: str
    allowed: bool
    findings: Findings
    before: dict[str, Any] | None
    """The object as it was sent, after the API server's pruning and defaults."""
    after: dict[str, Any] | None
    """The completed object; None for a DELETE."""
    patch: list[dict[str, Any]]
    review: dict[str, Any]
    """The AdmissionReview that answers."""
    changes: list[Change]
    calls: tuple[Result, ...] = ()
    """What the mutating and then the validating call came to; the latter is not asked about what the former refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetRow:
    """One line of the table of ``render``."""

    name: str
    ancestor: str
    count: int
    per_pod: dict[str, str]
    total: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What the controller would create for one TrainJob."""

    name: str
    namespace: str
    objects: list[dict[str, Any]]
    findings: Findings
    pod_sets: list[PodSetRow] = field(default_factory=list)
    members: int = 0
    resources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Who decided what about one document."""

    outcome: Outcome
    layers: list[Layer]
    policies: list[Explanation] = field(default_factory=list)
    """Every policy, and why it did what it did; empty where none was asked."""
    unread: Mapping[Key, tuple[FieldError, ...]] = field(default_factory=dict)
    """Policies and exceptions that may be meant for it and cannot be read, and why: they do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A document in another generation, or why it cannot be said there."""

    obj: dict[str, Any]
    findings: Findings


def load(
    documents: Sequence[Document],
    *,
    line: str | None,
    profile: Path | None,
    pod_groups: bool = False,
    asked: Asked = ASKED,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Offline:
    """An engine over the objects of a folder. Raises ConfigError where line or profile cannot be used."""
    if line is not None and line not in lines.LINES:
        raise ConfigError(f"trainer version must be one of {', '.join(lines.LINES)}, not {line}")
    chosen = lines.named(line)
    return Offline(
        snapshot_of(documents),
        chosen,
        build_pipeline(profile, pod_groups=pod_groups),
        Documents((d.obj for d in documents), chosen),
        now,
        asked,
    )


class _Workers:
    """Workers that are there from the first question on: most folders have nothing to ask them."""

    def __init__(self, strikes: Strikes | None) -> None:
        """Have none yet; ``strikes`` has whose workers were killed."""
        self._strikes = strikes
        self._evaluation: Evaluation | None = None

    async def evaluate(self, questions: Sequence[Any], deadline: float | None) -> list[Answers]:
        """What a Context's ``evaluate`` is."""
        if self._evaluation is None:
            from webhook.evaluation import Evaluation  # noqa: PLC0415  # with the policies

            self._evaluation = Evaluation(strikes=self._strikes)
        return await self._evaluation.evaluate(questions, deadline)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let no worker and no event loop outlive the engine; workers that are left end with the process."""
        with contextlib.suppress(RuntimeError):  # collected while another loop runs
            if self._evaluation is not None:
                loop.run_until_complete(self._evaluation.close())
        loop.close()


def snapshot_of(documents: Sequence[Document]) -> Snapshot:
    """The folder as a cluster: its runtimes meet the API server's rules before they count.

    Raises ConfigError for policies and exceptions whose kind or group is misspelt, and for those and params without a
    name (YAML reads ``on`` and ``n`` as flags): the API server would take none, and in a folder nobody would notice that
    one is not in force.
    """
    problems = [problem for document in documents if (problem := _unusable(document))]
    if problems:
        raise ConfigError("\n".join(problems))
    return Snapshot.of((d.obj for d in documents), admit=True)


def _unusable(document: Document) -> str:
    """Why the API server would not take a document that is meant for us; "" where it would, or is not."""
    if is_document(document.obj):
        return "" if document_key(document.obj)[2] else _nameless(document)
    if is_meant_as_document(document.obj):
        from policies import reading  # noqa: PLC0415  # with the policies

        return f"{document.where}: {reading.read(document.obj).errors[0]}"
    return ""


def _nameless(document: Document) -> str:
    name = values.at(document.obj, "metadata", "name")
    found = "there is none" if name is None else f"is {show(name)}"
    kind = values.text(document.obj.get("kind"))
    return f"{document.where}: metadata.name of a {kind} must be a text, and {found}"


class _Around:
    """What a request sees. Apart from the engine, so that nothing that the engine holds holds the engine."""

    def __init__(self, folder: Snapshot, asked: Asked) -> None:
        self.folder = self.snapshot = folder
        self.asked = asked
        self._seen: tuple[Asked, str] | None = None

    def look_at(self, namespace: str) -> None:
        """See the folder as this request should, whose namespace may have labels that are not in it."""
        if self._seen == (self.asked, namespace):
            return
        snapshot = self.folder
        for obj in self.asked.objects:
            snapshot = snapshot.replaced(obj)
        if self.asked.namespace_labels:
            known = snapshot.namespaces.get(namespace, {"name": namespace})
            labels = {**values.obj(known.get("labels")), **self.asked.namespace_labels}
            metadata = {**known, "labels": labels}
            snapshot = snapshot.replaced({"kind": "Namespace", "metadata": metadata})
        self.snapshot, self._seen = snapshot, (self.asked, namespace)


@dataclass(slots=True)
class _Wanted:
    """What somebody wants to know of the next request. By itself, so that the engine is in no circle and ends when it is let go."""

    traces: list[Trace] | None = None
    creator: Creator | None = None

    @contextmanager
    def asking(self, creator: Creator | None) -> Iterator[list[Trace]]:
        """Gather the Traces of what is judged inside."""
        traces: list[Trace] = []
        self.traces, self.creator = traces, creator
        try:
            yield traces
        finally:
            self.traces = self.creator = None

    def note(self, ctx: Context) -> None:
        """Ask the policies to say what they find, where somebody wants to know."""
        if self.traces is None and self.creator is None:
            return
        from policies.trace import CREATOR, TRACE, Trace  # noqa: PLC0415  # with the policies

        if self.traces is not None:
            ctx.notes[TRACE] = found = Trace(ctx)
            self.traces.append(found)
        if self.creator is not None:
            ctx.notes[CREATOR] = self.creator


class Offline:
    """Judges documents one by one against one folder."""

    def __init__(
        self,
        snapshot: Snapshot,
        line: Line | None,
        pipeline: Pipeline,
        train_jobs: Documents,
        now: Callable[[], datetime],
        asked: Asked = ASKED,
    ) -> None:
        """Use a snapshot; ``line`` None means what the CRD in it shows, else the job's own generation.

        ``now`` is the time of day by which exceptions expire, where ``asked`` does not say it.
        """
        self._around = around = _Around(snapshot, asked)
        self._default = asked
        self._wanted = _Wanted()
        self._line = line
        self._pipeline = pipeline
        policy = platform_policy(pipeline)
        self._loop = asyncio.new_event_loop()
        self._workers = _Workers(None if policy is None else policy.strikes)
        self._reviewer = review.Reviewer(
            pipeline,
            lambda: around.snapshot,
            line=line,
            clock=time.monotonic,
            now=lambda: around.asked.now or now(),
            evaluate=self._workers.evaluate,
            owners=train_jobs,
            on_context=self._wanted.note,
        )
        weakref.finalize(self, self._workers.close, self._loop)

    @property
    def snapshot(self) -> Snapshot:
        """The folder."""
        return self._around.folder

    @property
    def policies(self) -> PolicySet:
        """Those of the folder, compiled; none where the profile leaves policies out."""
        from policies.compile import PolicySet  # noqa: PLC0415  # as above

        found = platform_policy(self._pipeline)
        return PolicySet() if found is None else found.engine.policies(self.snapshot)

    def admit(
        self, document: Document, old: Document | None = None, *, asked: Asked | None = None
    ) -> Outcome:
        """Mutate, then validate, as the API server would have it done; ``asked`` else as the engine was told."""
        self._around.asked = asked or self._default
        if document.obj.get("kind") == review.KIND:
            return self._admit_review(document)
        return self._admit_object(document.obj, old.obj if old else None)

    def render(self, document: Document, *, admitted: bool = False) -> Rendered:
        """The objects that the controller would create for a TrainJob, as given or as ``admit`` leaves it.

        A job that ``admit`` refuses is rendered too, with the findings; nothing where the controller fails.
        """
        outcome = self.admit(document)
        raw = outcome.after if admitted else self._as_stored(document)
        if outcome.kind != names.TRAIN_JOB or raw is None:
            return Rendered(
                name=outcome.name,
                namespace=outcome.namespace,
                objects=[],
                findings=outcome.findings,
            )
        findings = Findings(
            errors=list(outcome.findings.errors), warnings=list(outcome.findings.warnings)
        )
        ctx = self._context(names.TRAIN_JOB, raw, None, outcome.namespace)
        info = self._resolved(ctx, raw)
        objects = self._built(ctx, info, findings) if info is not None else []
        if info is None or not objects:
            return Rendered(
                name=outcome.name, namespace=outcome.namespace, objects=[], findings=findings
            )
        if self._pipeline.corrects_pod_groups:
            self._correct(ctx, raw, objects, findings)
            return _rendered(outcome, info, objects, findings)
        rendered = _rendered(outcome, info, objects, findings)
        if rendered.pod_sets:
            findings.warn(*_gang_differs(objects, rendered.members, rendered.resources))
        return rendered

    def trace(
        self,
        document: Document,
        old: Document | None = None,
        *,
        asked: Asked | None = None,
        creator: Creator | None = None,
    ) -> tuple[Outcome, list[Trace]]:
        """``admit``, and what the policies found on the way: one Trace for each call that was made.

        ``creator`` is who created the job, where the request does not say it.
        """
        with self._wanted.asking(creator) as traces:
            return self.admit(document, old, asked=asked), traces

    def explain(
        self, document: Document, old: Document | None = None, *, all_parts: bool = False
    ) -> Explained:
        """Who changed which field of the object, which layer each value of the pods comes from, and why each policy did what it did.

        With ``all_parts`` rules that hold show the values of their expressions too.
        """
        from policies.explaining import explain_all  # noqa: PLC0415  # with the policies

        outcome, traces = self.trace(document, old)
        explained = self._loop.run_until_complete(
            self._answered(explain_all(traces, all_parts=all_parts))
        )
        layers: list[Layer] = []
        raw = outcome.after
        if outcome.kind == names.TRAIN_JOB and raw is not None:
            ctx = self._context(names.TRAIN_JOB, raw, None, outcome.namespace)
            info = self._resolved(ctx, raw, trace=True)
            layers = layers_of(info) if info is not None else []
        unread = self._unread(outcome.namespace) if explained else {}
        return Explained(outcome=outcome, layers=layers, policies=explained, unread=unread)

    def _unread(self, namespace: str) -> dict[Key, tuple[FieldError, ...]]:
        from policies.document import Key  # noqa: PLC0415  # with the policies

        found = ((Key(*key), each) for key, each in self.policies.documents().items())
        return {
            key: each.unread
            for key, each in found
            if each.unread and each.policy is None and key.namespace in {"", namespace}
        }

    async def _answered(self, asking: Asks) -> list[Explanation]:
        try:
            questions = next(asking)
            while True:
                questions = asking.send(await self._workers.evaluate(questions, None))
        except StopIteration as done:
            found: list[Explanation] = done.value
            return found

    def _resolved(self, ctx: Context, raw: dict[str, Any], *, trace: bool = False) -> Info | None:
        if not review.shape_of(ctx.line.name, names.TRAIN_JOB)(raw):
            return None
        return self._pipeline.resolve(ctx, raw, trace=trace)

    def _built(self, ctx: Context, info: Info, findings: Findings) -> list[dict[str, Any]]:
        try:
            return self._pipeline.build(ctx, info)
        except BuildError as error:
            findings.warn(
                f"the controller builds nothing, and fails in every reconcile with: {error}"
            )
            return []

    def _correct(
        self,
        ctx: Context,
        raw: dict[str, Any],
        objects: list[dict[str, Any]],
        findings: Findings,
    ) -> None:
        """A PodGroup is shown as the controller makes it; what it is corrected to is said."""
        for obj in objects:
            if obj["kind"] == "PodGroup":
                corrected = values.copy(obj)
                result = self._loop.run_until_complete(
                    self._pipeline.correct_pod_group(ctx, corrected, raw)
                )
                findings.warn(*result.findings.warnings)
                if result.patch:
                    findings.warn(
                        f"the controller's PodGroup asks for {_asked(obj['spec'])}; it is corrected to "
                        f"{_asked(corrected['spec'])}"
                    )

    def _as_stored(self, document: Document) -> dict[str, Any] | None:
        """The TrainJob of a document after the API server's part, before ours."""
        raw: dict[str, Any] = document.obj
        if raw.get("kind") == review.KIND:
            found = values.at(raw, "request", "object")
            return values.copy(found) if type(found) is dict else None
        return schema.load(self.line_of(raw).name).admit(names.TRAIN_JOB, raw).obj

    def objects(self, raw: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects that the controller would create for an admitted TrainJob; none where it fails or has no runtime."""
        ctx = self._context(names.TRAIN_JOB, raw, None, _namespace(raw))
        info = self._resolved(ctx, raw)
        return [] if info is None else self._built(ctx, info, Findings())

    def line_of(self, raw: dict[str, Any]) -> Line:
        """Whose semantics hold for an object: those that were asked for, of the CRD, or of its own fields."""
        return (
            self._line
            or self._around.snapshot.crd_line
            or lines.of_job(values.obj(raw.get("spec")))
        )

    def _context(
        self, kind: str, raw: dict[str, Any], old: dict[str, Any] | None, namespace: str
    ) -> Context:
        return Context(
            request=_request(kind, raw, old, namespace, self._around.asked.user),
            cluster=self._around.snapshot,
            line=self.line_of(raw),
            namespace=namespace,
            clock=time.monotonic,
        )

    # Plain objects

    def _admit_object(self, raw: dict[str, Any], old: dict[str, Any] | None) -> Outcome:
        kind = values.text(raw.get("kind"))
        line = self.line_of(raw)
        schemas = schema.load(line.name)
        # Against itself: an object that is stored keeps what only the API server and controllers write.
        stored_old = schemas.admit(kind, old, old).obj if old is not None else None
        first = schemas.admit(kind, raw, stored_old)
        findings = Findings()
        findings.warn(*_pruned(line, first.pruned))
        before = values.copy(first.obj)
        namespace = "" if kind == names.CLUSTER_TRAINING_RUNTIME else _namespace(raw)
        self._around.look_at(namespace)
        request = _request(kind, first.obj, stored_old, namespace, self._around.asked.user)
        if not review.shape_of(line.name, kind)(first.obj):
            findings.error(*first.errors)
            return _outcome(request, before, Result(findings=findings))
        mutated = self._judge("mutate", request)
        if (
            not mutated.patch
        ):  # where a plugin failed, the object is left half done, and no patch is sent
            request = review.with_object(request, values.copy(before))
        after = request.object or {}
        # The API server checks the schema between the mutating and the validating call.
        findings.error(*schemas.admit(kind, after, stored_old).errors)
        _add_news(findings, mutated.findings)
        result = Result(
            findings=findings, patch=mutated.patch, changes=mutated.changes, audit=mutated.audit
        )
        if not (mutated.allowed and result.allowed):
            return _outcome(request, before, result, mutated)
        validated = self._judge("validate", request)
        _add_news(findings, validated.findings)
        result.audit = {**mutated.audit, **validated.audit}
        return _outcome(request, before, result, mutated, validated)

    def _judge(self, phase: review.Phase, request: AdmissionRequest) -> Result:
        return self._loop.run_until_complete(self._reviewer.judge(phase, request)).result

    # AdmissionReviews

    def _admit_review(self, document: Document) -> Outcome:
        try:
            request = review.request_of(document.obj)
        except BadReview as error:
            raise ConfigError(f"{document.where}: {error}") from error
        if not request.user.username:
            request = msgspec.structs.replace(request, user=self._around.asked.user)
        self._around.look_at(request.namespace)
        before = values.copy(request.object) if request.object is not None else None
        verdict = self._loop.run_until_complete(self._reviewer.judge("mutate", request))
        result = verdict.result
        if not result.allowed or verdict.error:
            return _outcome(request, before, result, result)
        validated = self._judge("validate", request)
        _add_news(result.findings, validated.findings)
        result.audit = {**result.audit, **validated.audit}
        return _outcome(request, before, result, result, validated)


def convert(document: Document, to: str) -> Converted:
    """A TrainJob or runtime in the words of another line."""
    if to not in lines.LINES:
        raise ConfigError(f"--to must be one of {', '.join(lines.LINES)}, not {to}")
    converted = generations.convert(document.obj, lines.LINES[to])
    return Converted(obj=converted.obj, findings=converted.findings)


def _namespace(raw: dict[str, Any]) -> str:
    return values.text(values.at(raw, "metadata", "namespace")) or names.DEFAULT_NAMESPACE


def _request(
    kind: str, raw: dict[str, Any], old: dict[str, Any] | None, namespace: str, user: UserInfo
) -> AdmissionRequest:
    job = TrainJob(raw)
    return AdmissionRequest(
        uid=UID,
        operation="CREATE" if old is None else "UPDATE",
        group=names.GROUP,
        resource=_RESOURCES[kind],
        kind=kind,
        namespace=namespace,
        name=values.text(job.metadata.get("name")) or values.text(job.metadata.get("generateName")),
        user=user,
        object=raw,
        old_object=old,
    )


def _outcome(
    request: AdmissionRequest, before: dict[str, Any] | None, result: Result, *calls: Result
) -> Outcome:
    return Outcome(
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        allowed=result.allowed,
        findings=result.findings,
        before=before,
        after=request.object if result.allowed else before,
        patch=result.patch if result.allowed else [],
        review=review.review_of(review.Verdict(request=request, result=result)),
        changes=result.changes,
        calls=calls,
    )


def _add_news(findings: Findings, more: Findings) -> None:
    """Add what is not said yet at the same place in the same words; the API server's word comes first."""
    said = {(e.field, e.detail) for e in findings.errors}
    findings.error(*(e for e in more.errors if (e.field, e.detail) not in said))
    findings.warn(*more.warnings)


def _pruned(line: Line, paths: Sequence[str]) -> list[str]:
    out: list[str] = []
    for path in paths:
        text = f'unknown field "{path}": Trainer {line.name} has no such field, and the API server drops it'
        if any(path == f"spec.{g}" or path.startswith(f"spec.{g}[") for g in _GENERATIONS):
            text += f"; `stationmaster convert --to {line.name}` says it in that line's words"
        out.append(text)
    return out


def _rendered(
    outcome: Outcome, info: Info, objects: list[dict[str, Any]], findings: Findings
) -> Rendered:
    try:
        counted = totals.of(info)
        rows = [
            PodSetRow(
                name=p.name,
                ancestor=p.ancestor or "",
                count=p.pods,
                per_pod=_texts(p.requests),
                total=_texts(counted.per_part[p.name]),
            )
            for p in info.pod_sets
        ]
    except quantity.QuantityError as error:
        findings.warn(f"no totals: {error}")
        return Rendered(
            name=outcome.name, namespace=outcome.namespace, objects=objects, findings=findings
        )
    return Rendered(
        name=outcome.name,
        namespace=outcome.namespace,
        objects=objects,
        findings=findings,
        pod_sets=rows,
        members=counted.members,
        resources=_texts(counted.resources),
    )


def _texts(amounts: Any) -> dict[str, str]:
    return {name: quantity.canonical(amount) for name, amount in sorted(amounts.items())}


def _gang_differs(
    objects: list[dict[str, Any]], members: int, resources: dict[str, str]
) -> list[str]:
    """A PodGroup is the controller's, faults included; where it disagrees with our totals, that is said."""
    out: list[str] = []
    for obj in objects:
        if obj["kind"] != "PodGroup":
            continue
        spec = obj["spec"]
        theirs = {k: _nano(v) for k, v in (spec.get("minResources") or {}).items()}
        mine = {k: _nano(v) for k, v in resources.items()}
        if spec["minMember"] != members or theirs != mine:
            out.append(
                f"the controller's PodGroup asks for {_asked(spec)}; at most {members} pods run at one time, with "
                f"{_amounts(resources)}"
            )
    return out


def _asked(spec: Mapping[str, Any]) -> str:
    return f"{spec['minMember']} members and {_amounts(spec.get('minResources'))}"


def _amounts(resources: Mapping[str, str] | None) -> str:
    return (
        " ".join(f"{name}={amount}" for name, amount in (resources or {}).items()) or "no resources"
    )


def _nano(text: str) -> int:
    return quantity.parse(text).nano
