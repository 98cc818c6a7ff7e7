"""A few processes that may be killed, in which expressions are evaluated that could take long or much memory.

An evaluation cannot be interrupted from within the process, and holds the interpreter's lock. So what was written by
who may only write in one namespace, and what has a risk in it (``policies.cel.risk``), runs in a worker; a worker that
does not answer in time is killed and another started. ::

    pool = Pool()
    answers = await pool.ask([question, ...], deadline=loop.time() + 2.0)
    await pool.close()

A policy is served in turn with the others, on all workers but one at a time at most, so that one that hangs keeps
nobody waiting; once a worker was killed for it, it waits until all are there again; after two kills it is quarantined
until its digest changes.

A question's time is what its worker has had of the processor, so that a crowded machine makes no policy hostile. One
that has not had it when its patience is over is killed too, and that counts against nobody. Where the system does not
say what a process had (no ``/proc``), all the time that passes is a question's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

import policies
from plugins.framework.errors import StationmasterError
from policies.cel import Answers, EvaluationError
from policies.cel.protocol import MOST_BYTES, Unsendable, decode_reply
from policies.pipes import HEADER
from policies.strikes import NOT_READY, Strikes

SIZE: Final = 2
"""Workers: at least two, so that one is left while another is being replaced."""
MOST_SECONDS: Final = 1.0
"""Of the processor, for one question: a thousand times what a usual one takes."""
PATIENCE_SECONDS: Final = 5.0
"""On the clock, for one question: within the 10 s that the API server waits."""
LEAST_WAIT_SECONDS: Final = 0.02
"""Before it is looked again what a worker has had; the system counts in hundredths."""
MOST_MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space of a worker; 150 MB of it is what the interpreter and the engine take from the start."""
MOST_WAITING: Final = 4096
"""Questions that wait. More are refused at once: they would not be answered in time."""
START_SECONDS: Final = 30.0
"""For a worker to say that it is ready; 0.3 on an idle machine."""

_BOOT: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from policies.cel.worker import main; main(int(sys.argv[2]))"
)
_ROOT: Final = str(Path(policies.__file__).resolve().parent.parent)


def expressions_command(bytes_of_memory: int = MOST_MEMORY) -> list[str]:
    """How a worker for expressions is started."""
    return [sys.executable, "-P", "-c", _BOOT, _ROOT, str(bytes_of_memory)]


Outcome = Literal["answered", "timeout", "crash", "memory", "starved", "quarantined", "started"]


class Event(NamedTuple):
    """What happened to a policy's question, for metrics; ``started`` is a worker's, without a policy.

    ``timeout``, ``crash`` and ``memory`` count against the policy, and ``quarantined`` says that they were too many;
    ``starved`` counts against nobody.
    """

    outcome: Outcome
    policy: str = ""
    digest: str = ""


class Question(Protocol):
    """What a pool can be asked: expressions of a policy, or its custom options."""

    @property
    @abstractmethod
    def policy(self) -> str:
        """Key of the policy: what is served in turn, and quarantined."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Of what is asked, without the job: as long as it stays, a quarantine stays."""

    @abstractmethod
    def encode(self, seconds: float) -> bytes:
        """A frame; ``seconds`` is what the worker has for all of it. Raises Unsendable."""

    @abstractmethod
    def failed(self, error: EvaluationError) -> Answers:
        """The same error for everything asked."""


class WorkerDied(StationmasterError):
    """A worker ended, or could not be started."""


