"""Reviews of our own kinds: policies and exceptions, as they are about to be stored."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from plugins.framework.api import names
from plugins.framework.errors import DeadlineExceeded
from plugins.framework.pipeline import Result

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from plugins.framework.api.admission import AdmissionRequest
    from plugins.framework.cluster import Snapshot
    from plugins.framework.lines import Line
    from policies.plugin import PlatformPolicy


def is_one(request: AdmissionRequest) -> bool:
    """Whether a review is about an object of ours."""
    return request.group == names.POLICY_GROUP


class Documents:
    """Judges policies and exceptions.

    One is compiled at a time, in a thread: who may write in one namespace must not be able to hold up the reviews of
    all others.
    """

    def __init__(self, policy: PlatformPolicy, *, clock: Callable[[], float]) -> None:
        """Judge beside what ``policy`` knows; deadlines are of ``clock``."""
        self._policy = policy
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="policies")

    async def judge(
        self,
        request: AdmissionRequest,
        *,
        cluster: Snapshot,
        line: Line | None,
        now: datetime,
        deadline: float | None,
    ) -> Result:
        """What is wrong with it, and what is worth knowing. Raises DeadlineExceeded."""
        raw, engine = request.object, self._policy.engine
        if (
            raw is None
            or request.subresource
            or request.kind not in names.POLICY_DOCUMENTS
            or request.operation not in _JUDGED
            or engine.is_let_be(raw, request.old_object)
        ):
            return Result()
        known = engine.policies(cluster)
        compiling = asyncio.get_running_loop().run_in_executor(
            self._threads,
            lambda: engine.compiled(
                raw, namespace=request.namespace, documents=cluster.documents, known=known
            ),
        )
        try:
            async with asyncio.timeout(None if deadline is None else deadline - self._clock()):
                document, beside = await compiling
        except TimeoutError as error:
            raise DeadlineExceeded(
                "it took too long to compile; its condition Ready will say whether it is in force"
            ) from error
        findings = engine.judge(document, beside, cluster=cluster, line=line, now=now)
        return Result(findings=findings)


_JUDGED: Final = frozenset({"CREATE", "UPDATE"})
