"""Puts the server together: the one place that touches the clock, the signals, stderr and chance."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import signal
import ssl
import sys
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol

import uvloop

from certs.keypair import Front
from plugins.framework import lines
from plugins.framework.api import names
from plugins.framework.errors import ConfigError
from policies import standing
from policies.compile import PolicySet
from policies.counts import Counts
from policies.custom import catalogue
from policies.strikes import KILLED
from webhook import files, logs, mode, offline, podgroups, review, server
from webhook.app import Admission
from webhook.assembly import build_pipeline, platform_policy
from webhook.certfiles import CertificateFiles
from webhook.evaluation import Evaluation
from webhook.kube.reflector import Surroundings
from webhook.metrics import PolicyMetrics, Recorder
from webhook.mode import Switch
from webhook.routes import Check, Health
from webhook.trust import Standalone

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from plugins.framework.cluster import Documents, Snapshot
    from plugins.framework.context import Context
    from plugins.framework.pipeline import Pipeline
    from webhook.config import Address, ServeOptions
    from webhook.kube.calls import Calls
    from webhook.kube.events import Mirror
    from webhook.kube.lease import Clock, Elector
    from webhook.kube.statuses import Statuses
    from webhook.podgroups import Owned, Owner
    from webhook.review import Live
    from webhook.workers import Event
    from webhook.yamlio import Document

HINT_SECONDS: Final = 60.0
"""How often the same hint about failed handshakes is given."""

HINTS: Final = {
    "plain_http": "plain HTTP on the TLS port: http:// where https:// is meant, or a proxy in between?",
    "untrusted": "a caller does not trust our CA: is its caBundle older than this process?",
    "not_tls": "no TLS on the TLS port: does a mesh's sidecar intercept it?",
}


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit code. Raises ConfigError if it cannot begin."""
    uvloop.run(serve(options, sys.stderr.buffer))
    return 0


async def serve(
    options: ServeOptions,
    stream: BinaryIO,
    *,
    started: Callable[[Service], None] = lambda _: None,
) -> None:
    """Serve until stopped; ``started`` is called once both ports are open."""
    logger = logs.build(stream, form=options.log_format, level=options.log_level)
    with _libraries_logging_to(logger):
        service = Service(options, logger)
        await service.start()
        started(service)
        await service.run()


@contextmanager
def _libraries_logging_to(logger: FilteringBoundLogger) -> Iterator[None]:
    bridge = logs.Bridge(logger)
    logging.getLogger().addHandler(bridge)
    asyncio.get_running_loop().set_exception_handler(logs.loop_errors(logger))
    try:
        yield
    finally:
        logging.getLogger().removeHandler(bridge)


class Origin(Protocol):
    """Where the cluster comes from: a folder that stands for it, or itself."""

    @property
    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The cluster as it is known now."""

    @property
    @abstractmethod
    def live(self) -> Live | None:
        """What looks again where that is not enough."""

    @property
    @abstractmethod
    def calls(self) -> Calls | None:
        """What reads and writes single objects, where there is an API server."""

    @property
    @abstractmethod
    def mirror(self) -> Mirror | None:
        """What writes Events, where that is to be done."""

    @property
    @abstractmethod
    def statuses(self) -> Statuses | None:
        """What says how policies fare, where there is somewhere to say it."""

    @abstractmethod
    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """The TrainJob of a PodGroup. Raises Unresolved."""

    @abstractmethod
    def checks(self) -> Mapping[str, Check]:
        """What must be so before we are ready."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """Fields of the first line of the log."""

    @abstractmethod
    async def connect(self) -> None:
        """Begin, once the ports are open. Raises ConfigError where that is no use."""

    @abstractmethod
    async def follow(self) -> None:
        """Take over changes until cancelled."""

    @abstractmethod
    async def close(self) -> None:
        """Leave."""


async def _nothing() -> None:
    """For a certificate that is nobody else's."""


