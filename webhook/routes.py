"""The plain port: probes and metrics. Nothing here tells about an object, so it needs no TLS.

``/healthz`` fails where only a restart helps, ``/readyz`` where no review should come. Both list their checks
with ``?verbose``, as Kubernetes' own components do, and ``/healthz/NAME`` and ``/readyz/NAME`` ask for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from webhook import metrics

if TYPE_CHECKING:
    from webhook.metrics import Recorder

Check: TypeAlias = Callable[[], str | None]
"""Gives None if all is well, else why not; must not wait for anything."""


class Health:
    """Answers on the plain port."""

    def __init__(
        self, recorder: Recorder, *, ready: Mapping[str, Check], alive: Mapping[str, Check]
    ) -> None:
        """Whether all checks pass that a review needs; and those whose failure a restart would mend."""
        self._recorder = recorder
        self._checks = {"readyz": ready, "healthz": alive}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, text="GET only\n", headers={"Allow": "GET, HEAD"})
        path = request.path.strip("/")
        if path == "metrics":
            body = self._recorder.render()
            return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})
        what, _, name = path.partition("/")
        checks = self._checks.get(what, {})
        if path in self._checks:
            return _report(path, checks, verbose="verbose" in request.query)
        if name in checks:
            return _report(path, {name: checks[name]}, verbose=False)
        return web.Response(status=404, text="not found: /healthz, /readyz or /metrics\n")


def _report(what: str, checks: Mapping[str, Check], *, verbose: bool) -> web.Response:
    results = {name: check() for name, check in checks.items()}
    failed = any(results.values())
    if not failed and not verbose:
        return web.Response(text="ok")
    lines = [
        f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok"
        for name, reason in results.items()
    ]
    lines.append(f"{what} check {'failed' if failed else 'passed'}\n")
    return web.Response(status=503 if failed else 200, text="\n".join(lines))
