"""What the engine says, without its status codes."""

from __future__ import annotations

import re
from typing import Final

_STATUS: Final = re.compile(r"^(?:[A-Z_]+: )+|(?: \[[A-Z_]+\])+$")


def plain(message: str) -> str:
    """``OUT_OF_RANGE: no such overload [OUT_OF_RANGE]`` is ``no such overload``."""
    return _STATUS.sub("", message).strip()