class Trust(NamedTuple):
    """What we serve over TLS, whoever makes the certificate."""

    context: ssl.SSLContext
    problem: Check
    keep_valid: Callable[[], Coroutine[Any, Any, None]]
    """To be run from when the API server can be called until it no longer is."""

    leave: Callable[[], Coroutine[Any, Any, None]] = _nothing
    """To be run while the last reviews are answered."""

    stalled: Check = lambda: None
    """Why only a restart would go on looking after it."""

    write: Callable[[int], Path] | None = None
    """Leaves the CA of a certificate that nobody else knows where callers find it, by our port."""

    distrusted: Callable[[], None] = lambda: None
    """To be told of each caller who does not trust us."""


class Service:
    """The webhook: something to answer from, a certificate, two ports."""

    def __init__(self, options: ServeOptions, logger: FilteringBoundLogger) -> None:
        """Read the folder, if there is one, and the profile. Raises ConfigError where one cannot be used."""
        self._options = options
        self._logger = logger
        self._recorder = recorder = Recorder()
        recorder.version(metadata.version("stationmaster"))
        pipeline = build_pipeline(options.profile, recorder, pod_groups=options.pod_groups)
        switch = Switch(recorder=recorder, logger=logger)
        self._custom = catalogue.all_declared()
        command = catalogue.worker_command()
        policy = platform_policy(pipeline)
        self._workers = Evaluation(
            on_event=self._tell_worker,
            options_command=lambda: command,
            strikes=None if policy is None else policy.strikes,
        )
        counts = Counts(time.monotonic)
        self._origin: Origin = _origin(
            options,
            pipeline,
            recorder,
            logger,
            switch,
            counts=counts,
        )
        reviewer = review.Reviewer(
            pipeline,
            lambda: self._origin.snapshot,
            line=lines.named(options.trainer_version),
            clock=time.monotonic,
            now=_now,
            evaluate=self._workers.evaluate,
            live=self._origin.live,
            owners=self._origin,
            switch=switch,
            counts=counts,
        )
        if policy is not None:
            engine = policy.engine  # now, so that no review waits for its import
            quarantined = policy.strikes.quarantined
            recorder.registry.register(
                PolicyMetrics(
                    counts,
                    lambda: standing.count(engine.policies(self._origin.snapshot), quarantined),
                )
            )
        self._elector = _elector(options, self._origin.calls)
        self._trust = _trust(options, self._origin.calls, self._elector, recorder, logger)
        self._admission = Admission(reviewer, recorder=recorder, logger=logger)
        self._webhook = server.Server(
            self._admission.handle,
            tls=self._trust.context,
            observer=Hints(recorder, logger, distrusted=self._trust.distrusted),
        )
        health = Health(recorder, ready=self._ready(), alive=self._alive())
        self._health = server.PlainServer(health.handle)
        self._is_started = False
        self._stopping = asyncio.Event()
        self._ended: list[str] = []
        self._drain_seconds = options.drain_seconds

    def _tell_worker(self, event: Event) -> None:
        self._recorder.worker(event)
        if event.outcome == "quarantined":
            self._logger.warning("policy", policy=event.policy, ready="False", problem=KILLED)

    def _alive(self) -> dict[str, Check]:
        """Neither an API server that is down nor a certificate that has ended: no restart mends those."""
        mirror, statuses = self._origin.mirror, self._origin.statuses
        return {
            "certificate": self._trust.stalled,
            **({"events": mirror.stalled} if mirror else {}),
            **({"policies": statuses.stalled} if statuses else {}),
            "chores": lambda: f"ended: {', '.join(self._ended)}" if self._ended else None,
        }

    def _ready(self) -> dict[str, Check]:
        return {
            **self._origin.checks(),
            "certificate": self._trust.problem,
            "started": lambda: None if self._is_started else "options are being imported",
            "leaving": lambda: "leaving" if self._stopping.is_set() else None,
        }

    async def start(self) -> None:
        """Open both ports. Raises ConfigError where one is taken, or the CA cannot be written."""
        options = self._options
        webhook_sockets = server.listen(options.listen)
        health_sockets = server.listen(options.health_listen)
        self.port: int = webhook_sockets[0].getsockname()[1]
        self.health_port: int = health_sockets[0].getsockname()[1]
        self.ca_file = self._trust.write(self.port) if self._trust.write else None
        await self._health.start(health_sockets)
        await self._start_options()
        self._webhook.start(webhook_sockets)
        self._is_started = True
        self._recorder.watch(
            in_flight=lambda: self._admission.in_flight,
            connections=lambda: self._webhook.open_connections,
        )
        try:
            await self._origin.connect()
        except BaseException:
            await self._webhook.drain(0.0)
            await self._workers.close()
            self._health.close()
            raise
        self._logger.info(
            "serving",
            webhook=_url("https", options.listen, self.port),
            health=_url("http", options.health_listen, self.health_port),
            **({"ca": str(self.ca_file)} if self.ca_file else {}),
            **self._origin.describe(),
        )

    async def _start_options(self) -> None:
        """Have workers import the custom options now: it takes seconds, which no request should wait for."""
        if any(option.is_usable for option in self._custom):
            await self._workers.options.ready()
        for option in self._custom:
            if option.problem:
                self._logger.warning(
                    "option cannot be used",
                    option=option.name,
                    package=option.installed.package,
                    problem=option.problem,
                )

    async def run(self) -> None:
        """Follow the cluster and the clock until told to stop; then leave in order."""
        self._handle_signals()
        # The certificate first: replicas need one whether or not the cluster can be read yet.
        chores = [
            asyncio.create_task(self._trust.keep_valid(), name="certificate"),
            asyncio.create_task(self._origin.follow(), name="cluster"),
        ]
        if self._elector is not None and self._options.cert_files is not None:
            # Else whoever looks after the certificate does.
            chores.append(asyncio.create_task(self._elector.take_part(), name="election"))
        if self._elector is not None and self._origin.mirror is not None:
            events = self._origin.mirror.run(self._elector)
            chores.append(asyncio.create_task(events, name="events"))
        if self._elector is not None and self._origin.statuses is not None:
            statuses = self._origin.statuses.run(self._elector)
            chores.append(asyncio.create_task(statuses, name="policies"))
        for chore in chores:
            chore.add_done_callback(self._tell_of)
        try:
            await self._stopping.wait()
            self._logger.info("leaving", seconds=self._drain_seconds)
            # Answering goes on meanwhile, and after it for a while: API servers learn by a watch what we said.
            await asyncio.wait([asyncio.create_task(self._trust.leave())])
            await self._webhook.drain(self._drain_seconds)
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await self._origin.close()
            await self._workers.close()
            self._health.close()

    def stop(self, drain_seconds: float) -> None:
        """Leave after ``drain_seconds``; told so twice, at once."""
        if self._stopping.is_set():
            self._webhook.hurry()
        self._drain_seconds = drain_seconds
        self._stopping.set()

    def _tell_of(self, chore: asyncio.Task[None]) -> None:
        """A chore never ends by itself. What it did so far is served on until we are restarted."""
        if self._stopping.is_set():
            return
        self._ended.append(chore.get_name())
        if chore.cancelled():
            return
        context = {"message": "a chore has ended", "exception": chore.exception(), "task": chore}
        chore.get_loop().call_exception_handler(context)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop, self._options.drain_seconds)
        # A person at a terminal has no other replica that callers could turn to meanwhile.
        loop.add_signal_handler(signal.SIGINT, self.stop, 0.0)


