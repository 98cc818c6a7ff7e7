"""AdmissionReview bytes in, AdmissionReview bytes out: everything between, without a server.

``Reviewer`` is the whole webhook as two coroutines. It never raises but for ``BadReview``: a fault of ours is
answered as a review, since any HTTP status but 200 is "the webhook broke" to the API server.
"""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import msgspec
import orjson

from plugins.framework import depth, field, lines, schema, values
from plugins.framework.api import names
from plugins.framework.api.admission import AdmissionRequest, UserInfo
from plugins.framework.context import EPOCH, Context, nobody
from plugins.framework.errors import BadReview, DeadlineExceeded, StationmasterError
from plugins.framework.field import FieldError, Findings
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.runtime import CompiledRuntime
from policies.plugin import PlatformPolicy
from webhook import documents, podgroups
from webhook.assembly import platform_policy
from webhook.documents import Documents
from webhook.mode import Fixed, Mode, Position, would
from webhook.podgroups import Unresolved

if TYPE_CHECKING:
    from datetime import datetime

    from plugins.framework.cluster import Snapshot
    from plugins.framework.context import Evaluate
    from plugins.framework.lines import Line
    from policies.counts import Counts
    from webhook.podgroups import Owners

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

MOST_WARNINGS: Final = 4096
"""Characters of all warnings that the API server passes on; past it, it cuts and drops (webhook-server A.2)."""
MOST_CAUSES: Final = 100
"""Causes in one answer. A manifest with more mistakes is read from the top anyway."""

_RESOURCES: Final = {
    "trainjobs": names.TRAIN_JOB,
    "trainingruntimes": names.TRAINING_RUNTIME,
    "clustertrainingruntimes": names.CLUSTER_TRAINING_RUNTIME,
}

Decision = Literal[
    "allowed", "patched", "denied", "error", "would_be_patched", "would_be_denied", "off"
]
Phase = Literal["mutate", "validate"]

ENFORCING: Final = Fixed()


class NotNow(StationmasterError):
    """The object cannot be judged at this moment, and is refused for this moment only."""

    def __init__(self, message: str, *, retry_after_seconds: int | None = 1) -> None:
        """Say why. With a time, kubectl and every client-go program come back by themselves."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Looked(NamedTuple):
    """What a request sees of the cluster."""

    cluster: Snapshot
    warnings: tuple[str, ...] = ()
    """How far what it sees can be trusted."""


class Live(Protocol):
    """What there is to know about a TrainJob's surroundings that the snapshot of the moment lacks."""

    @abstractmethod
    async def look(self, ctx: Context, raw: dict[str, Any]) -> Looked:
        """The cluster as this request should see it, within its deadline. May raise NotNow."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back, and what the log and the metrics say of it."""

    body: bytes
    decision: Decision
    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    user: str
    dry_run: bool
    warnings: int
    findings: int


class Verdict(msgspec.Struct, kw_only=True):
    """The answer before it is bytes."""

    request: AdmissionRequest
    result: Result
    error: str = ""
    """Why we could not judge; the request is allowed with a warning that says so."""
    not_now: NotNow | None = None
    """Why we cannot judge at this moment; the request is refused for this moment."""
    mode: Mode = "enforce"
    """What of all this is done; ``result`` is what would be."""

    @property
    def refuses(self) -> bool:
        """Whether the object is refused where we enforce."""
        return self.not_now is not None or not self.result.allowed

    @property
    def decision(self) -> Decision:
        """The one word for the log."""
        if self.mode == "off":
            return "off"
        if self.error or self.not_now:
            return "error"
        if not self.result.allowed:
            return "denied" if self.mode == "enforce" else "would_be_denied"
        if not self.result.patch:
            return "allowed"
        return "patched" if self.mode == "enforce" else "would_be_patched"


