"""Logs: one event a line, constant messages, variables in fields, on stderr.

The keys are those of controller-runtime's admission logs, so that queries written for Kubernetes
webhooks find ours. No manifest, no environment value and no text of an exception gets in: an
exception's message quotes what it stumbled over, and that may be a user's secret.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import orjson
import structlog

from plugins.framework.field import escape

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

    from webhook.config import LogFormat, LogLevel
    from webhook.review import Answer

LONGEST: Final = 256
"""Characters of a name that a line quotes. Names are shorter than this, but a review is not yet
validated when it is logged."""

QUIET: Final = frozenset({"allowed", "off"})
"""Decisions that are written at debug only."""

Event: TypeAlias = MutableMapping[str, Any]
Clock: TypeAlias = Callable[[], datetime]


def build(
    stream: BinaryIO,
    *,
    form: LogFormat = "json",
    level: LogLevel = "info",
    clock: Clock = lambda: datetime.now(UTC),
) -> FilteringBoundLogger:
    """A logger that writes to ``stream``; nothing global is configured."""

    def stamp(_logger: Any, method: str, event: Event) -> Mapping[str, Any]:
        now = clock().isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        return {"ts": now, "level": method, "logger": "", "msg": event.pop("event"), **event}

    render: Processor = _as_json if form == "json" else _as_text
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(stream),
        processors=[stamp, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
    ).bind(logger="stationmaster")
    return logger


class DecisionLog:
    """Writes the one line that a review leaves behind.

    Refusals, patches and errors always, and what would be one; a plain "allowed" only at debug, since most reviews of a busy
    cluster are updates by controllers that change nothing of ours.
    """

    def __init__(self, logger: FilteringBoundLogger) -> None:
        """Write through ``logger``, under a name of its own."""
        self._logger = logger.bind(logger="stationmaster.admission")
        self._is_verbose = logger.is_enabled_for(logging.DEBUG)

    def write(self, webhook: str, answer: Answer, seconds: float) -> None:
        """Tell who asked for what, what the answer was and how long it took."""
        if answer.decision in QUIET and not self._is_verbose:
            return
        namespace, name = answer.namespace[:LONGEST], answer.name[:LONGEST]
        _WRITERS[answer.decision](
            self._logger,
            f"admission {answer.decision}",
            webhook=webhook,
            decision=answer.decision,
            operation=answer.operation[:LONGEST],
            kind=answer.kind[:LONGEST],
            object={"name": name, "namespace": namespace},
            namespace=namespace,
            name=name,
            user=answer.user[:LONGEST],
            requestID=answer.uid[:LONGEST],
            dryRun=answer.dry_run,
            findings=answer.findings,
            warnings=answer.warnings,
            durationMs=round(seconds * 1000, 3),
        )


_WRITERS: Final[dict[str, Callable[..., None]]] = {
    "allowed": lambda logger, event, **fields: logger.debug(event, **fields),
    "patched": lambda logger, event, **fields: logger.info(event, **fields),
    "denied": lambda logger, event, **fields: logger.info(event, **fields),
    "error": lambda logger, event, **fields: logger.error(event, **fields),
    "would_be_patched": lambda logger, event, **fields: logger.info(event, **fields),
    "would_be_denied": lambda logger, event, **fields: logger.info(event, **fields),
    "off": lambda logger, event, **fields: logger.debug(event, **fields),
}


def describe(error: BaseException) -> dict[str, str]:
    """The type of an exception and the line that raised it: enough to find it, nothing of its text."""
    described = {"error": type(error).__name__}
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = "/".join(PurePath(frame.f_code.co_filename).parts[-3:])
        described["at"] = f"{file}:{line}"
    return described


class Bridge(logging.Handler):
    """Brings what libraries say through ``logging`` into our lines: the template, never its arguments."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        """Write through ``logger``."""
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's template with the type of its exception."""
        error = record.exc_info[1] if record.exc_info else None
        write = self._logger.error if record.levelno >= logging.ERROR else self._logger.warning
        write(
            str(record.msg).partition("\n")[0][:LONGEST],
            logger=record.name,
            **(describe(error) if error is not None else {}),
        )


def loop_errors(
    logger: FilteringBoundLogger,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An exception handler for the event loop that says what failed, and nothing of the data."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        fields = describe(error) if isinstance(error, BaseException) else {}
        logger.error("event loop error", logger="asyncio", what=context["message"], **fields)

    return handle


def _as_json(_logger: Any, _method: str, event: Event) -> bytes:
    return orjson.dumps(event, default=str)


def _as_text(_logger: Any, _method: str, event: Event) -> bytes:
    """For people: time, level, message, then the fields that say something."""
    head = f"{event.pop('ts')[11:19]} {event.pop('level').upper():7} {event.pop('msg')}"
    event.pop("logger")
    # Said by namespace and name already.
    event.pop("object", None)
    said = ((key, value) for key, value in event.items() if value != "" and value is not False)
    fields = (f"{key}={_quoted(value)}" for key, value in said)
    return " ".join((head, *fields)).encode("utf-8", "replace")


def _quoted(value: Any) -> str:
    text = escape(str(value))
    return f'"{text}"' if " " in text or not text else text
