"""Kubernetes quantities, exact: text in, whole nanos and a format inside, canonical text out.

The rules are those of ``k8s.io/apimachinery/pkg/api/resource``; what its code answers is recorded in
``tests/data/vectors``. Plain integers, because a Decimal rounds to its context and takes an exponent that
uses up the machine; caches, because the same few texts come again and again and reading one costs ten
times as much as finding it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from plugins.framework.field import Path, show

DECIMAL_SI: Final = 0
"""Suffixes ``n u m k M G T P E`` or none."""
BINARY_SI: Final = 1
"""Suffixes ``Ki Mi Gi Ti Pi Ei``."""
DECIMAL_EXPONENT: Final = 2
"""``e`` or ``E`` and a power of ten."""

MILLI: Final = 10**6
"""Nanos in a thousandth: what the API server rounds a pod's quantities to."""
NANO: Final = 10**9
"""Nanos in one unit (a core, a byte, a device)."""

LONGEST: Final = 64
"""Characters of a text. int64 in nanos has 28 digits; 64 leave room for zeros that nobody needs, and
bound the work and the keys of the cache."""
CACHED: Final = 4096
"""Texts remembered: a large cluster uses hundreds. Full, with the longest texts, it holds about 1 MiB."""

_HERE: Final = Path()
_INT64: Final = 2**63
_BINARY_MOST: Final = (_INT64 - 1) * NANO
_INTEGERS_BELOW: Final = 10**LONGEST
_DECIMAL_POWERS: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIXES: Final = tuple(_DECIMAL_POWERS)
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_BITS: Final = {suffix: 10 * i for i, suffix in enumerate(_BINARY_SUFFIXES) if suffix}

# What both the CRD pattern of controller-gen and the Go parser accept: the first wants a digit, the second
# an exponent without a fraction. Two digits of exponent, because `1e4294967296` is legal in both, is 1 in
# Go (32 bits), and as a Python integer would not fit the machine.
_GRAMMAR: Final = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2}|)"
)
# What Go's parser takes apart, whatever may come of it; see `is_kept`.
_PARTS: Final = re.compile(
    r"[+-]?(\d*)(?:\.(\d*))?([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)\Z", re.ASCII
)
_RIGHT: Final = (
    "must be a number, with nothing after it, a suffix (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) "
    "or an exponent of one or two digits, such as 500m, 16Gi or 1e3"
)


class Quantity(NamedTuple):
    """A value in whole nanos (10^-9 of a unit), and the format that its text will have.

    ``==`` compares the format too. Values are compared by `cmp` or by ``nano``: ``1Gi`` and ``1073741824`` are equal values.
    """

    nano: int
    fmt: int


# What `Quantity(...)` does behind a Python-level `__new__`; half the time, in the functions that sums consist of.
_new: Final = tuple.__new__


class QuantityError(ValueError):
    """Something that is no quantity. Begins lower case, shows the value cut to 64 characters.

    ``field`` is where it stands in what was given; empty when a single value was parsed. ``detail`` says
    what would be right.
    """

    def __init__(self, value: object, detail: str, field: Path = _HERE) -> None:
        """Keep the value (the head of a long one), what would be right, and the place."""
        self.value = _head(value)
        self.detail = detail
        self.field = field
        super().__init__(self.value, detail, field)

    def __str__(self) -> str:
        """Print as ``invalid quantity "1K": must be ...``."""
        return f"invalid quantity {show(self.value)}: {self.detail}"

    def under(self, path: Path) -> QuantityError:
        """The same error, seen from further up: ``path`` is put before its place."""
        return QuantityError(self.value, self.detail, Path(*path, *self.field))


