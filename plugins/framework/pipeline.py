"""Runs the plugins of a profile over one TrainJob or runtime, extension point by extension point.

The Pipeline is the one place where anything that a plugin raises is caught: it gets the plugin's name, is
counted, and has the effect that the profile defines. One plugin cannot take the server down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard

import msgspec

from plugins.framework import applied, values
from plugins.framework import field as fields
from plugins.framework.api import names
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.draft import Change, Draft
from plugins.framework.errors import BuildError, ConfigError, DeadlineExceeded, PluginFault
from plugins.framework.field import FieldError, Findings, Path
from plugins.framework.interface import EXTENSION_POINTS, Plugin
from plugins.framework.registry import Handle
from plugins.framework.resolve import resolve

if TYPE_CHECKING:
    from plugins.framework.context import Context
    from plugins.framework.info import Info
    from plugins.framework.interface import Asking
    from plugins.framework.profile import Profile
    from plugins.framework.registry import Registry
    from plugins.framework.runtime import CompiledRuntime

APPLIED_PATH: Final = Path("metadata", "annotations").key(names.APPLIED_ANNOTATION)
RECORDER: Final = "Stationmaster"
"""Who writes the applied annotation."""

MOST_ROUNDS: Final = 4
"""Rounds of defaults and overrides in one call; what still changes then never comes to rest."""

Step = tuple[str, Callable[..., Any]]


class Recorder(Protocol):
    """Where faults are counted; the server's metrics implement it."""

    def fault(self, plugin: str, point: str) -> None:
        """Count one fault of a plugin at an extension point."""


class NoRecorder:
    """Counts nothing: for the command line."""

    __slots__ = ()

    def fault(self, plugin: str, point: str) -> None:
        """Pass."""


class Result(msgspec.Struct, kw_only=True):
    """What the Pipeline made of one object."""

    findings: Findings = msgspec.field(default_factory=Findings)
    patch: list[dict[str, Any]] = []
    changes: list[Change] = []
    info: Info | None = None
    faults: list[PluginFault] = []
    audit: dict[str, str] = {}
    """Audit annotations of the answer."""
    notes: dict[str, Any] = {}
    """What plugins know beside, by their names (``Context.notes``): for those who count."""

    @property
    def allowed(self) -> bool:
        """Nothing refuses the object."""
        return not self.findings.errors