class Worker(Protocol):
    """One process, as the pool sees it."""

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether it can be asked."""

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """What it has had of the processor since it began; None where nobody knows."""

    @abstractmethod
    async def ask(self, frame: bytes) -> bytes:
        """Send a question, wait for the reply. Raises WorkerDied."""

    @abstractmethod
    async def kill(self) -> None:
        """End it at once, and wait until it is gone."""


Start = Callable[[], Awaitable[Worker]]


@dataclass(slots=True, eq=False)
class ProcessWorker(Worker):
    """A process of the same interpreter, started anew (not forked: it would share locks and memory)."""

    _process: asyncio.subprocess.Process
    _source: asyncio.StreamReader
    _sink: asyncio.StreamWriter

    @classmethod
    async def start(
        cls,
        command: Callable[[], Sequence[str]] = expressions_command,
        seconds: float = START_SECONDS,
    ) -> ProcessWorker:
        """Start one, and wait until it is ready. Raises WorkerDied."""
        process = await _spawned(command())
        if process.stdin is None or process.stdout is None:
            raise WorkerDied("no worker could be started: it has no pipes")
        worker = cls(process, process.stdout, process.stdin)
        try:
            async with asyncio.timeout(seconds):
                await worker._receive()
        except BaseException as error:
            await worker.kill()
            if isinstance(error, TimeoutError):
                raise WorkerDied("a worker was not ready in time") from error
            raise
        return worker

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    def cpu_seconds(self) -> float | None:
        """By ``/proc/PID/stat``, all its threads together; None where there is no such file."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_bytes()
        except OSError:
            return None
        # proc_pid_stat(5): after the name, which may hold anything, from field 3; utime and stime are 14 and 15.
        fields = stat.rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def ask(self, frame: bytes) -> bytes:
        """Send a question, wait for the reply. Raises WorkerDied."""
        try:
            self._sink.write(frame)
            await self._sink.drain()
        except (ConnectionError, RuntimeError) as error:
            raise WorkerDied("a worker ended") from error
        return await self._receive()

    async def kill(self) -> None:
        """End it at once with whatever it has started, and wait until it is gone."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        # Closes the pipes; without it the transport complains when it is collected.
        self._sink.close()

    async def _receive(self) -> bytes:
        try:
            header = await self._source.readexactly(HEADER.size)
            (size,) = HEADER.unpack(header)
            if size > MOST_BYTES:
                raise WorkerDied(f"a worker announced {size} bytes")
            return await self._source.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise WorkerDied("a worker ended") from error


async def _spawned(command: Sequence[str]) -> asyncio.subprocess.Process:
    """A new process; none is left behind where whoever wanted it is cancelled meanwhile. Raises WorkerDied."""
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # Nothing of ours: no token, no proxy, no path of libraries.
            env={},
            # A group of its own, so that what an option has started ends with it.
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(spawning)
    except OSError as error:
        raise WorkerDied(f"no worker could be started: {error}") from error
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await spawning
            process.kill()
            await process.wait()
        raise


@dataclass(slots=True, eq=False)
class _Job:
    question: Question
    frame: bytes
    answers: asyncio.Future[Answers]

    def finish(self, answers: Answers) -> None:
        """Tell whoever still waits."""
        if not self.answers.done():
            self.answers.set_result(answers)

    def fail(self, error: EvaluationError) -> None:
        self.finish(self.question.failed(error))


@dataclass(slots=True)
class _Queue:
    """Jobs by policy, taken in turn; a policy has at most ``most`` of them under way, and none while it is ``held``."""

    most: int
    held: Callable[[str], bool]
    waiting: OrderedDict[str, deque[_Job]] = field(default_factory=OrderedDict)
    running: dict[str, int] = field(default_factory=dict)
    size: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def put(self, job: _Job) -> None:
        async with self._changed:
            self.waiting.setdefault(job.question.policy, deque()).append(job)
            self.size += 1
            self._changed.notify()

    async def take(self) -> _Job:
        async with self._changed:
            while (job := self._next()) is None:
                await self._changed.wait()
            return job

    async def done(self, job: _Job) -> None:
        async with self._changed:
            policy = job.question.policy
            self.running[policy] -= 1
            if not self.running[policy]:
                del self.running[policy]
            self._changed.notify()

    async def look_again(self) -> None:
        """Somebody may no longer be held."""
        async with self._changed:
            self._changed.notify_all()

    def take_all(self) -> Iterable[_Job]:
        jobs = [job for queue in self.waiting.values() for job in queue]
        self.waiting.clear()
        self.size = 0
        return jobs

    def _next(self) -> _Job | None:
        for policy in list(self.waiting):
            queue = self.waiting[policy]
            while queue and queue[0].answers.done():
                # Nobody waits any more.
                queue.popleft()
                self.size -= 1
            if not queue:
                del self.waiting[policy]
            elif self.running.get(policy, 0) < self.most and not self.held(policy):
                job = queue.popleft()
                self.size -= 1
                # To the end: the others come first now.
                self.waiting.move_to_end(policy)
                if not queue:
                    del self.waiting[policy]
                self.running[policy] = self.running.get(policy, 0) + 1
                return job
        return None


class _Watch:
    """What a worker uses for one question."""

    def __init__(self, worker: Worker, clock: Callable[[], float]) -> None:
        self._worker = worker
        self._clock = clock
        self._began = clock()
        self._cpu = worker.cpu_seconds()

    def passed(self) -> float:
        return self._clock() - self._began

    def used(self) -> float:
        cpu = None if self._cpu is None else self._worker.cpu_seconds()
        return self.passed() if cpu is None or self._cpu is None else cpu - self._cpu


class _TooLong(Exception):
    """A question whose worker must be killed."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome: Outcome = outcome


