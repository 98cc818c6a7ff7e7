"""The yardstick: what an admission webhook costs before it does anything.

aiohttp on uvloop with orjson, as one would write it: a router, ``web.Response``, TLS with the same kind of
certificate. It decodes the review and answers "allowed" with a small constant patch.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import uvloop
from aiohttp import web

from certs import authority, keypair

PATCH: Final = base64.b64encode(
    orjson.dumps([{"op": "add", "path": "/metadata/annotations", "value": {"example.test/a": "b"}}])
).decode()


async def mutate(request: web.Request) -> web.Response:
    """Answer with a patch."""
    uid = orjson.loads(await request.read())["request"]["uid"]
    return answer({"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": PATCH})


async def validate(request: web.Request) -> web.Response:
    """Answer without one."""
    uid = orjson.loads(await request.read())["request"]["uid"]
    return answer({"uid": uid, "allowed": True})


def answer(response: dict[str, object]) -> web.Response:
    """An AdmissionReview."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.Response(body=orjson.dumps(review), content_type="application/json")


async def serve(folder: Path) -> None:
    """Serve until killed; the CA and the port are left in ``folder``."""
    now = datetime.now(UTC)
    signer = authority.create(now)
    tls = keypair.server_context(authority.issue(signer, ["localhost", "127.0.0.1"], now))
    (folder / "stationmaster-ca.crt").write_bytes(signer.pem)
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_post("/mutate", mutate)
    app.router.add_post("/validate", validate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    (folder / "port").write_text(str(site.port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