class Pipeline:
    """The plugins of one profile, in their order."""

    __slots__ = ("_on_fault", "_recorder", "_steps", "exempt_users", "plugins")

    def __init__(
        self, registry: Registry, profile: Profile, recorder: Recorder | None = None
    ) -> None:
        """Build every plugin that the profile names. Raises ConfigError where one cannot be built."""
        unknown = profile.args.keys() - profile.named
        if unknown:
            raise ConfigError(
                f"profile: pluginConfig names {', '.join(sorted(unknown))}, which do not run"
            )
        order = (*profile.plugins, *sorted(profile.named - set(profile.plugins)))
        handle = Handle(at=profile.at)
        self.plugins: dict[str, Plugin] = {
            n: registry.build(n, profile.args.get(n, {}), handle) for n in order
        }
        self.exempt_users = profile.exempt_users
        self._on_fault = profile.on_fault
        self._recorder: Recorder = recorder or NoRecorder()
        self._steps: dict[str, tuple[Step, ...]] = {
            method: tuple(
                (name, getattr(self.plugins[name], method))
                for name in profile.at(point)
                if isinstance(self.plugins[name], protocol)
            )
            for point, protocol, method in EXTENSION_POINTS
        }

    def order(self, method: str) -> list[str]:
        """Names of the plugins that run at the point with that method."""
        return [name for name, _ in self._steps[method]]

    # TrainJobs

    async def mutate(self, ctx: Context, raw: dict[str, Any]) -> Result:
        """Complete a TrainJob, and judge it already: a refusal here comes before all other webhooks'."""
        old = _old(ctx)
        if self._leaves_alone(ctx, TrainJob(raw), old):
            return Result()
        draft, result = self._draft(ctx, raw), Result(audit=ctx.audit, notes=ctx.notes)
        info: Info | None = None
        try:
            info = await self._complete(ctx, draft, result, old)
        except PluginFault as fault:  # where the job is resolved: nothing is left to be judged
            self._fault(result, fault)
        return self._finish(result, draft, info)

    async def validate(self, ctx: Context, raw: dict[str, Any]) -> Result:
        """Judge the final object."""
        job, old = TrainJob(raw), _old(ctx)
        if self._leaves_alone(ctx, job, old):
            return Result()
        result = Result(audit=ctx.audit, notes=ctx.notes)
        try:
            result.info = self._info(self._draft(ctx, raw))
            await self._judge(ctx, result, result.info, old, raw=raw)
        except PluginFault as fault:
            self._fault(result, fault)
        return result

    def resolve(self, ctx: Context, raw: dict[str, Any], *, trace: bool = False) -> Info | None:
        """The job resolved, with all policies enforced; None where its runtime does not exist."""
        job = TrainJob(raw)
        runtime = runtime_of(ctx, job)
        return None if runtime is None else self._resolve(ctx, job, runtime, trace=trace)

    def build(self, ctx: Context, info: Info) -> list[dict[str, Any]]:
        """The objects that the controller would apply. Raises BuildError where it would fail instead."""
        if info.build_error:
            raise BuildError(info.build_error)
        out: list[dict[str, Any]] = []
        for name, method in self._steps["build"]:
            try:
                out.extend(method(ctx, info))
            except BuildError:
                raise
            except Exception as error:
                raise PluginFault(name, "build", error) from error
        return out

    # Runtimes

    async def validate_runtime(
        self, ctx: Context, old: CompiledRuntime | None, new: CompiledRuntime
    ) -> Result:
        """Judge a runtime; what an update leaves as it was is no reason to refuse it."""
        result = Result()
        await self._collect("validate_runtime", result, ctx, old, new)
        if old is not None and result.findings.errors:
            before = Result()
            await self._collect("validate_runtime", before, ctx, None, old)
            _ratchet(result.findings, before.findings)
        return result

    # PodGroups

    @property
    def corrects_pod_groups(self) -> bool:
        """Whether any plugin has to do with PodGroups."""
        return bool(self._steps["correct_pod_group"])

    async def correct_pod_group(
        self, ctx: Context, raw: dict[str, Any], job: dict[str, Any]
    ) -> Result:
        """Correct the PodGroup of a TrainJob; it is never refused, and left alone where the job is no help."""
        draft, result = Draft(raw), Result()
        try:
            info = self.resolve(ctx, job)
            if info is None or info.build_error:
                result.findings.warn(_not_resolved(TrainJob(job), info))
                return result
            self._correct(ctx, result, info, draft)
        except PluginFault as fault:
            self._fault(result, fault)
        errors, result.findings.errors[:] = list(result.findings.errors), []
        result.findings.warn(*map(str, errors))
        return self._finish(result, draft, info=None)

    def _correct(self, ctx: Context, result: Result, info: Info, draft: Draft) -> None:
        for name, method in self._steps["correct_pod_group"]:
            with draft.by(name):
                try:
                    result.findings.add(method(ctx, info, draft))
                except DeadlineExceeded:
                    raise
                except Exception as error:  # noqa: BLE001  # the one place where anything is caught
                    self._fault(result, PluginFault(name, "correct_pod_group", error))
        ctx.check_deadline()

    # Deletions

    def warn_deletion(self, ctx: Context, old: dict[str, Any]) -> Result:
        """Say what a deletion does that nobody would expect. It always passes."""
        result = Result()
        if ctx.request.user.username not in self.exempt_users:
            self._warn("warn_deletion", result, ctx, old)
        return result

    # Steps

    def _draft(self, ctx: Context, raw: dict[str, Any]) -> Draft:
        runtime = runtime_of(ctx, TrainJob(raw))
        if runtime is None:
            return Draft(raw)
        return Draft(
            raw, runtime=runtime, resolver=lambda now: self._resolve(ctx, _view(ctx, now), runtime)
        )

    async def _complete(
        self, ctx: Context, draft: Draft, result: Result, old: TrainJob | None
    ) -> Info | None:
        """Run the points of the mutating call over the draft, and judge what it has become."""
        if old is not None:
            await self._each("reconcile_update", result, draft, ctx, draft, old)
            if draft.record:
                ctx.written = draft.record
                self._record(draft)
            if _overrides_differ(ctx, old, TrainJob(draft.raw)) and draft.runtime is not None:
                await self._each("record_resolution", result, draft, ctx, draft)
        elif draft.runtime is not None:
            await self._settle(ctx, result, draft)
            ctx.written = draft.record
            await self._judge(ctx, result, draft.info, None)
            if result.allowed:
                draft.keep_info()
                await self._each("record_resolution", result, draft, ctx, draft)
                self._record(draft)
            return draft.info
        info = self._info(draft)
        await self._judge(ctx, result, info, old, raw=draft.raw)
        return info

    async def _settle(self, ctx: Context, result: Result, draft: Draft) -> None:
        """Default and override until a round changes nothing, where a plugin asks for another round at all."""
        for ctx.round in range(1, MOST_ROUNDS + 1):
            before, ctx.again = draft.revision, False
            await self._each("default_train_job", result, draft, ctx, draft)
            await self._each("override_train_job", result, draft, ctx, draft)
            if not ctx.again or draft.revision == before:
                return

    @staticmethod
    def _info(draft: Draft) -> Info | None:
        return None if draft.runtime is None else draft.info

    def _leaves_alone(self, ctx: Context, job: TrainJob, old: TrainJob | None) -> bool:
        """What is never changed and never refused (architecture, section 3, UPDATE (a))."""
        if old is None:
            return False
        return (
            ctx.request.user.username in self.exempt_users
            or job.is_terminating
            or old.is_terminating
            or old.is_finished
        )

    def _resolve(
        self, ctx: Context, job: TrainJob, runtime: CompiledRuntime, *, trace: bool = False
    ) -> Info:
        info = resolve(job, runtime, ctx.cluster.facts(ctx.namespace), trace=trace)
        for point in ("enforce_ml_policy", "enforce_pod_group_policy", "pre_build_sync"):
            for name, method in self._steps[point]:
                info.by = name
                try:
                    method(ctx, info)
                except BuildError as error:
                    info.build_error = info.build_error or str(error)
                except Exception as error:
                    raise PluginFault(name, point, error) from error
        return info

    async def _each(self, point: str, result: Result, draft: Draft, *args: Any) -> None:
        ctx: Context = args[0]
        for name, method in self._steps[point]:
            with draft.by(name):
                try:
                    returned = method(*args)
                    if _asks(returned):
                        await _answered(ctx, returned)
                except (BuildError, DeadlineExceeded):
                    raise
                except Exception as error:  # noqa: BLE001  # the one place where anything is caught
                    self._fault(
                        result,
                        error
                        if isinstance(error, PluginFault)
                        else PluginFault(name, point, error),
                    )
        ctx.check_deadline()

    async def _collect(self, point: str, result: Result, *args: Any) -> None:
        for name, method in self._steps[point]:
            try:
                found = method(*args)
                if _asks(found):
                    found = await _answered(args[0], found)
                if found.errors or found.warnings:
                    result.findings.add(found)
            except DeadlineExceeded:
                raise
            except Exception as error:  # noqa: BLE001  # the one place where anything is caught
                self._fault(
                    result,
                    error if isinstance(error, PluginFault) else PluginFault(name, point, error),
                )

    def _warn(self, point: str, result: Result, *args: Any) -> None:
        """Collect warnings. A fault here is counted and said, and has no other effect: nothing depends on it."""
        for name, method in self._steps[point]:
            try:
                result.findings.warn(*method(*args))
            except Exception as error:  # noqa: BLE001  # the one place where anything is caught
                fault = PluginFault(name, point, error)
                self._recorder.fault(name, point)
                result.findings.warn(_told(fault))

    def _fault(self, result: Result, fault: PluginFault) -> None:
        result.faults.append(fault)
        self._recorder.fault(fault.plugin, fault.point)
        text = _told(fault)
        if self._on_fault.get(fault.plugin, "Warn") == "Refuse":
            result.findings.error(fields.internal("", text))
        else:
            result.findings.warn(text)

    async def _judge(
        self,
        ctx: Context,
        result: Result,
        info: Info | None,
        old: TrainJob | None,
        *,
        raw: dict[str, Any] | None = None,
    ) -> None:
        """Collect the findings about the job as it now is; on UPDATE only those that the update causes."""
        job = info.job if info is not None else TrainJob(raw or {})
        if old is not None and info is None:
            result.findings.warn(
                f"the runtime {job.runtime_name} does not exist: this update is not judged against it"
            )
        self._warn("warn_train_job", result, ctx, info, old, job)
        if old is not None:
            ctx.resolve_stored = lambda of: self._stored(of, old)
            if changes_nothing_judged(ctx, old, job):
                await self._collect("validate_metadata", result, ctx, info, old, job)
                return
        await self._collect("validate", result, ctx, info, old, job)
        if info is not None and info.build_error and not result.findings.errors:
            result.findings.error(_cannot_be_built(info))
        if old is not None and any(not error.origin for error in result.findings.errors):
            await self._drop_stored(ctx, result.findings, old)
        ctx.check_deadline()

    def _stored(self, ctx: Context, old: TrainJob) -> Info | None:
        runtime = runtime_of(ctx, old)
        return None if runtime is None else self._resolve(ctx, old, runtime)

    async def _drop_stored(self, ctx: Context, findings: Findings, old: TrainJob) -> None:
        """The ratchet: what was stored and is unchanged is never a reason to refuse.

        Findings with an origin are rules that may have become stricter: whoever makes them compares for himself.
        """
        before = Result()
        info = ctx.before()
        await self._collect("validate", before, ctx, info, None, old)
        if info is not None and info.build_error and not before.findings.errors:
            before.findings.error(_cannot_be_built(info))
        _ratchet(findings, before.findings)

    @staticmethod
    def _record(draft: Draft) -> None:
        with draft.by(RECORDER):
            if draft.record:
                draft.set(APPLIED_PATH, applied.write(draft.record))
            else:
                draft.remove(APPLIED_PATH)

    @staticmethod
    def _finish(result: Result, draft: Draft, info: Info | None) -> Result:
        result.info = info
        result.changes = draft.changes
        if result.allowed and not result.faults:
            result.patch = draft.patch()
        return result


