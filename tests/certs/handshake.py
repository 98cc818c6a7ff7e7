"""A TLS handshake in memory: what a client sees of a server's context, without a socket."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """What the client knows after the handshake."""

    version: str
    alpn: str | None
    certificate: bytes


def client_context(*trusted: bytes, strict: bool = True) -> ssl.SSLContext:
    """A client that believes these CA certificates only, as strictly as Python 3.13 does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=b"\n".join(trusted).decode())
    context.set_alpn_protocols(["h2", "http/1.1"])
    if strict:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> Seen:
    """Run the handshake to its end; raises what the client or the server would raise."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[int] = set()
    for _ in range(10):
        for index, side in enumerate((theirs, ours)):
            try:
                side.do_handshake()
                done.add(index)
            except ssl.SSLWantReadError:
                continue
        if len(done) == 2:
            return Seen(
                version=theirs.version() or "",
                alpn=theirs.selected_alpn_protocol(),
                certificate=theirs.getpeercert(binary_form=True) or b"",
            )
    raise AssertionError("the handshake did not end")
