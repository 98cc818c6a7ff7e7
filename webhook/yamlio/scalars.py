"""What a plain scalar means to kubectl's reader, and how it prints numbers.

kubectl reads YAML with ``sigs.k8s.io/yaml``, which stands on ``go.yaml.in/yaml/v2``. This module is that
library's ``resolve.go`` and the parts of Go's ``strconv`` below it; the vectors in ``tests/data/yaml``
were recorded from the library itself.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)

_TAG_PREFIX: Final = "tag:yaml.org,2002:"
MERGE_TAG: Final = _TAG_PREFIX + "merge"

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}  # fmt: skip
_NUMERIC: Final = frozenset("+-.0123456789")

_INT: Final = re.compile(
    r"([-+]?)(?:0[bB](?P<two>[01]+)|0[oO](?P<eight>[0-7]+)|0[xX](?P<sixteen>[0-9a-fA-F]+)"
    r"|0(?P<octal>[0-7]*)|(?P<ten>[1-9][0-9]*))"
)
_SIGN_AFTER_PREFIX: Final = re.compile(r"0b([-+][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Go allows an underscore between digits, and `.5` goes to its parser as written.
_DOT_FLOAT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_DATE: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?:Z|[-+]([0-9]{2}):([0-9]{2}))"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?)?"
)
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


class TagMismatchError(ValueError):
    """A value does not fit the tag that it carries, such as ``!!int abc``."""


def resolve(text: str) -> Scalar:
    """The value of a plain scalar without a tag.

    >>> [resolve(t) for t in ("no", "010", "0x1F", "1_000", "1e3", "12:30", "2024-01-01", "~")]
    [False, 8, 31, 1000, 1000.0, '12:30', '2024-01-01', None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if text[0] == ".":
        return _float(text.replace("_", "")) if _DOT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    number = _int(plain)
    if number is None and _FLOAT.fullmatch(plain):
        return _float(plain, otherwise=text)
    return text if number is None else number


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with a tag; tags that YAML does not define leave text as it is."""
    kind = tag.removeprefix(_TAG_PREFIX)
    if kind in {"str", tag}:
        return text
    value = resolve(text)
    match kind:
        case "binary":
            return _binary(text)
        case "null" if value is None:
            return None
        case "bool" if isinstance(value, bool):
            return value
        case "int" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "float" if isinstance(value, float):
            return value
        case "float" if type(value) is int and value in INT64:
            return float(value)
        case "timestamp" if is_timestamp(text):
            return text
        case "null" | "bool" | "int" | "float" | "timestamp":
            raise TagMismatchError(f"not a !!{kind}")
        case _:
            return text


@lru_cache(maxsize=4096)
def reads_as_text(text: str) -> bool:
    """Whether kubectl prints this string without quotes for its type's sake.

    Dates and ``12:30`` read as text, and are quoted all the same, for readers that know older rules.
    """
    if text == "<<" or is_timestamp(text) or _BASE_60.fullmatch(text):
        return False
    return isinstance(resolve(text), str)


def is_timestamp(text: str) -> bool:
    """Whether Go's ``time.Parse`` takes the text in one of the four forms that the library tries."""
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month)):
        return False
    hour, minute, second = (int(match[i] or match[i + 5] or 0) for i in (4, 5, 6))
    zone = int(match[7] or 0) <= 24 and int(match[8] or 0) < 60
    return hour < 24 and minute < 60 and second < 60 and zone


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _int(plain: str) -> int | None:
    """Go's ``ParseInt(plain, 0, 64)``, then ``ParseUint``: 64 bits, or nothing."""
    if odd := _SIGN_AFTER_PREFIX.fullmatch(plain):
        value = int(odd[1], 2)
        return value if value in INT64 else None
    match = _INT.fullmatch(plain)
    if match is None or match.lastgroup is None:
        return None
    digits = match[match.lastgroup]
    base = {"two": 2, "eight": 8, "sixteen": 16, "octal": 8, "ten": 10}[match.lastgroup]
    if base == 10 and len(digits) > 20:
        return None
    value = int(digits or "0", base)
    if match[1] == "-":
        value = -value
    return value if value in INT64 or (not match[1] and value in _UINT64) else None


def _float(plain: str, *, otherwise: str = "") -> float | str:
    """A float, or the text where Go's ``ParseFloat`` says that it is out of range."""
    value = float(plain)
    return (otherwise or plain) if math.isinf(value) else value


def _binary(text: str) -> str:
    """``!!binary``: base64 that kubectl's reader turns into a string."""
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TagMismatchError("not base64 of UTF-8 text") from error


def number(value: float) -> int | float:
    """A float as the API server's JSON makes it: whole numbers of 64 bits are integers.

    Go writes the fewest digits and fills up with zeros, so past 2**53 the integer is another one.
    """
    if not value.is_integer():
        return value
    whole = int(value) if abs(value) < 2**53 else int(Decimal(repr(value)))
    return whole if whole in INT64 else value


def key_text(value: Scalar) -> str | None:
    """A key as ``sigs.k8s.io/yaml`` converts it to a string; None where it refuses the type."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value in INT64 else None
        case float():
            return format_float(value, bits=32)
        case None:
            return None


def format_float(value: float, *, bits: int) -> str:
    """Go's ``FormatFloat(value, 'g', -1, bits)``, with YAML's words for what is no number."""
    if bits == 32:
        value = _float32(value)
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    digits, exponent = _shortest(value, bits=bits)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}{'.' + fraction if fraction else ''}"


def _shortest(value: float, *, bits: int) -> tuple[str, int]:
    """The fewest digits that read back as the same number, and the exponent of the first one."""
    value = abs(value)
    for precision in range(16):
        text = f"{value:.{precision}e}"
        if value == (_float32(float(text)) if bits == 32 else float(text)):
            return _split(text)
    return _split(f"{value:.16e}")


def _split(text: str) -> tuple[str, int]:
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
