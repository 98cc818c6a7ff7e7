"""The webhook port: from an HTTP request to a review's bytes, and from an answer's bytes back.

Whatever parses as a review is answered with 200, refusals and our own faults included: to the API
server any other status means "the webhook broke". The rest is either a mistake or an attack, and told
so in a short JSON body.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from plugins.framework.errors import BadReview
from webhook.logs import DecisionLog, describe
from webhook.server import Connection, Reply, refuse

if TYPE_CHECKING:
    from aiohttp import StreamReader, web
    from structlog.typing import FilteringBoundLogger

    from webhook.metrics import Recorder
    from webhook.review import Answer

BODY_BYTES: Final = 8 * 1024 * 1024
"""A user's request is at most 3 MiB, and a review of an update holds two of them: the new and the old
object. With the envelope and the escapes of JSON in JSON (last-applied annotations) 7 MiB is what
controller-runtime allows; files on the command line may have 8 MiB, and so may a review of one."""

BODIES_BYTES: Final = 16 * BODY_BYTES
"""Memory for bodies that are still arriving, all together; more is asked to come back."""

MOST_IN_FLIGHT: Final = 64
"""Reviews that wait for something at the same time; more is asked to come back."""

COME_BACK: Final = MappingProxyType({"Retry-After": "1"})
"""With this header the API server's client repeats a 503 up to ten times within its timeout."""

DEFAULT_SECONDS: Final = 10.0
"""The API server's own default, for callers that name no timeout."""

LONGEST_SECONDS: Final = 30.0
"""The largest ``timeoutSeconds`` that a webhook configuration may have."""

MARGIN: Final = 0.1
"""Part of the time that we keep for sending: a late answer is "context deadline exceeded" to the user,
an early one says what was not finished."""

SHORTEST_MARGIN: Final = 0.1


Decide: TypeAlias = Callable[..., Awaitable["Answer"]]
Webhook: TypeAlias = Literal["mutate", "mutate-podgroups", "validate"]


class Reviewer(Protocol):
    """What decides. It answers every review, its own faults included, and raises BadReview only."""

    @abstractmethod
    async def mutate(self, body: bytes, *, deadline: float) -> Answer:
        """Complete the object, or refuse it."""

    @abstractmethod
    async def validate(self, body: bytes, *, deadline: float) -> Answer:
        """Judge the object as it will be stored."""