def _asks(returned: object) -> TypeGuard[Asking[Any]]:
    """Whether a plugin waits for answers."""
    return type(returned) is GeneratorType


async def _answered(ctx: Context, asking: Asking[Any]) -> Any:
    """What a plugin returns in the end, once all its questions are answered."""
    try:
        questions = next(asking)
        while True:
            questions = asking.send(await ctx.evaluate(questions, ctx.deadline))
    except StopIteration as done:
        return done.value


def _told(fault: PluginFault) -> str:
    return f"{fault}; the operators of Stationmaster can see why in its log"


def _view(ctx: Context, raw: dict[str, Any]) -> TrainJob:
    job = TrainJob(raw)
    return job if ctx.request.may_have_directives else job.without_directives()


def runtime_of(ctx: Context, job: TrainJob) -> CompiledRuntime | None:
    """The runtime that a TrainJob names, from the snapshot; None where it does not exist."""
    kind = job.runtime_kind
    if kind not in names.RUNTIME_KINDS or job.runtime_group != names.GROUP:
        return None
    return ctx.cluster.runtime(kind, ctx.namespace, job.runtime_name, ctx.line)


def _old(ctx: Context) -> TrainJob | None:
    raw = ctx.request.old_object
    return TrainJob(raw) if ctx.is_update and raw is not None else None