def _ignore(_event: Event) -> None:
    """Nobody wants to know."""


class Pool:
    """Workers, started with the first question. One event loop's; ``close`` it before that ends."""

    def __init__(  # noqa: PLR0913  # each by its name, and most as they are
        self,
        *,
        size: int = SIZE,
        most_seconds: float = MOST_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        start: Start = ProcessWorker.start,
        on_event: Callable[[Event], None] = _ignore,
        strikes: Strikes | None = None,
        may_idle: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the number of workers (at least 2), and what one question may take: of the processor, on the clock.

        ``may_idle``: what is asked may wait for something, as code of others can and CEL cannot. Then patience that
        is over counts against the policy too.
        """
        if size < 2:
            raise ValueError(f"a pool has at least 2 workers, and not {size}")
        self._size = size
        self._most_seconds = most_seconds
        self._patience_seconds = patience_seconds
        self._start = start
        self._on_event = on_event
        self.strikes = Strikes() if strikes is None else strikes
        self._may_idle = may_idle
        self._clock = clock
        self._starting = 0
        self._queue = _Queue(most=size - 1, held=self._is_held)
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._one_is_up = asyncio.Event()
        """Also where none could be started: then there is nothing to wait for."""

    async def ask(
        self,
        questions: Sequence[Question],
        *,
        deadline: float,
        clock: Callable[[], float] | None = None,
    ) -> list[Answers]:
        """Answer the questions, in their order; those that are not answered by the deadline with errors.

        ``deadline`` in seconds of ``clock`` (that of the event loop where it is left out). Never raises for what a
        question holds.
        """
        loop = asyncio.get_running_loop()
        left = deadline - (clock or loop.time)()
        jobs = [await self._admitted(question, loop) for question in questions]
        waiting = [job.answers for job in jobs if not job.answers.done()]
        if waiting:
            try:
                await asyncio.wait(waiting, timeout=max(left, 0.0))
            except asyncio.CancelledError:
                for job in jobs:
                    job.answers.cancel()
                raise
        for job in jobs:
            # One that is under way goes on until its own time is over: only that counts against its policy.
            job.fail(
                EvaluationError(
                    f"took longer than the {max(left, 0.0):.3g} s that were left", "timeout"
                )
            )
        return [job.answers.result() for job in jobs]

    async def evaluate(
        self, questions: Sequence[Question], deadline: float | None
    ) -> list[Answers]:
        """As a Context's ``evaluate`` is: the deadline is monotonic, as the event loop's clock is, or there is none."""
        if deadline is None:
            # Nobody waits who could not wait for a worker to start, on however crowded a machine.
            seconds = START_SECONDS + self._patience_seconds * (1 + len(questions))
            deadline = asyncio.get_running_loop().time() + seconds
        return await self.ask(questions, deadline=deadline, clock=time.monotonic)

    def warm_up(self) -> None:
        """Start the workers now, where the first question should not wait for it; must be called on the loop."""
        if self._tasks or self._closed:
            return
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._serve(), name=f"worker-{number}") for number in range(self._size)
        ]

    async def ready(self) -> None:
        """Wait until a worker is there, or could not be started."""
        self.warm_up()
        if not self._closed:
            await self._one_is_up.wait()

    async def close(self) -> None:
        """Kill all workers; whoever waits is answered with an error."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for job in self._queue.take_all():
            job.fail(_CLOSED)

    async def _admitted(self, question: Question, loop: asyncio.AbstractEventLoop) -> _Job:
        """The job, in the queue; or answered already."""
        job = _Job(question, b"", loop.create_future())
        error = self._refusal(question)
        if error is None:
            try:
                job.frame = question.encode(self._patience_seconds)
            except Unsendable as unsendable:
                error = unsendable.error
        if error is not None:
            job.fail(error)
            return job
        self.warm_up()
        await self._queue.put(job)
        return job

    def _refusal(self, question: Question) -> EvaluationError | None:
        if self._closed:
            return _CLOSED
        if self.strikes.is_out(question.policy, question.digest):
            return EvaluationError(f"is not evaluated: {NOT_READY}", "quarantined")
        if self._queue.size >= MOST_WAITING:
            return EvaluationError(
                f"is not evaluated: {MOST_WAITING} questions wait already", "limit"
            )
        return None

    def _is_held(self, policy: str) -> bool:
        """Whether it could take the last worker from the others, for as long as a new one imports what it must."""
        return self._starting > 0 and self.strikes.is_suspect(policy)

    async def _serve(self) -> None:
        """One worker after another, for as long as the pool is open."""
        worker: Worker | None = None
        try:
            while True:
                worker = await self._living(worker)
                self._one_is_up.set()
                job = await self._queue.take()
                try:
                    if worker is None or not worker.is_alive:
                        # It ended while it was idle, or none could be started: this policy did nothing.
                        worker = await self._living(worker)
                    if worker is None:
                        job.fail(
                            EvaluationError("is not evaluated: no worker could be started", "crash")
                        )
                    elif not await self._run(worker, job):
                        await worker.kill()
                        worker = None
                except BaseException:
                    job.fail(_CLOSED)
                    raise
                finally:
                    await self._queue.done(job)
        finally:
            if worker is not None:
                await worker.kill()

    async def _living(self, worker: Worker | None) -> Worker | None:
        """The worker, or a new one in its place; None where none could be started."""
        if worker is not None:
            if worker.is_alive:
                return worker
            await worker.kill()
        self._starting += 1
        try:
            started = await self._start()
        except WorkerDied:
            return None
        finally:
            self._starting -= 1
            await self._queue.look_again()
        self._on_event(Event("started"))
        return started

    async def _run(self, worker: Worker, job: _Job) -> bool:
        """Ask; whether the worker may go on."""
        question = job.question
        refusal = self._refusal(question)
        if refusal is not None:
            # It was quarantined while this one waited.
            job.fail(refusal)
            return True
        try:
            reply = decode_reply(await self._reply(worker, job.frame))
        except _TooLong as late:
            self._strike(question, late.outcome)
            job.fail(EvaluationError(str(late), "timeout"))
            return False
        except (WorkerDied, ValueError, LookupError, TypeError):
            # Also where what came back is no reply: code of others runs there, and may write what it likes.
            self._strike(question, "crash")
            job.fail(EvaluationError("ended the process that evaluated it", "crash"))
            return False
        is_full = reply.retire and any(
            isinstance(one, EvaluationError) and one.reason == "memory"
            for one in reply.answers.values()
        )
        # A worker that is full is killed for this question, whoever ends it. One that has only grown may owe it to
        # all that it was asked.
        outcome: Outcome = "memory" if is_full else "answered"
        self._strike(question, outcome)
        job.finish(reply.answers)
        return not reply.retire

    async def _reply(self, worker: Worker, frame: bytes) -> bytes:
        """What the worker answers. Raises WorkerDied, and _TooLong where it must be killed."""
        watch = _Watch(worker, self._clock)
        asking = asyncio.ensure_future(worker.ask(frame))
        try:
            while True:
                own = self._most_seconds - watch.used()
                left = min(own, self._patience_seconds - watch.passed())
                if left <= 0:
                    raise self._too_long(is_used=own <= 0)
                await asyncio.wait((asking,), timeout=max(left, LEAST_WAIT_SECONDS))
                if asking.done():
                    return asking.result()
        finally:
            asking.cancel()

    def _too_long(self, *, is_used: bool) -> _TooLong:
        """Whose fault it is that the worker must be killed."""
        if is_used:
            return _TooLong("timeout", f"took longer than {self._most_seconds:g} s")
        patience = f"{self._patience_seconds:g} s"
        if self._may_idle:
            return _TooLong("timeout", f"took longer than {patience}")
        return _TooLong(
            "starved", f"was kept waiting for {patience}, the machine is busy: try again"
        )

    def _strike(self, question: Question, outcome: Outcome) -> None:
        """Tell what became of a question, and hold it against its policy where that is its own doing."""
        about = (question.policy, question.digest)
        self._on_event(Event(outcome, *about))
        if outcome in {"timeout", "crash", "memory"} and self.strikes.add(*about):
            self._on_event(Event("quarantined", *about))


_CLOSED: Final = EvaluationError("is not evaluated: the server stops", "crash")
