"""Everything that runs in killable workers: expressions in one pool, options of outside packages in another.

Apart, so that a package that hangs, crashes or imports slowly never keeps an expression waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from policies.cel import Answers
from policies.custom import catalogue
from policies.custom.protocol import OptionQuestion
from policies.strikes import Strikes
from webhook.workers import Event, Pool, ProcessWorker

IMPORT_SECONDS: Final = 6 * catalogue.LOAD_SECONDS
"""For a worker of options to be ready: it imports one package after another, each of which may take its time."""


def _ignore(_event: Event) -> None:
    """Nobody wants to know."""


class Evaluation:
    """Two pools, and who is asked what. One event loop's; ``close`` it before that ends."""

    def __init__(
        self,
        *,
        on_event: Callable[[Event], None] = _ignore,
        options_command: Callable[[], Sequence[str]] = catalogue.worker_command,
        strikes: Strikes | None = None,
    ) -> None:
        """``options_command`` says how a worker with the installed options is started.

        ``strikes`` has whose workers were killed.
        """
        strikes = Strikes() if strikes is None else strikes
        self.expressions = Pool(on_event=on_event, strikes=strikes)
        self.options = Pool(
            on_event=on_event,
            start=partial(ProcessWorker.start, options_command, IMPORT_SECONDS),
            strikes=strikes,
            may_idle=True,
        )

    async def evaluate(self, questions: Sequence[Any], deadline: float | None) -> list[Answers]:
        """What a Context's ``evaluate`` is: the questions of one batch, each answered where it belongs."""
        calls = [question for question in questions if isinstance(question, OptionQuestion)]
        if not calls:
            return await self.expressions.evaluate(questions, deadline)
        if deadline is None:
            # Nobody waits who could not wait for an import, too.
            await self.options.ready()
        if len(calls) == len(questions):
            return await self.options.evaluate(questions, deadline)
        rest = [question for question in questions if not isinstance(question, OptionQuestion)]
        wrote, found = await asyncio.gather(
            self.options.evaluate(calls, deadline), self.expressions.evaluate(rest, deadline)
        )
        left, right = iter(wrote), iter(found)
        return [next(left if isinstance(q, OptionQuestion) else right) for q in questions]

    async def close(self) -> None:
        """Kill all workers; whoever waits is answered with an error."""
        await asyncio.gather(self.expressions.close(), self.options.close())
