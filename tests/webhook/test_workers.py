from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from plugins.framework import field
from policies import cel
from policies.cel.protocol import (
    MOST_BYTES,
    Reply,
    Unsendable,
    decode_question,
    decode_reply,
    encode_question,
    encode_reply,
    frame,
)
from policies.document import Expression
from policies.pipes import HEADER
from policies.strikes import Strikes
from tests.policies.cel import conformance, hostile
from webhook.workers import (
    Event,
    Pool,
    ProcessWorker,
    Worker,
    WorkerDied,
    _spawned,
    expressions_command,
)

FAR: Final = 100.0
"""Seconds that no test takes: a guard, not a measure."""


def question(
    policy: str = "p", *texts: str, digest: str = "1", data: dict[str, Any] | None = None
) -> cel.Question:
    asks = tuple(cel.Ask(str(i), text) for i, text in enumerate(texts or ("1 + 1",)))
    return cel.Question(policy=policy, digest=digest, expressions=asks, data=data or {})


class FakeWorker(Worker):
    """Answers what its script says: a reply, an exception, or nothing for ever."""

    def __init__(
        self,
        answer: Callable[[bytes], Any],
        seen: asyncio.Queue[str],
        cpu: Callable[[], float | None],
    ) -> None:
        self.answer = answer
        self.cpu = cpu
        self.seen = seen
        self.alive = True
        self.asked: list[list[str]] = []

    @property
    def is_alive(self) -> bool:
        return self.alive

    def cpu_seconds(self) -> float | None:
        return self.cpu()

    async def ask(self, frame: bytes) -> bytes:
        received = decode_question(frame[HEADER.size :])
        self.asked.append([ask.text for ask in received.question.expressions])
        self.seen.put_nowait(self.asked[-1][0])
        answer = self.answer(frame)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return encode_reply(answer)[HEADER.size :]
        return encode_reply(Reply(cel.ask(received.question), retire=False))[HEADER.size :]

    async def kill(self) -> None:
        self.alive = False