class Reviewer:
    """Answers reviews from snapshots of the cluster. Holds no state of its own."""

    __slots__ = (
        "_clock",
        "_counts",
        "_documents",
        "_evaluate",
        "_line",
        "_live",
        "_now",
        "_on_context",
        "_owners",
        "_pipeline",
        "_source",
        "_switch",
    )

    def __init__(  # noqa: PLR0913  # all that it is put together from
        self,
        pipeline: Pipeline,
        source: Callable[[], Snapshot],
        *,
        line: Line | None,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: EPOCH,
        evaluate: Evaluate = nobody,
        live: Live | None = None,
        owners: Owners | None = None,
        switch: Position = ENFORCING,
        on_context: Callable[[Context], None] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """Use ``line`` where it is given; else the one that the CRD in the snapshot shows, else the job's own.

        PodGroups are corrected where ``owners`` are and the profile has a plugin for it, policies judged where it has
        the one that knows them. ``on_context`` is given each request's Context before it is judged, to put notes there
        that ask why; ``counts`` is told what policies did, but for dry runs.
        """
        self._live = live
        self._owners = owners
        self._pipeline = pipeline
        self._source = source
        self._line = line
        self._clock = clock
        self._now = now
        self._evaluate = evaluate
        self._switch = switch
        self._on_context = on_context
        self._counts = counts
        policy = platform_policy(pipeline)
        self._documents = None if policy is None else Documents(policy, clock=clock)

    async def mutate(self, body: bytes, *, deadline: float) -> Answer:
        """Answer ``/mutate``. Raises BadReview where the body is no AdmissionReview."""
        return await self._answer("mutate", body, deadline)

    async def validate(self, body: bytes, *, deadline: float) -> Answer:
        """Answer ``/validate``. Raises BadReview where the body is no AdmissionReview."""
        return await self._answer("validate", body, deadline)

    async def _answer(self, phase: Phase, body: bytes, deadline: float) -> Answer:
        """Bytes to bytes, and nothing of what is between is left for the garbage collector.

        What is freed at once gives its memory, warm, to the next review; a ring would stay for some reviews more, and
        make each of them a seventh slower. Plugins' notes may know the Context that has them: the one ring there is.
        """
        verdict = await self.judge(phase, decode(body), deadline=deadline)
        answer = encode(verdict)
        verdict.result.notes.clear()
        return answer

    async def judge(
        self, phase: Phase, request: AdmissionRequest, *, deadline: float | None = None
    ) -> Verdict:
        """Judge one request as far as the mode asks for it."""
        mode = self._switch.mode
        if mode == "off":
            return Verdict(request=request, result=Result(), mode=mode)
        if mode == "enforce":
            verdict = await self._judge(phase, request, deadline)
        else:
            verdict = await self._as_if_enforced(phase, request, deadline)
            verdict.mode = mode
        run = verdict.result.notes.get(PlatformPolicy.name)
        if run is not None and self._counts is not None and not request.dry_run:
            is_last = phase == "validate" or (verdict.refuses and mode == "enforce")
            self._counts.add(run, is_last=is_last)
        return verdict

    async def _as_if_enforced(
        self, phase: Phase, request: AdmissionRequest, deadline: float | None
    ) -> Verdict:
        """What would be said if we enforced.

        The validating call would meet the object as the mutating one leaves it, but meets it as it was sent.
        """
        raw = request.object
        if phase == "validate" and raw is not None:
            sent = values.copy(raw)
            mutated = await self._judge("mutate", request, deadline)
            if mutated.refuses:
                return mutated
            if not mutated.result.patch:  # where a plugin failed, the object is left half done
                request = with_object(request, sent)
        return await self._judge(phase, request, deadline)

    async def _judge(
        self, phase: Phase, request: AdmissionRequest, deadline: float | None
    ) -> Verdict:
        """A fault becomes an allowed answer that says what failed."""
        try:
            return Verdict(request=request, result=await self._dispatch(phase, request, deadline))
        except NotNow as error:
            return Verdict(request=request, result=Result(), not_now=error)
        except DeadlineExceeded as error:
            return _gave_up(request, str(error))
        except StationmasterError as error:
            return _gave_up(request, str(error))
        except Exception as error:  # noqa: BLE001  # the API server must get an answer whatever happens
            return _gave_up(request, f"an internal fault ({type(error).__name__})")

    async def _dispatch(
        self, phase: Phase, request: AdmissionRequest, deadline: float | None
    ) -> Result:
        if podgroups.is_one(request):
            return await self._judge_pod_group(phase, request, deadline)
        if documents.is_one(request):
            return await self._judge_document(phase, request, deadline)
        kind = _RESOURCES.get(request.resource) if request.group == names.GROUP else None
        if kind is None or request.subresource:
            return Result()
        if request.operation == "DELETE":
            return self._see_off(phase, request, deadline)
        if request.operation not in {"CREATE", "UPDATE"} or request.object is None:
            return Result()
        return await self._judge_object(
            phase, self._context(request, deadline), kind, request.object
        )

    async def _judge_object(
        self, phase: Phase, ctx: Context, kind: str, raw: dict[str, Any]
    ) -> Result:
        if not shape_of(ctx.line.name, kind)(raw):
            # Before the mutating call nobody has checked the schema. Before the validating one the API server
            # has, but what we spend on an object, long lists for one, must not depend on who calls.
            misshapen = _misshapen(ctx, kind, raw)
            if misshapen is not None:
                return misshapen
        warnings: tuple[str, ...] = ()
        if self._live is not None and kind == names.TRAIN_JOB and not self._is_let_be(ctx):
            ctx.cluster, warnings = await self._live.look(ctx, raw)
        try:
            result = await self._run(phase, ctx, kind, raw)
        except DeadlineExceeded:
            raise
        except Exception:
            misshapen = _misshapen(ctx, kind, raw)
            if misshapen is None:
                raise
            return misshapen
        result.findings.warnings[:0] = warnings  # first: the rest depends on it, and may be cut
        misshapen = _misshapen(ctx, kind, raw) if result.faults else None
        return misshapen or result

    def _see_off(self, phase: Phase, request: AdmissionRequest, deadline: float | None) -> Result:
        """Warnings at most; once, since both calls would say the same. Old API servers send no old object."""
        old = request.old_object
        if phase == "mutate" or old is None:
            return Result()
        return self._pipeline.warn_deletion(self._context(request, deadline), old)

    def _is_let_be(self, ctx: Context) -> bool:
        """Whether no answer depends on the cluster: Kueue updates each job several times."""
        return ctx.is_update and ctx.request.user.username in self._pipeline.exempt_users

    async def _run(self, phase: Phase, ctx: Context, kind: str, raw: dict[str, Any]) -> Result:
        if kind != names.TRAIN_JOB:
            return await self._judge_runtime(ctx, raw)
        run = self._pipeline.mutate if phase == "mutate" else self._pipeline.validate
        return await run(ctx, raw)

    async def _judge_runtime(self, ctx: Context, raw: dict[str, Any]) -> Result:
        if values.at(raw, "metadata", "deletionTimestamp"):
            return Result()
        old_raw = ctx.request.old_object if ctx.is_update else None
        if old_raw is not None and values.same(old_raw.get("spec"), raw.get("spec")):
            return Result()
        kind = ctx.request.kind
        old = CompiledRuntime({**old_raw, "kind": kind}, ctx.line) if old_raw is not None else None
        return await self._pipeline.validate_runtime(
            ctx, old, CompiledRuntime({**raw, "kind": kind}, ctx.line)
        )

    async def _judge_pod_group(
        self, phase: Phase, request: AdmissionRequest, deadline: float | None
    ) -> Result:
        """Correct what the Trainer asks for in a PodGroup; raises Unresolved where its TrainJob is no help."""
        owner = podgroups.owner_of(request)
        raw = request.object
        if (
            phase != "mutate"
            or self._owners is None
            or not self._pipeline.corrects_pod_groups
            or owner is None
            or raw is None
        ):
            return Result()
        ctx = self._context(request, deadline)
        job, ctx.cluster, warnings = await self._owners.owned(ctx, owner)
        ctx.line = podgroups.line_of(self._line, ctx.cluster, job)
        if not shape_of(ctx.line.name, names.TRAIN_JOB)(job):
            raise Unresolved(f"TrainJob {owner.name} is none of Trainer {ctx.line.name}")
        result = await self._pipeline.correct_pod_group(ctx, raw, job)
        result.findings.warnings[:0] = warnings
        return result

    async def _judge_document(
        self, phase: Phase, request: AdmissionRequest, deadline: float | None
    ) -> Result:
        if phase != "validate" or self._documents is None:
            return Result()
        cluster = self._source()
        return await self._documents.judge(
            request,
            cluster=cluster,
            line=self._line or cluster.crd_line,
            now=self._now(),
            deadline=deadline,
        )

    def _context(self, request: AdmissionRequest, deadline: float | None) -> Context:
        cluster = self._source()
        spec = values.obj(request.object or request.old_object).get("spec")
        line = self._line or cluster.crd_line or lines.of_job(spec)
        ctx = Context(
            request=request,
            cluster=cluster,
            line=line,
            namespace=request.namespace,
            clock=self._clock,
            now=self._now(),
            deadline=deadline,
            evaluate=self._evaluate,
        )
        if self._on_context is not None:
            self._on_context(ctx)
        return ctx


def _misshapen(ctx: Context, kind: str, raw: dict[str, Any]) -> Result | None:
    """The refusal of an object that does not fit its schema; None where it does.

    Where a plugin stumbled over an object that no API server would have sent to the validating call, this
    says what is wrong with it. What is stored already is let be.
    """
    errors = schema.load(ctx.line.name).check(kind, raw, ctx.request.old_object)
    return Result(findings=Findings(errors=errors)) if errors else None


_shapes: dict[tuple[str, str], Callable[[object], bool]] = {}


def shape_of(line: str, kind: str) -> Callable[[object], bool]:
    """The quick check that an object has the shape that its schema says, made once."""
    shape = _shapes.get((line, kind))
    if shape is None:
        shape = _shapes[line, kind] = schema.load(line).fits(kind)
    return shape


def _gave_up(request: AdmissionRequest, why: str) -> Verdict:
    text = f"Stationmaster could not judge this object and lets it pass: {why}"
    return Verdict(request=request, result=Result(findings=Findings(warnings=[text])), error=why)


def decode(body: bytes) -> AdmissionRequest:
    """Bytes -> request. Raises BadReview, saying what is missing, where it is not a review."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}") from error
    if depth.exceeds(body, review):
        raise BadReview(f"the body is nested more than {depth.MOST} levels deep")
    # An escaped dollar sign is one too. A single byte is found at once, and most reviews have neither.
    dollar = (b"$" in body and b'"$' in body) or (b"\\" in body and b"\\u0024" in body)
    return request_of(review, may_have_directives=dollar)


def request_of(review: Any, *, may_have_directives: bool = True) -> AdmissionRequest:
    """A parsed review -> request. Raises BadReview where it is none."""
    if (
        type(review) is not dict
        or review.get("kind") != KIND
        or review.get("apiVersion") != API_VERSION
    ):
        raise BadReview(f"the body must be an {API_VERSION} {KIND}")
    request = review.get("request")
    if type(request) is not dict:
        raise BadReview("the review has no request")
    uid = request.get("uid")
    if type(uid) is not str or not uid:
        raise BadReview("the review's request has no uid")
    kind, resource = values.obj(request.get("kind")), values.obj(request.get("resource"))
    resource_name = values.text(resource.get("resource"))
    raw, old = request.get("object"), request.get("oldObject")
    return AdmissionRequest(
        uid=uid,
        operation=values.text(request.get("operation")),
        group=values.text(resource.get("group")),
        resource=resource_name,
        kind=values.text(kind.get("kind")) or _RESOURCES.get(resource_name, "object"),
        subresource=values.text(request.get("subResource")),
        namespace=values.text(request.get("namespace")),
        name=values.text(request.get("name")) or _name_of(raw) or _name_of(old),
        user=_user(request.get("userInfo")),
        object=raw if type(raw) is dict else None,
        old_object=old if type(old) is dict else None,
        options=values.obj(request.get("options")),
        dry_run=request.get("dryRun") is True,
        may_have_directives=may_have_directives,
    )


def _name_of(raw: Any) -> str:
    metadata = values.at_obj(raw, "metadata")
    return values.text(metadata.get("name")) or values.text(metadata.get("generateName"))


def _user(raw: Any) -> UserInfo:
    info = values.obj(raw)
    groups = info.get("groups")
    return UserInfo(
        username=values.text(info.get("username")),
        uid=values.text(info.get("uid")),
        groups=tuple(g for g in groups if type(g) is str) if type(groups) is list else (),
        extra=values.obj(info.get("extra")),
    )


def encode(verdict: Verdict) -> Answer:
    """Verdict -> bytes, and the facts for log and metrics."""
    request, result = verdict.request, verdict.result
    return Answer(
        body=orjson.dumps(review_of(verdict)),
        decision=verdict.decision,
        uid=request.uid,
        operation=request.operation,
        kind=request.kind,
        namespace=_short(request.namespace),
        name=_short(request.name),
        user=_short(request.user.username),
        dry_run=request.dry_run,
        warnings=len(result.findings.warnings),
        findings=len(result.findings.errors),
    )


def review_of(verdict: Verdict) -> dict[str, Any]:
    """The AdmissionReview that answers: ``patch`` and ``patchType`` together or not at all."""
    result, warnings = verdict.result, verdict.result.findings.warnings
    response: dict[str, Any] = {"uid": verdict.request.uid, "allowed": True}
    if result.audit:
        response["auditAnnotations"] = dict(sorted(result.audit.items()))
    if verdict.mode != "enforce":
        # For those who ask later what came in meanwhile; users do not see it.
        response["auditAnnotations"] = {
            **response.get("auditAnnotations", {}),
            "mode": verdict.mode,
        }
        changes = result.changes if result.patch else ()
        warnings = [*would(result.findings.errors, changes, verdict.not_now), *warnings]
    elif verdict.refuses:
        response["allowed"] = False
        response["status"] = (
            status_of(verdict.request, result.findings.errors)
            if verdict.not_now is None
            else status_not_now(verdict.request, verdict.not_now)
        )
    elif result.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(result.patch)).decode()
    fitting = fit_warnings(warnings)
    if fitting:
        response["warnings"] = fitting
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def status_not_now(request: AdmissionRequest, why: NotNow) -> dict[str, Any]:
    """The Status of a refusal for the moment; 429 with a time is repeated up to ten times, silently."""
    details: dict[str, Any] = {"kind": request.kind, "group": request.group}
    if request.name:
        details["name"] = _short(request.name)
    if why.retry_after_seconds is not None:
        details["retryAfterSeconds"] = why.retry_after_seconds
    is_soon = why.retry_after_seconds is not None
    return {
        "status": "Failure",
        "reason": "TooManyRequests" if is_soon else "ServiceUnavailable",
        "code": 429 if is_soon else 503,
        "message": str(why),
        "details": details,
    }


def status_of(request: AdmissionRequest, errors: Sequence[FieldError]) -> dict[str, Any]:
    """The Status of a refusal.

    Findings of the job itself are 422 Invalid with causes, which kubectl prints one a line; findings of
    policies alone are 403 Forbidden, of which kubectl prints the message. Either way ``message`` says it all,
    since the SDK shows nothing else.
    """
    shown = list(errors[:MOST_CAUSES])
    more = len(errors) - len(shown)
    invalid = any(not e.origin for e in errors)
    texts = [str(e) for e in shown] + ([f"and {more} more"] if more else [])
    details: dict[str, Any] = {
        "kind": request.kind,
        "group": request.group,
        "causes": [e.cause() for e in shown],
    }
    if request.name:
        details["name"] = _short(request.name)
    kind = field.escape(request.kind)
    subject = f'{kind} "{field.escape(_short(request.name))}"' if request.name else kind
    if not invalid:
        text = "\n".join(texts)
        return {
            "status": "Failure",
            "reason": "Forbidden",
            "code": 403,
            "message": text,
            "details": details,
        }
    body = texts[0] if len(texts) == 1 else "\n" + "\n".join(f"* {text}" for text in texts)
    return {
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": f"{subject} is invalid: {body}",
        "details": details,
    }


def _short(text: str) -> str:
    """A name that nobody has checked yet, as far as messages and logs show it."""
    return text if len(text) <= field.LONGEST_VALUE else f"{text[: field.LONGEST_VALUE]}..."


def fit_warnings(warnings: Sequence[str]) -> list[str]:
    """What the API server will pass on of these warnings; the last one says how many were left out."""
    # Some may be the same once they are cut, and the API server drops such.
    texts = list(dict.fromkeys(_cut(warning) for warning in warnings))
    out: list[str] = []
    left = MOST_WARNINGS - field.LONGEST_WARNING
    for i, text in enumerate(texts):
        if len(text) > left:
            out.append(f"{len(texts) - i} more warnings were left out")
            break
        out.append(text)
        left -= len(text)
    return out


def _cut(warning: str) -> str:
    text = field.escape(warning)
    return text if len(text) <= field.LONGEST_WARNING else f"{text[: field.LONGEST_WARNING - 3]}..."


def with_object(request: AdmissionRequest, raw: dict[str, Any]) -> AdmissionRequest:
    """The same request about the object as it is after the mutating call."""
    return msgspec.structs.replace(request, object=raw)
