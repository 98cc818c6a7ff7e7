"""Lines of a stream that comes in pieces: an event may be larger than any buffer of a library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from webhook.kube.client import Unreachable

LONGEST_BYTES: Final = 32 * 1024 * 1024
"""etcd holds no object above 1.5 MiB unless told so; twenty times that is no object of ours."""


async def split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, each once it is there; what is cut off at the end is none. Raises Unreachable if one is endless."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            parts.append(end)
            yield b"".join(parts)
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > LONGEST_BYTES:
                raise Unreachable(f"an event is larger than {LONGEST_BYTES} bytes")