class Fakes:
    """What starts fake workers, and keeps them."""

    def __init__(
        self,
        answer: Callable[[bytes], Any] = lambda _frame: None,
        cpu: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.answer = answer
        self.cpu = cpu
        self.seen: asyncio.Queue[str] = asyncio.Queue()
        self.started: list[FakeWorker] = []

    async def __call__(self) -> Worker:
        worker = FakeWorker(self.answer, self.seen, self.cpu)
        self.started.append(worker)
        return worker


def hanging_on(text: str) -> Callable[[bytes], Any]:
    """Never answers a question with this in it."""

    def answer(body: bytes) -> Any:
        if text.encode() in body:
            return asyncio.get_running_loop().create_future()
        return None

    return answer


@contextlib.asynccontextmanager
async def pooled(fakes: Fakes, **settings: Any) -> AsyncIterator[tuple[Pool, list[Event]]]:
    events: list[Event] = []
    pool = Pool(start=fakes, on_event=events.append, **settings)
    try:
        yield pool, events
    finally:
        await pool.close()


async def ask(pool: Pool, *questions: cel.Question, seconds: float = FAR) -> list[cel.Answers]:
    return await pool.ask(questions, deadline=seconds, clock=lambda: 0.0)


# The queue, with workers that are none.


async def test_answers_come_in_the_order_of_the_questions() -> None:
    async with pooled(Fakes()) as (pool, _):
        questions = [question(f"p{i % 3}", f"{i} + 0", "'x'") for i in range(20)]
        answers = await ask(pool, *questions)
    assert answers == [{"0": i, "1": "x"} for i in range(20)]


async def test_workers_start_with_the_first_question() -> None:
    fakes = Fakes()
    async with pooled(fakes, size=3) as (pool, events):
        assert fakes.started == []
        await ask(pool, question())
        await ask(pool, question())
    assert len(fakes.started) == 3
    assert events.count(Event("started")) == 3
    assert not any(worker.alive for worker in fakes.started)


async def test_one_that_hangs_keeps_nobody_waiting() -> None:
    async with pooled(Fakes(hanging_on("hang")), most_seconds=FAR) as (pool, _):
        hanging = [
            asyncio.ensure_future(ask(pool, question("bad", f"'hang' + '{i}'"))) for i in range(5)
        ]
        await asyncio.sleep(0)
        for i in range(20):
            assert await ask(pool, question("good", f"{i}")) == [{"0": i}]
        assert not any(one.done() for one in hanging)
    for one in hanging:
        (answers,) = await one
        assert answers["0"] == cel.EvaluationError("is not evaluated: the server stops", "crash")


async def test_policies_take_turns() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    fakes = Fakes(lambda body: gate if b"held" in body else None)
    async with pooled(fakes) as (pool, _):
        # One worker is held, so that the other takes all that lines up, one by one.
        held = asyncio.ensure_future(ask(pool, question("x", "'held'")))
        assert await fakes.seen.get() == "'held'"
        texts = ("'a0'", "'a1'", "'a2'", "'a3'", "'b0'", "'b1'", "'c0'")
        await ask(pool, *(question(text[1], text) for text in texts))
        order = [await fakes.seen.get() for _ in texts]
        gate.set_result(None)
        await held
    assert order == ["'a0'", "'b0'", "'c0'", "'a1'", "'b1'", "'a2'", "'a3'"]


async def test_two_kills_quarantine_a_policy_until_its_digest_changes() -> None:
    async with pooled(Fakes(hanging_on("hang")), most_seconds=0.01) as (pool, events):
        bad = question("bad", "'hang'")
        late = cel.EvaluationError("took longer than 0.01 s", "timeout")
        assert await ask(pool, bad) == [{"0": late}]
        assert pool.strikes.quarantined == {}
        assert await ask(pool, bad) == [{"0": late}]
        assert pool.strikes.quarantined == {"bad": "1"}
        (answers,) = await ask(pool, bad)
        assert answers["0"].reason == "quarantined"
        assert "killed 2 times" in answers["0"].message
        assert await ask(pool, question("bad", "1", digest="2")) == [{"0": 1}]
        assert await ask(pool, question("other", "2")) == [{"0": 2}]
        policy = [event.outcome for event in events if event.policy == "bad"]
        assert policy == ["timeout", "timeout", "quarantined", "answered"]
        assert all(event.digest in ("1", "2") for event in events if event.policy)


async def test_one_that_the_machine_keeps_waiting_is_killed_without_blame() -> None:
    fakes = Fakes(hanging_on("hang"), cpu=lambda: 7.0)
    async with pooled(fakes, most_seconds=0.001, patience_seconds=0.05) as (pool, events):
        for _ in range(3):
            (answers,) = await ask(pool, question("slow", "'hang'"))
            text = "was kept waiting for 0.05 s, the machine is busy: try again"
            assert answers["0"] == cel.EvaluationError(text, "timeout")
        assert pool.strikes.quarantined == {}
        assert events.count(Event("starved", "slow", "1")) == 3
        assert sum(not worker.alive for worker in fakes.started) == 3
        assert await ask(pool, question("slow", "5")) == [{"0": 5}]


async def test_one_that_is_kept_waiting_may_still_answer() -> None:
    looks: list[int] = []
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def cpu() -> float:
        looks.append(1)
        if len(looks) == 4:
            gate.set_result(None)
        return 0.0

    async with pooled(Fakes(lambda _frame: gate, cpu), most_seconds=0.001) as (pool, events):
        assert await ask(pool, question()) == [{"0": 2}]
        assert events[-1].outcome == "answered"


async def test_what_a_worker_has_had_of_the_processor_counts_and_no_clock() -> None:
    had = iter(range(100))
    fakes = Fakes(hanging_on("hang"), cpu=lambda: next(had) / 10)
    no_time_passes = {"clock": lambda: 0.0}
    async with pooled(fakes, most_seconds=0.3, **no_time_passes) as (pool, events):
        for _ in range(2):
            (answers,) = await ask(pool, question("bad", "'hang'"))
            assert answers["0"] == cel.EvaluationError("took longer than 0.3 s", "timeout")
        assert pool.strikes.quarantined == {"bad": "1"}
        assert events.count(Event("timeout", "bad", "1")) == 2


async def test_one_that_waits_for_something_is_to_blame_where_it_can() -> None:
    fakes = Fakes(hanging_on("hang"), cpu=lambda: 0.0)
    settings = {"most_seconds": 0.001, "patience_seconds": 0.05, "may_idle": True}
    async with pooled(fakes, **settings) as (pool, _):
        for _ in range(2):
            (answers,) = await ask(pool, question("bad", "'hang'"))
            assert answers["0"] == cel.EvaluationError("took longer than 0.05 s", "timeout")
        assert pool.strikes.quarantined == {"bad": "1"}


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_worker_that_a_question_has_filled_counts_against_its_policy(
    is_full: bool,
) -> None:
    error = cel.EvaluationError("took too much memory", "memory")
    fakes = Fakes(lambda _frame: Reply({"0": error}, retire=is_full))
    async with pooled(fakes) as (pool, events):
        for _ in range(2):
            assert await ask(pool, question("bad")) == [{"0": error}]
        assert pool.strikes.quarantined == ({"bad": "1"} if is_full else {})
        assert (Event("memory", "bad", "1") in events) is is_full


async def test_pools_count_the_kills_of_a_policy_together() -> None:
    strikes = Strikes()
    for _ in range(2):
        async with pooled(Fakes(hanging_on("hang")), most_seconds=0.01, strikes=strikes) as (
            pool,
            _,
        ):
            await ask(pool, question("bad", "'hang'"))
    assert strikes.quarantined == {"bad": "1"}


async def test_a_killed_worker_is_replaced() -> None:
    fakes = Fakes(hanging_on("hang"))
    async with pooled(fakes, most_seconds=0.01) as (pool, _):
        await ask(pool, question("bad", "'hang'"))
        assert await ask(pool, *(question(f"p{i}") for i in range(6))) == [{"0": 2}] * 6
        assert sum(not worker.alive for worker in fakes.started) == 1
        assert sum(worker.alive for worker in fakes.started) == 2


def held(
    fakes: Fakes, *, after: int, until: asyncio.Future[None]
) -> Callable[[], Awaitable[Worker]]:
    """Start so many, and the next one only then."""

    async def start() -> Worker:
        if len(fakes.started) == after:
            await until
        return await fakes()

    return start


async def test_what_was_killed_waits_until_all_workers_are_there_again() -> None:
    """A new one may have seconds to import; the last must not be lost meanwhile."""
    fakes = Fakes(hanging_on("hang"))
    imported: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pool = Pool(start=held(fakes, after=2, until=imported), most_seconds=0.01)
    try:
        await ask(pool, question("bad", "'hang'"))
        again = asyncio.ensure_future(ask(pool, question("bad", "'hang'")))
        for i in range(5):
            await asyncio.sleep(0.01)
            assert await ask(pool, question("good", f"{i}")) == [{"0": i}]
        assert not again.done()
        assert pool.strikes.quarantined == {}
        imported.set_result(None)
        await again
        assert pool.strikes.quarantined == {"bad": "1"}
    finally:
        await pool.close()


async def test_what_waits_when_its_policy_is_quarantined_is_refused_at_once() -> None:
    fakes = Fakes(hanging_on("hang"))
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pool = Pool(start=held(fakes, after=3, until=never), most_seconds=0.01)
    try:
        await ask(pool, question("bad", "'hang'"))
        first, second = await ask(pool, question("bad", "'hang'"), question("bad", "'hang'"))
        assert [first["0"].reason, second["0"].reason] == ["timeout", "quarantined"]
    finally:
        await pool.close()


async def test_kills_of_a_policy_that_is_gone_are_forgotten() -> None:
    async with pooled(Fakes(hanging_on("hang")), most_seconds=0.01) as (pool, _):
        bad = question("bad", "'hang'")
        await ask(pool, bad)
        await ask(pool, bad)
        pool.strikes.retain(["other"])
        assert pool.strikes.quarantined == {}


async def test_a_worker_that_dies_of_a_question_counts_against_its_policy() -> None:
    async with pooled(Fakes(lambda _frame: WorkerDied("a worker ended"))) as (pool, events):
        for _ in range(2):
            (answers,) = await ask(pool, question("bad"))
            assert answers["0"] == cel.EvaluationError(
                "ended the process that evaluated it", "crash"
            )
        assert pool.strikes.quarantined == {"bad": "1"}
        assert Event("crash", "bad", "1") in events


async def test_a_worker_that_died_while_it_was_idle_counts_against_nobody() -> None:
    fakes = Fakes()
    async with pooled(fakes) as (pool, events):
        await ask(pool, question())
        for worker in fakes.started:
            worker.alive = False
        assert await ask(pool, question("p", "3")) == [{"0": 3}]
        assert not any(event.outcome == "crash" for event in events)


async def test_the_callers_deadline_is_kept_and_counts_against_nobody() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with pooled(Fakes(lambda _frame: gate), most_seconds=FAR) as (pool, events):
        answers = await ask(pool, question("slow"), question("slow"), seconds=0.01)
        want = cel.EvaluationError("took longer than the 0.01 s that were left", "timeout")
        assert answers == [{"0": want}] * 2
        # The worker goes on; what waited behind it was taken back.
        gate.set_result(None)
        assert await ask(pool, question("slow", "5")) == [{"0": 5}]
        assert pool.strikes.quarantined == {}
        assert not any(event.outcome in ("timeout", "crash") for event in events)


async def test_a_deadline_that_has_passed_is_answered_at_once() -> None:
    async with pooled(Fakes(hanging_on("1"))) as (pool, _):
        (answers,) = await ask(pool, question(), seconds=-1.0)
        assert answers["0"].reason == "timeout"


async def test_a_caller_that_is_cancelled_leaves_nothing_behind() -> None:
    fakes = Fakes(hanging_on("hang"))
    async with pooled(fakes, most_seconds=FAR) as (pool, _):
        first = asyncio.ensure_future(ask(pool, question("a", "'hang'")))
        await fakes.seen.get()
        second = asyncio.ensure_future(ask(pool, question("a", "'hang2'")))
        await asyncio.sleep(0)
        for one in (first, second):
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
        assert await ask(pool, question("b", "7")) == [{"0": 7}]
        assert [["'hang2'"]] not in [worker.asked for worker in fakes.started]


async def test_a_worker_that_has_grown_is_replaced_without_blame() -> None:
    fakes = Fakes(lambda _frame: Reply({"0": 1}, retire=True))
    async with pooled(fakes) as (pool, events):
        for _ in range(4):
            assert await ask(pool, question()) == [{"0": 1}]
        assert sum(not worker.alive for worker in fakes.started) >= 3
        assert pool.strikes.quarantined == {}
        assert not any(event.outcome in ("timeout", "crash") for event in events)


async def test_workers_that_cannot_be_started_are_told() -> None:
    async def none() -> Worker:
        raise WorkerDied("no worker could be started")

    pool = Pool(start=none)
    try:
        (answers,) = await ask(pool, question())
        assert answers["0"] == cel.EvaluationError(
            "is not evaluated: no worker could be started", "crash"
        )
        assert pool.strikes.quarantined == {}
    finally:
        await pool.close()


async def test_a_closed_pool_answers() -> None:
    pool = Pool(start=Fakes())
    await pool.close()
    (answers,) = await ask(pool, question())
    assert answers["0"] == cel.EvaluationError("is not evaluated: the server stops", "crash")


def test_a_pool_has_at_least_two_workers() -> None:
    with pytest.raises(ValueError, match="at least 2 workers"):
        Pool(size=1)


# The frames.


async def test_a_text_that_is_none_is_answered() -> None:
    async with pooled(Fakes()) as (pool, _):
        (answers,) = await ask(pool, question("p", "'\ud800'"))
    assert answers["0"] == cel.EvaluationError(
        "does not compile: must not have halves of surrogate pairs"
    )


def test_what_cannot_be_json_goes_as_the_reason_why() -> None:
    asked = question("p", "object == params", data={"object": "a\0", "params": 2**70, "totals": 1})
    received = decode_question(encode_question(asked, 1.5)[HEADER.size :])
    assert received.question.data == {"totals": 1}
    assert received.faults == {
        "object": "has a text with a NUL character",
        "params": "has a whole number beyond 64 bits",
    }
    assert received.seconds == 1.5
    assert cel.ask(asked)["0"] == cel.EvaluationError(
        "object has a text with a NUL character", "data"
    )


def test_replies_keep_errors_and_order() -> None:
    answers = {"b": [None, {"x": 1.0}], "a": cel.EvaluationError("no", "limit")}
    reply = decode_reply(encode_reply(Reply(answers, retire=True))[HEADER.size :])
    assert list(reply.answers.items()) == list(answers.items())
    assert reply.retire is True


def test_a_frame_is_bounded() -> None:
    with pytest.raises(Unsendable, match="at most"):
        frame(bytes(MOST_BYTES + 1))


# Real processes.


async def test_a_worker_gives_the_answers_that_the_server_gives() -> None:
    rows = conformance.rows()
    plain = [row for row in rows if row.data == {"params": {}}]
    questions = [
        cel.Question(
            policy="spec",
            digest=f"plain{i}",
            expressions=tuple(cel.Ask(row.name, row.expr) for row in plain[i : i + 100]),
            data={"params": {}},
        )
        for i in range(0, len(plain), 100)
    ]
    questions += [
        cel.Question(
            policy="spec",
            digest="bound",
            expressions=(cel.Ask(row.name, row.expr),),
            data=row.data,
        )
        for row in rows
        if row.data != {"params": {}}
    ]
    pool = Pool(most_seconds=FAR)
    try:
        answers = await ask(pool, *questions)
    finally:
        await pool.close()
    found = [list(one.items()) for one in answers]
    assert repr(found) == repr([list(cel.ask(one).items()) for one in questions])
    assert sum(map(len, found)) == len(rows)


async def _asked(pool: Pool, name: str, data: dict[str, Any]) -> Any:
    text = hostile.EXPRESSIONS[name]
    made = cel.compile(Expression(text, field.Path()), wants="any")
    reads = made.reads if isinstance(made, cel.Program) else frozenset()
    cut = cel.cut_all(data, reads)
    (answers,) = await ask(pool, question(name, text, data=cut))
    return answers["0"]


ENDED: Final = (
    "a text that doubles in a chain of map",
    "a text that doubles in a few binds",
    "a text that grows by replace",
    "a text that grows by replacing nothing",
    "a list of lists that doubles",
    "many regexes over a megabyte, for each step",
    "a list of 10^9",
)
"""These have no answer but an error, of time or of memory, however fast the machine is."""


@pytest.mark.slow
async def test_hostile_expressions_end_in_workers_and_others_are_answered() -> None:
    data = hostile.data()
    pool = Pool()
    done = asyncio.Event()
    others: list[cel.Answers] = []

    async def client() -> None:
        while not done.is_set():
            asked = question("good", "1 + 1", "'a'.matches('a')")
            others.extend(await ask(pool, asked))
            await asyncio.sleep(0.01)

    try:
        second = asyncio.ensure_future(client())
        answers = {name: await _asked(pool, name, data) for name in hostile.EXPRESSIONS}
        done.set()
        await second
    finally:
        await pool.close()
    for name in ENDED:
        assert isinstance(answers[name], cel.EvaluationError), name
        assert answers[name].reason in ("timeout", "limit", "memory", "crash"), (
            name,
            answers[name],
        )
    right = [one for one in others if one == {"0": 2, "1": True}]
    assert len(right) > 10
    # However busy the machine is.
    assert "good" not in pool.strikes.quarantined
    wrong = [one for one in others if one not in right]
    assert all(isinstance(one["0"], cel.EvaluationError) for one in wrong)


def _start(bytes_of_memory: int = 2**30) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        expressions_command(bytes_of_memory),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
    )