def parse(value: object) -> Quantity:
    """Read a quantity: a text, or an integer as JSON knows it (not a bool, and never through a float).

    Text finer than a nano is rounded away from zero; binary text is capped at 2^63-1 units, other text is
    not; binary text below one unit becomes DecimalSI. (resource.ParseQuantity)

    Raises:
        QuantityError: for any other type, a text outside the grammar, more than 64 characters or digits.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if -_INTEGERS_BELOW < value < _INTEGERS_BELOW:
            return Quantity(value * NANO, DECIMAL_SI)
        raise QuantityError(value, f"must have at most {LONGEST} digits")
    raise QuantityError(value, "must be a string or an integer")


@lru_cache(maxsize=CACHED)
def _parse_text(text: str) -> Quantity:
    if len(text) > LONGEST:
        raise QuantityError(text, f"must have at most {LONGEST} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text, _RIGHT)
    sign, number, suffix = match.groups()
    whole, _, fraction = number.partition(".")
    amount, power = int(whole + fraction), 9 - len(fraction)
    if suffix in _BINARY_BITS:
        fmt = BINARY_SI
        amount <<= _BINARY_BITS[suffix]
    elif suffix in _DECIMAL_POWERS:
        fmt = DECIMAL_SI
        power += _DECIMAL_POWERS[suffix]
    else:
        fmt = DECIMAL_EXPONENT
        power += int(suffix[1:])
    nano = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    if fmt == BINARY_SI:
        nano = min(nano, _BINARY_MOST)
        if 0 < nano < NANO:
            fmt = DECIMAL_SI
    return Quantity(-nano if sign == "-" else nano, fmt)


def is_kept(text: str) -> bool:
    """Whether Go remembers the text that it read, instead of printing the number anew.

    ``resource.ParseQuantity`` does so where it takes the text for canonical, and is not strict about it: ``+2``,
    ``010`` and ``1.500`` are kept. The numbers are those of its fast path.
    """
    if text == "0":
        return True
    match = _PARTS.match(text)
    if match is None:
        return False
    whole, fraction, suffix = match[1].lstrip("0") or "0", match[2] or "", match[3]
    digits = whole + fraction
    if suffix in _BINARY_BITS:
        bits = _BINARY_BITS[suffix]
        number = int(digits)
        fits = 14 - len(whole) - bits * 3 // 10 >= 0 and number << bits < 2**63
        return not fraction and fits and number % 8 != 0
    scale = (_DECIMAL_POWERS[suffix] if suffix in _DECIMAL_POWERS else int(suffix[1:])) - len(
        fraction
    )
    return (
        len(digits) <= 18
        and scale >= -9
        and scale % 3 == 0
        and not digits.endswith("000")
        and not digits.startswith("0")
    )


def canonical(quantity: Quantity) -> str:
    """The one text of a value in its format: no fraction, no plus, the largest suffix that fits.

    Where Go knows no suffix (from 1000E and 1024Ei on) it drops the suffix and with it 21 zeros; here the
    last suffix stays and the text is true. No such total may be written anyway: see `fits_int64`.
    """
    return _canonical(quantity)


@lru_cache(maxsize=CACHED)
def _canonical(quantity: Quantity) -> str:
    nano, fmt = quantity
    if not nano:
        return "0"
    sign = "-" if nano < 0 else ""
    nano = abs(nano)
    if fmt == BINARY_SI and nano >= 1024 * NANO and nano % NANO == 0:
        units = nano // NANO
        zeros = (units & -units).bit_length() - 1
        step = min(zeros // 10, len(_BINARY_SUFFIXES) - 1)
        return f"{sign}{units >> 10 * step}{_BINARY_SUFFIXES[step]}"
    steps = 0
    most = None if fmt == DECIMAL_EXPONENT else len(_DECIMAL_SUFFIXES) - 1
    while steps != most and nano % 1000 == 0:
        nano //= 1000
        steps += 1
    if fmt != DECIMAL_EXPONENT:
        return f"{sign}{nano}{_DECIMAL_SUFFIXES[steps]}"
    power = 3 * steps - 9
    return f"{sign}{nano}e{power}" if power else f"{sign}{nano}"


def add(left: Quantity, right: Quantity) -> Quantity:
    """The exact sum. The left format stays, unless the left value is zero: then it is the right one."""
    return _new(Quantity, (left.nano + right.nano, left.fmt if left.nano else right.fmt))


def mul(quantity: Quantity, factor: int) -> Quantity:
    """The exact product with an integer; the format stays, of zero too."""
    return _new(Quantity, (quantity.nano * factor, quantity.fmt))


def cmp(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1 as the left value is below, equal to or above the right one. Formats do not matter."""
    return (left.nano > right.nano) - (left.nano < right.nano)


def round_up_milli(quantity: Quantity) -> Quantity:
    """Round away from zero to thousandths, as the API server does to all that a Pod or Job holds."""
    nano, fmt = quantity
    return Quantity(_away_from_zero(nano, MILLI) * MILLI, fmt) if nano % MILLI else quantity


def value(quantity: Quantity) -> int:
    """Whole units, rounded away from zero. Go's ``Value()`` without its overflow."""
    return _away_from_zero(quantity.nano, NANO)


def milli_value(quantity: Quantity) -> int:
    """Whole thousandths of a unit, rounded away from zero. Go's ``MilliValue()`` without its overflow."""
    return _away_from_zero(quantity.nano, MILLI)


def fits_int64(name: str, quantity: Quantity) -> bool:
    """Whether schedulers and kueue can hold this total: cpu in milli, all else in units, below 2^63.

    They read int64 and wrap silently (``MilliValue`` of ``1E`` is 0), so a total that does not fit is refused.
    """
    return abs(milli_value(quantity) if name == "cpu" else value(quantity)) < _INT64


def _away_from_zero(nano: int, step: int) -> int:
    return -(-nano // step) if nano > 0 else nano // step


def _head(value: object) -> str | float | None:
    """What an error keeps of a value: enough to recognise it, whatever was sent."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "..."
    if isinstance(value, int) and abs(value) >= _INTEGERS_BELOW:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return value
    return "an object" if isinstance(value, dict) else "a list"