def _origin(  # all that a cluster tells
    options: ServeOptions,
    pipeline: Pipeline,
    recorder: Recorder,
    logger: FilteringBoundLogger,
    switch: Switch,
    *,
    counts: Counts,
) -> Origin:
    """Raises ConfigError where not exactly one is named."""
    named = (options.directory is not None, options.kubeconfig is not None, options.in_cluster)
    if sum(named) != 1:
        raise ConfigError("one of a folder, a kubeconfig and in-cluster must be given")
    if options.directory is not None:
        policy = platform_policy(pipeline)
        prepare = None if policy is None else policy.engine.prepare
        return Folder(options.directory, options, recorder, logger, switch, prepare)
    from webhook.kube.cluster import Cluster  # noqa: PLC0415  # not for a folder

    uniform = random.SystemRandom().uniform
    around = Surroundings(clock=time.monotonic, sleep=asyncio.sleep, uniform=uniform)
    return Cluster(
        options,
        pipeline,
        recorder=recorder,
        logger=logger,
        around=around,
        switch=switch,
        counts=counts,
    )


def _elector(options: ServeOptions, calls: Calls | None) -> Elector | None:
    """Who of the replicas writes, in a cluster. Raises ConfigError where the pod does not say which it is."""
    if not options.in_cluster or calls is None:
        return None
    from webhook.kube.lease import Elector  # noqa: PLC0415  # not for a folder
    from webhook.kube.shared import LEASE  # noqa: PLC0415

    return Elector(
        calls,
        namespace=_of_pod("POD_NAMESPACE", "metadata.namespace"),
        name=LEASE,
        # A container that is restarted keeps the pod's name, and must not take its Lease for its own.
        identity=f"{_of_pod('POD_NAME', 'metadata.name')}_{secrets.token_hex(4)}",
        clock=_lease_clock(),
    )