def _receive(worker: subprocess.Popen[bytes]) -> bytes:
    assert worker.stdout is not None
    (size,) = HEADER.unpack(worker.stdout.read(HEADER.size))
    return worker.stdout.read(size)


@pytest.mark.slow
def test_a_worker_whose_server_was_killed_ends_by_itself() -> None:
    with _start() as worker:
        assert worker.stdin is not None
        assert _receive(worker) == b"ready"
        text = hostile.EXPRESSIONS["many regexes over a megabyte, for each step"]
        hung = question("p", text, data={"object": hostile.data()["object"]})
        # Long enough to be begun on a crowded machine, and far from what it takes.
        worker.stdin.write(encode_question(hung, 3.0))
        worker.stdin.flush()
        assert worker.wait(FAR) == -signal.SIGALRM


def test_a_worker_ends_with_its_input() -> None:
    with _start() as worker:
        assert worker.stdin is not None
        assert _receive(worker) == b"ready"
        worker.stdin.close()
        assert worker.wait(FAR) == 0


def test_a_worker_skips_what_it_has_no_time_for() -> None:
    with _start() as worker:
        assert worker.stdin is not None
        assert _receive(worker) == b"ready"
        worker.stdin.write(encode_question(question("p", "1", "2"), -1.0))
        worker.stdin.flush()
        late = cel.EvaluationError("took longer than the time that was left", "timeout")
        assert decode_reply(_receive(worker)).answers == {"0": late, "1": late}
        worker.stdin.close()