def _overrides_differ(ctx: Context, old: TrainJob, new: TrainJob) -> bool:
    """Whether an update changes what will be built and is one that may: suspended before or after."""
    key = ctx.line.generation
    return (old.is_suspended or new.is_suspended) and not values.same(
        old.spec.get(key), new.spec.get(key)
    )


def changes_nothing_judged(ctx: Context, old: TrainJob, new: TrainJob) -> bool:
    """Whether only metadata or ``suspend`` differ: such updates always pass."""
    del ctx
    if old.spec is new.spec:
        return True
    keys = old.spec.keys() | new.spec.keys()
    return all(
        key == "suspend" or values.same(old.spec.get(key), new.spec.get(key)) for key in keys
    )


def _cannot_be_built(info: Info) -> FieldError:
    return fields.invalid(
        Path("spec", "runtimeRef"),
        info.job.runtime_name,
        f"the Trainer's controller fails on this job in every reconcile: {info.build_error}",
    )


def _not_resolved(job: TrainJob, info: Info | None) -> str:
    """Why nothing is known of the pods of a job."""
    if info is None:
        return f"the PodGroup is left as it is: the runtime {job.runtime_name} of its TrainJob does not exist"
    return f"the PodGroup is left as it is: its TrainJob cannot be built: {info.build_error}"


def _ratchet(findings: Findings, before: Findings) -> None:
    """Take away what was found before already, as often as it was found then; a fault excuses nothing."""
    internal = fields.ErrorType.INTERNAL
    known = Counter(_identity(error) for error in before.errors if error.type is not internal)
    new: list[FieldError] = []
    for error in findings.errors:
        identity = _identity(error)
        if known[identity]:
            known[identity] -= 1
        else:
            new.append(error)
    findings.errors[:] = new


def _identity(error: FieldError) -> tuple[str, str, str]:
    """What makes two findings the same although list positions moved between old and new."""
    path = error.path
    place = ".".join(str(s) for s in path if type(s) is not int) if isinstance(path, Path) else path
    return (error.type.reason, place, error.body)
