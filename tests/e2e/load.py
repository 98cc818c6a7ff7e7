"""Users who send TrainJobs all the time, right ones and wrong ones, and what became of each.

``Load`` counts at the client: what is lost there is lost, whatever logs and metrics say.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Self

from plugins.framework.api.names import TOTALS_ANNOTATION
from tests.e2e import jobs
from tests.e2e.controlplane import ControlPlane, Object, Response

WORKERS: Final = 2
PAUSE_SECONDS: Final = 0.05
"""Between two requests of a worker: the tests share two cores with what they load."""

EVERY_WRONG: Final = 4
"""One in so many jobs is one that must be refused."""

REQUEST_TIMEOUT: Final = "20s"
"""As clients give it. Without it the API server waits for its store for a minute."""

SAID: Final = 100
"""How much of a message is shown."""

_NOT_SYNCED: Final = "is forbidden: User"
"""An API server that has just started knows no roles yet, says that it is ready, and forbids everything."""


class Fate(Enum):
    """What became of a request."""

    KEPT = "as wanted"
    """Completed and stored, or refused for its mistake."""
    LOST = "lost"
    """The API server called us, and nobody answered."""
    WRONG = "wrong"
    """Stored without us, or refused though right."""
    AWAY = "API server away"
    """Neither: it did not answer, or could not reach its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client was told."""

    name: str
    is_right: bool
    """Whether the job was."""
    status: int
    said: str
    warnings: tuple[str, ...] = ()
    is_completed: bool = False

    @property
    def fate(self) -> Fate:
        """What it means."""
        if "failed calling webhook" in self.said:
            return Fate.LOST
        if self.status in {0, 429, 500, 503, 504} or _NOT_SYNCED in self.said:
            return Fate.AWAY
        if self.is_right:
            return Fate.KEPT if self.status == 201 and self.is_completed else Fate.WRONG
        is_ours = self.status == 422 and "must be at least 1" in self.said
        return Fate.KEPT if is_ours else Fate.WRONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All answers, counted."""

    fates: Mapping[Fate, int]
    seen: Mapping[str, int]
    """The messages that no user should have had to see, how often each."""
    warnings: frozenset[str]
    stored_wrong: int
    """Jobs that lie in the store and should not lie there so, whatever the client was told."""

    @property
    def lost(self) -> int:
        """Admissions that nobody answered."""
        return self.fates[Fate.LOST]

    @property
    def wrong(self) -> int:
        """Admissions with the wrong outcome."""
        return self.fates[Fate.WRONG] + self.stored_wrong

    def row(self, fault: str, proof: str) -> dict[str, str]:
        """A line of the table at the end of the run."""
        saw = "; ".join(f"{count} x {text}" for text, count in self.seen.items())
        counts = {fate.value: str(self.fates[fate]) for fate in Fate}
        return {
            "fault": fault,
            "proof": proof,
            "asked": str(sum(self.fates.values())),
            **counts,
            Fate.WRONG.value: str(self.wrong),
            "what users saw": saw or "nothing",
        }


class Load:
    """Sends from ``with`` on, until the block ends."""

    def __init__(self, plane: ControlPlane, namespace: str, *, runtime: str) -> None:
        """Send jobs of this runtime to this namespace, as alice."""
        self._plane = plane
        self._namespace = namespace
        self._runtime = runtime
        self._client = plane.client("alice")
        self._path = plane.admin.collection(jobs.TRAINER_API, "TrainJob", namespace)
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"load-{i}", daemon=True)
            for i in range(WORKERS)
        ]
        self.answers: list[Answer] = []

    def __enter__(self) -> Self:
        """Begin, and wait until all is well."""
        for thread in self._threads:
            thread.start()
        try:
            self.go_on()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """Send no more, and wait for the last answers."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, count: int = 20) -> None:
        """Wait until that many more requests end as they should, one after the other."""
        begin = len(self.answers)
        last = f"{count} more answers as wanted, one after the other"

        def enough() -> bool:
            answers = self.answers[begin:]
            kept = [answer.fate is Fate.KEPT for answer in answers]
            return len(kept) >= count and all(kept[-count:])

        self._plane.wait_for(enough, last)

    def wait_for(self, fate: Fate) -> None:
        """Wait until another request meets this fate."""
        begin = len(self.answers)
        self._plane.wait_for(
            lambda: any(answer.fate is fate for answer in self.answers[begin:]),
            f"a request to be {fate.value}",
        )

    def outcome(self) -> Outcome:
        """All answers counted, and the store looked at; to be asked once it was stopped."""
        assert self._ended.is_set(), "it still sends"
        stored = self._plane.wait_for(
            lambda: self._plane.admin.list(jobs.TRAINER_API, "TrainJob", self._namespace),
            "the jobs",
        )
        told_wrong = {answer.name for answer in self.answers if answer.fate is Fate.WRONG}
        return Outcome(
            fates=Counter(answer.fate for answer in self.answers),
            seen=Counter(
                _shape(answer.said) for answer in self.answers if answer.fate is not Fate.KEPT
            ),
            warnings=frozenset(text for answer in self.answers for text in answer.warnings),
            stored_wrong=sum(
                _is_wrong(job) and job["metadata"]["name"] not in told_wrong for job in stored
            ),
        )

    def _work(self) -> None:
        while not self._ended.wait(PAUSE_SECONDS):
            number = next(self._numbers)
            self.answers.append(self._send(number, is_right=bool(number % EVERY_WRONG)))

    def _send(self, number: int, *, is_right: bool) -> Answer:
        name = f"{'right' if is_right else 'wrong'}-{number}"
        trainer = {"numNodes": 2 if is_right else 0}
        job = jobs.train_job(self._namespace, name, runtime=self._runtime, trainer=trainer)
        try:
            response = self._client.request(
                "POST", self._path, job, query={"timeout": REQUEST_TIMEOUT}
            )
        except OSError as error:
            return Answer(name=name, is_right=is_right, status=0, said=type(error).__name__)
        return Answer(
            name=name,
            is_right=is_right,
            status=response.status,
            said=_said(response),
            warnings=tuple(response.warnings),
            is_completed=response.status == 201 and _is_completed(response.json()),
        )


def _is_completed(job: Object) -> bool:
    return TOTALS_ANNOTATION in job["metadata"].get("annotations", {})


def _is_wrong(job: Object) -> bool:
    return job["metadata"]["name"].startswith("wrong-") or not _is_completed(job)


def _said(response: Response) -> str:
    if response.status < 400:
        return ""
    with suppress(ValueError):
        return str(response.json().get("message", ""))
    return response.body.decode(errors="replace")


def _shape(said: str) -> str:
    """A message without what differs from one to the next: names, ports, times."""
    text = re.sub(r'^.*failed calling webhook .*?: (?=Post )|Post "[^"]*": ', "", said)
    text = re.sub(r'Post "[^"]*": ', "webhook call failed: ", text)
    text = re.sub(r"(right|wrong)-\d+", "JOB", text)
    text = re.sub(r"\d+(\.\d+)+(:\d+)?|:\d{2,}", "ADDRESS", text)
    return text if len(text) <= SAID else f"{text[:SAID]}…"
