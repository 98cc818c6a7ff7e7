"""The plain port: probes and metrics. Nothing here tells about an object, so it needs no TLS.

``/healthz`` says that the loop turns; ``/readyz`` that every check passes. Both list their checks with
``?verbose``, as Kubernetes' own components do, and ``/readyz/NAME`` asks for one of them.
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

    def __init__(self, checks: Mapping[str, Check], recorder: Recorder) -> None:
        """Be ready when all ``checks`` are."""
        self._checks = checks
        self._recorder = recorder

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, text="GET only\n", headers={"Allow": "GET, HEAD"})
        path = request.path.rstrip("/")
        if path == "/healthz":
            return _report("healthz", {}, verbose="verbose" in request.query)
        if path == "/readyz":
            return _report("readyz", self._checks, verbose="verbose" in request.query)
        if path == "/metrics":
            body = self._recorder.render()
            return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})
        name = path.removeprefix("/readyz/")
        if name in self._checks:
            return _report(f"readyz/{name}", {name: self._checks[name]}, verbose=False)
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