class Admission:
    """Handles the webhook port. One handler and a look-up: a router would cost a tenth of a call."""

    def __init__(
        self,
        reviewer: Reviewer,
        *,
        recorder: Recorder,
        logger: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Let ``reviewer`` decide; ``clock`` is the one that deadlines are read from."""
        self._decide: dict[Webhook, Decide] = {
            "mutate": reviewer.mutate,
            "mutate-podgroups": reviewer.mutate,
            "validate": reviewer.validate,
        }
        self._recorder = recorder
        self._decisions = DecisionLog(logger)
        self._logger = logger
        self.clock = clock
        self.arriving = 0
        self.in_flight = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            target, content = _target(request), request.content
            deadline = self._begun(request) + target.seconds
            # Whole in nearly all cases, and then small: aiohttp stops reading at 128 KiB until we ask.
            whole = content.is_eof()
            body = content.read_nowait() if whole else await self._arrival(request, deadline)
            return await self._review(target, body, deadline)
        except _RefusedError as refused:
            self._recorder.rejected(refused.reason)
            response = refuse(refused.status, str(refused), **refused.headers)
            if not request.content.is_eof():
                response.force_close()  # the rest of the body is not wanted
            return response
        except ConnectionError:
            raise  # nobody is left to be answered
        except Exception as exc:  # noqa: BLE001  # the last guard: a fault of ours must have an answer
            self._recorder.rejected("fault")
            fault = describe(exc)  # a traceback, as of TRY400, would quote values
            self._logger.error("request failed", path=request.path[:64], **fault)  # noqa: TRY400
            return refuse(500, "internal error")

    async def _review(self, target: Target, body: bytes, deadline: float) -> web.StreamResponse:
        if self.clock() >= deadline:
            raise _RefusedError(503, "late", "no time is left", **COME_BACK)
        if self.in_flight >= MOST_IN_FLIGHT:
            raise _RefusedError(503, "busy", "too many reviews at once", **COME_BACK)
        self.in_flight += 1
        try:
            answer = await self._decide[target.webhook](body, deadline=deadline)
        except BadReview as exc:
            raise _RefusedError(400, "not_a_review", str(exc)) from exc
        finally:
            self.in_flight -= 1
        spent = self.clock() - deadline + target.seconds
        self._recorder.answered(target.webhook, answer, spent)
        self._decisions.write(target.webhook, answer, spent)
        return Reply(answer.body)

    def _begun(self, request: web.BaseRequest) -> float:
        """When the first byte came; time spent waiting for our turn counts as ours."""
        connection = request.protocol
        return connection.since if isinstance(connection, Connection) else self.clock()

    async def _arrival(self, request: web.BaseRequest, deadline: float) -> bytes:
        expected = _expected(request)
        if self.arriving + expected > BODIES_BYTES:
            raise _RefusedError(503, "busy", "too many large requests at once", **COME_BACK)
        self.arriving += expected
        try:
            async with asyncio.timeout(deadline - self.clock()):
                return await _read(request, request.content)
        except TimeoutError as exc:
            # Also how a broken chunk in the middle ends: aiohttp tells nobody who waits for the rest.
            raise _RefusedError(408, "timeout", "the body did not arrive in time") from exc
        finally:
            self.arriving -= expected


class Target(NamedTuple):
    """What a request's path and query ask for."""

    webhook: Webhook
    seconds: float
    """How long we may take: the caller's timeout less our margin."""


@lru_cache(maxsize=64)
def parse_target(raw: str) -> Target | None:
    """Read ``/mutate?timeout=10s``; None for a path that is not ours.

    The API server sends whole seconds. A timeout that cannot be read counts as none was given.
    """
    path, _, query = raw.partition("?")
    webhook = PATHS.get(path)
    if webhook is None:
        return None
    found = TIMEOUT.search(query)
    seconds = min((found and int(found[1])) or DEFAULT_SECONDS, LONGEST_SECONDS)
    return Target(webhook, seconds - max(seconds * MARGIN, SHORTEST_MARGIN))


PATHS: Final[dict[str, Webhook]] = {
    "/mutate": "mutate",
    # Apart, since its answers wait for the API server: metrics of the other stay those of answers that do not.
    "/mutate-podgroups": "mutate-podgroups",
    "/validate": "validate",
}
TIMEOUT: Final = re.compile(r"(?:^|&)timeout=(\d{1,6})s(?:&|$)", re.ASCII)


def _target(request: web.BaseRequest) -> Target:
    target = parse_target(request.raw_path)
    if target is None:
        raise _RefusedError(404, "unknown_path", "not found: POST to /mutate or /validate")
    if request.method != "POST":
        raise _RefusedError(405, "wrong_method", "POST an AdmissionReview", Allow="POST")
    headers = request.headers
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise _RefusedError(415, "wrong_type", "the Content-Type must be application/json")
    if "Content-Encoding" in headers:
        raise _RefusedError(415, "wrong_type", "a Content-Encoding is not supported")
    return target


def _expected(request: web.BaseRequest) -> int:
    """How much memory the body may take: what it says, or all that it may."""
    length = request.content_length
    if length is None:
        return BODY_BYTES
    if length > BODY_BYTES:
        raise _too_large()
    return length


async def _read(request: web.BaseRequest, content: StreamReader) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        # curl asks so before it sends more than 1 MiB, and waits a second for this.
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    content.set_read_chunk_size(BODY_BYTES)
    body = bytearray()
    while chunk := await content.readany():
        body += chunk
        if len(body) > BODY_BYTES:
            raise _too_large()
    return bytes(body)


class _RefusedError(Exception):
    """A request that is not answered with a review."""

    def __init__(self, status: int, reason: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.headers = headers


def _too_large() -> _RefusedError:
    return _RefusedError(413, "too_large", f"a review may have {BODY_BYTES} bytes at most")