def test_a_worker_has_bounded_memory_and_says_when_it_has_grown() -> None:
    with _start(600 * 2**20) as worker:
        assert worker.stdin is not None
        assert _receive(worker) == b"ready"
        text = (
            "cel.bind(a, 'xxxxxxxxxxxxxxxx', " + "cel.bind(a, a + a, " * 26 + "a.size()" + ")" * 27
        )
        worker.stdin.write(encode_question(question("p", text, "1"), FAR))
        worker.stdin.flush()
        reply = decode_reply(_receive(worker))
        assert reply.answers["0"] == cel.EvaluationError("took too much memory", "memory")
        assert reply.retire
        worker.stdin.close()


async def test_a_worker_that_is_killed_from_outside_is_replaced() -> None:
    started: list[ProcessWorker] = []

    async def start() -> Worker:
        worker = await ProcessWorker.start()
        started.append(worker)
        return worker

    pool = Pool(start=start)
    try:
        assert await ask(pool, question()) == [{"0": 2}]
        for worker in [*started]:  # others come for those that go
            os.kill(worker._process.pid, signal.SIGKILL)
            await worker._process.wait()
        assert await ask(pool, question("p", "3")) == [{"0": 3}]
        assert pool.strikes.quarantined == {}
    finally:
        await pool.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say it")
