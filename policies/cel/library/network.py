"""Addresses and networks (``library/ip.go``, ``library/cidr.go``)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from policies.cel.library.function import (
    BOOL,
    CIDR,
    INT,
    IP,
    STRING,
    Function,
    Overload,
    type_of,
    value,
)

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_LONGEST: Final = 64
_LENGTH: Final = re.compile(r"(0|[1-9][0-9]{0,2})\Z")


def functions() -> tuple[Function, ...]:
    """The library."""
    texts: tuple[Overload, ...] = (((IP,), STRING), ((CIDR,), STRING))
    return (
        _plain("ip", IP, _ip, (((STRING,), IP),)),
        _plain("isIP", BOOL, lambda text: _holds(_address, text), (((STRING,), BOOL),)),
        _plain("ip.isCanonical", BOOL, _is_canonical, (((STRING,), BOOL),)),
        _plain("cidr", CIDR, _cidr, (((STRING,), CIDR),)),
        _plain("isCIDR", BOOL, lambda text: _holds(_interface, text), (((STRING,), BOOL),)),
        Function(
            library="ip",
            name="string",
            overloads=texts,
            runtime=texts[:1],
            impl=_text,
        ),
        _member("family", INT, lambda it: _read_ip(it).version),
        _member("isUnspecified", BOOL, lambda it: _read_ip(it).is_unspecified),
        _member("isLoopback", BOOL, lambda it: _read_ip(it).is_loopback),
        _member("isLinkLocalMulticast", BOOL, _is_link_local_multicast),
        _member("isLinkLocalUnicast", BOOL, lambda it: _read_ip(it).is_link_local),
        _member("isGlobalUnicast", BOOL, _is_global_unicast),
        _network("containsIP", BOOL, _contains_ip, (((CIDR, IP), BOOL), ((CIDR, STRING), BOOL))),
        _network(
            "containsCIDR", BOOL, _contains_cidr, (((CIDR, CIDR), BOOL), ((CIDR, STRING), BOOL))
        ),
        _network("ip", IP, lambda it: value(IP, str(_read_cidr(it).ip)), (((CIDR,), IP),)),
        _network(
            "masked", CIDR, lambda it: value(CIDR, str(_read_cidr(it).network)), (((CIDR,), CIDR),)
        ),
        _network(
            "prefixLength", INT, lambda it: _read_cidr(it).network.prefixlen, (((CIDR,), INT),)
        ),
    )


def _plain(
    name: str, _result: str, impl: Callable[..., Any], overloads: tuple[Overload, ...]
) -> Function:
    library = "cidr" if "cidr" in name.lower() else "ip"
    return Function(library=library, name=name, overloads=overloads, runtime=overloads, impl=impl)


def _member(name: str, result: str, impl: Callable[..., Any]) -> Function:
    overloads: tuple[Overload, ...] = (((IP,), result),)
    return Function(
        library="ip", name=name, overloads=overloads, runtime=overloads, impl=impl, is_member=True
    )


def _network(
    name: str, _result: str, impl: Callable[..., Any], overloads: tuple[Overload, ...]
) -> Function:
    return Function(
        library="cidr", name=name, overloads=overloads, runtime=overloads, impl=impl, is_member=True
    )


def _address(text: str) -> Address:
    if len(text) > _LONGEST or "%" in text:
        raise ValueError("not an IP address: must be as 10.0.0.1 or 2001:db8::1, without a zone")
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError("IPv4-mapped IPv6 address is not allowed")
    return address


def _interface(text: str) -> Interface:
    address, slash, length = text.partition("/")
    if not slash or _LENGTH.match(length) is None:
        raise ValueError("not a CIDR: must be as 10.0.0.0/8")
    return ipaddress.ip_interface(f"{_address(address)}/{length}")


def _holds(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _ip(text: str) -> Any:
    return value(IP, str(_address(text)))


def _cidr(text: str) -> Any:
    return value(CIDR, str(_interface(text)))


def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


def _text(message: Any) -> str:
    if type_of(message) not in (IP, CIDR):
        raise ValueError("no such overload")
    text: str = message.text
    return text


def _read_ip(message: Any) -> Address:
    if type_of(message) != IP:
        raise ValueError("no such overload")
    return ipaddress.ip_address(message.text)


def _read_cidr(message: Any) -> Interface:
    if type_of(message) != CIDR:
        raise ValueError("no such overload")
    return ipaddress.ip_interface(message.text)


def _is_link_local_multicast(message: Any) -> bool:
    """Go's ``IsLinkLocalMulticast``: 224.0.0.0/24, and ff02::/16 whatever the flags."""
    address = _read_ip(message)
    packed = address.packed
    if address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _is_global_unicast(message: Any) -> bool:
    """Go's ``IsGlobalUnicast``: private networks count."""
    address = _read_ip(message)
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or str(address) == "255.255.255.255"
    )


def _contains_ip(message: Any, other: Any) -> bool:
    address = _address(other) if type(other) is str else _read_ip(other)
    return address in _read_cidr(message).network


def _contains_cidr(message: Any, other: Any) -> bool:
    ours = _read_cidr(message).network
    theirs = _interface(other) if type(other) is str else _read_cidr(other)
    inside = theirs.network
    return (
        ours.version == inside.version and ours.prefixlen <= inside.prefixlen and theirs.ip in ours
    )