def _lease_clock() -> Clock:
    from webhook.kube.lease import Clock  # noqa: PLC0415  # not for a folder

    return Clock(now=_now, monotonic=lambda: time.clock_gettime(time.CLOCK_BOOTTIME))


def _trust(
    options: ServeOptions,
    calls: Calls | None,
    elector: Elector | None,
    recorder: Recorder,
    logger: FilteringBoundLogger,
) -> Trust:
    """Whose certificate we serve. Raises ConfigError where a folder of certificates cannot be used."""
    if options.cert_files is not None:
        front = Front()
        mounted = CertificateFiles(
            options.cert_files, front=front, recorder=recorder, logger=logger, clock=_now
        )
        return Trust(front.context, mounted.unready, mounted.follow)
    if calls is not None and elector is not None:
        from webhook.kube.shared import Shared  # noqa: PLC0415  # not for a folder

        shared = Shared(
            calls,
            namespace=_of_pod("POD_NAMESPACE", "metadata.namespace"),
            elector=elector,
            clock=_lease_clock(),
            recorder=recorder,
            logger=logger,
        )
        return Trust(
            shared.context,
            shared.problem,
            shared.keep_valid,
            leave=shared.leave,
            stalled=shared.stalled,
            distrusted=shared.wake,
        )
    own = Standalone(options.listen[0], recorder=recorder, logger=logger, clock=_now)
    return Trust(
        own.context,
        own.problem,
        own.keep_valid,
        write=lambda port: own.write(options.cert_dir, port),
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _of_pod(variable: str, field: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise ConfigError(
            f"set the environment variable {variable} to the pod's {field} (fieldRef),"
            " as the manifests in deploy/ do"
        )
    return value


class Folder:
    """The folder that stands for the cluster: a snapshot of it, swapped as a whole when it changes."""

    live: Live | None = None
    """A folder is all there is."""

    calls: Calls | None = None
    mirror: Mirror | None = None
    statuses: Statuses | None = None

    def __init__(
        self,
        directory: Path,
        options: ServeOptions,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        switch: Switch,
        prepare: Callable[[Documents], PolicySet] | None = None,
    ) -> None:
        """Read it; ``prepare`` is called for the policies in it. Raises ConfigError where it cannot be used."""
        self._prepare = prepare
        self._next_policies = PolicySet()
        self._unsound: dict[tuple[str, str, str], str] = {}
        self._recorder = recorder
        self._logger = logger
        self._directory = directory
        self._namespace = options.namespace
        self._switch = switch
        self._follower = files.Follower(
            directory,
            *options.policies,
            on_change=self._swap,
            on_problem=self._keep,
            interval_seconds=options.poll_seconds,
            read=self._read,
        )
        self._line = lines.named(options.trainer_version)
        documents = self._follower.load()
        self.snapshot: Snapshot = self._next
        self._train_jobs = self._next_train_jobs
        self._look_at(documents)

    async def owned(self, ctx: Context, owner: Owner) -> Owned:
        """The TrainJob among the documents. Raises Unresolved."""
        return await self._train_jobs.owned(ctx, owner)

    def checks(self) -> Mapping[str, Check]:
        """It has been read, or we would not be here."""
        return {}

    def describe(self) -> dict[str, str]:
        """Its path."""
        return {"directory": str(self._directory)}

    async def connect(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def follow(self) -> None:
        """Take over changes until cancelled."""
        self._tell_unsound()
        await self._follower.run()

    def _read(self, *paths: Path) -> list[Document]:
        """Runs in a thread: indexing 5,000 runtimes would hold up the loop for a quarter of a second."""
        documents = files.read_tree(*paths)
        for document in documents:
            _date(document)
        self._next: Snapshot = offline.snapshot_of(documents)
        if self._prepare is not None:
            self._next_policies = self._prepare(self._next.documents)
        self._next_train_jobs = podgroups.Documents((d.obj for d in documents), self._line)
        return documents

    def _swap(self, documents: list[Document]) -> None:
        self.snapshot, self._train_jobs = self._next, self._next_train_jobs
        self._look_at(documents)
        self._logger.info("folder changed", objects=len(documents))
        self._tell_unsound()

    def _keep(self, problem: str) -> None:
        """A problem names files and lines, never what is in them."""
        self._recorder.load_failed()
        self._logger.error("folder cannot be used, the last good state is kept", problem=problem)

    def _look_at(self, documents: list[Document]) -> None:
        self._switch.read(mode.find((d.obj for d in documents), self._namespace))
        self._recorder.loaded(Counter(files.kind_of(document.obj) for document in documents))

    def _tell_unsound(self) -> None:
        """Log what is not in force, once: a folder has no status and no Events to say it in."""
        before, self._unsound = self._unsound, {}
        for key, problems in self._next_policies.problems():
            self._unsound[key] = problem = standing.first(problems)
            if before.get(key) != problem:
                kind, namespace, name = key
                about = {"kind": kind, "namespace": namespace, "name": name}
                self._logger.warning("policy", **about, ready="False", problem=problem)


def _date(document: Document) -> None:
    """Have an exception that does not say when it was made be as old as its file.

    Else it would be made anew with every request, and what its policy says of the longest would never end it.
    """
    if document.obj.get("kind") != names.EXCEPTION:
        return
    about = document.obj.get("metadata")
    if type(about) is not dict or "creationTimestamp" in about:
        return
    with suppress(OSError):  # gone meanwhile: the next look tells
        made = datetime.fromtimestamp(Path(document.source).stat().st_mtime, UTC)
        about["creationTimestamp"] = made.isoformat(timespec="seconds").replace("+00:00", "Z")


class Hints:
    """Counts what goes wrong below HTTP, and tells an operator what it may mean; not at each time."""

    def __init__(
        self,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
        *,
        distrusted: Callable[[], None] = lambda: None,
    ) -> None:
        """Count with ``recorder``, hint through ``logger``; say ``distrusted`` where our CA is not known."""
        self._distrusted = distrusted
        self._logger = logger
        self._clock = clock
        self._hinted: dict[str, float] = {}
        self._count = recorder.handshake_failed
        self.rejected = recorder.rejected

    def handshake_failed(self, reason: str) -> None:
        """Count it, and give its hint if that was not given lately."""
        self._count(reason)
        if reason == "untrusted":
            self._distrusted()
        now = self._clock()
        if reason in HINTS and now >= self._hinted.get(reason, now):
            self._hinted[reason] = now + HINT_SECONDS
            self._logger.warning(HINTS[reason], reason=reason)


def _url(scheme: str, address: Address, port: int) -> str:
    host = address[0] or "localhost"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