async def test_a_worker_knows_what_it_has_had_of_the_processor() -> None:
    worker = await ProcessWorker.start()
    try:
        began = worker.cpu_seconds()
        assert began is not None
        assert began > 0, "it has imported the engine"
        text = "[" + "1," * 99 + "1].map(a, [1,2,3,4,5,6,7,8,9].map(b, a * b).size()).size()"
        while (now := worker.cpu_seconds()) == began:
            await worker.ask(encode_question(question("p", text, digest=str(now)), FAR))
        assert now is not None
        assert now > began
    finally:
        await worker.kill()
    assert worker.cpu_seconds() is None, "it is gone, as where there is no /proc"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say it")
async def test_a_worker_that_the_system_does_not_run_is_killed_without_blame() -> None:
    async def start() -> Worker:
        worker = await ProcessWorker.start()
        os.kill(worker._process.pid, signal.SIGSTOP)
        return worker

    pool = Pool(start=start, most_seconds=0.05, patience_seconds=0.2)
    try:
        for _ in range(2):
            (answers,) = await ask(pool, question())
            assert answers["0"].message.startswith("was kept waiting for 0.2 s")
        assert pool.strikes.quarantined == {}
    finally:
        await pool.close()


CHILD: Final = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
os.write(1, (4).to_bytes(4, "big") + child.pid.to_bytes(4, "big"))
sys.stdin.read()
"""


async def test_what_a_worker_has_started_ends_with_it() -> None:
    """An option may have called a program that never ends: nobody else would end it."""
    process = await _spawned([sys.executable, "-c", CHILD])
    assert process.stdout is not None
    assert process.stdin is not None
    worker = ProcessWorker(process, process.stdout, process.stdin)
    child = int.from_bytes(await worker._receive(), "big")
    try:
        await worker.kill()
        async with asyncio.timeout(FAR):
            assert await process.stdout.read() == b"", "whoever had this pipe has ended"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


async def test_no_worker_starts_where_it_has_no_memory() -> None:
    with pytest.raises(WorkerDied):
        await ProcessWorker.start(partial(expressions_command, 2**20))
    pool = Pool(start=partial(ProcessWorker.start, partial(expressions_command, 2**20)))
    try:
        (answers,) = await ask(pool, question())
        assert answers["0"].message == "is not evaluated: no worker could be started"
    finally:
        await pool.close()


def test_a_worker_loads_nothing_of_the_server() -> None:
    code = "import policies.cel.worker, sys; print(sorted(sys.modules))"
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=FAR
    ).stdout
    for name in ("aiohttp", "asyncio", "kubernetes", "click", "structlog", "webhook"):
        assert f"'{name}'" not in out


def test_a_question_is_json_on_the_way() -> None:
    body = encode_question(question("p", "1", data={"object": {"a": [1, None]}}), 2.0)
    assert orjson.loads(body[HEADER.size :]) == {
        "digest": "1",
        "variables": [],
        "expressions": [["0", "1", "any"]],
        "data": {"object": {"a": [1, None]}},
        "faults": {},
        "seconds": 2.0,
    }
