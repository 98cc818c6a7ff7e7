"""URLs (``library/urls.go``): absolute ones and absolute paths, as Go's ``url.ParseRequestURI`` takes them."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from policies.cel.library.function import BOOL, STRING, URL, Function, Overload, type_of, value

_SAFE: Final = "/%:@!$&'()*+,;=-._~"


def functions() -> tuple[Function, ...]:
    """The library."""
    made: tuple[Overload, ...] = (((STRING,), URL),)
    asked: tuple[Overload, ...] = (((STRING,), BOOL),)
    return (
        Function(
            library="url",
            name="url",
            overloads=made,
            runtime=made,
            impl=lambda text: value(URL, _parse(text).geturl()),
        ),
        Function(library="url", name="isURL", overloads=asked, runtime=asked, impl=is_url),
        *(
            Function(
                library="url",
                name=name,
                overloads=(((URL,), result),),
                runtime=(((URL,), result),),
                impl=lambda it, read=read: read(_read(it)),
                is_member=True,
            )
            for name, result, read in (
                ("getScheme", STRING, lambda url: url.scheme),
                ("getHost", STRING, lambda url: url.netloc.rpartition("@")[2]),
                ("getHostname", STRING, _hostname),
                ("getPort", STRING, _port),
                ("getEscapedPath", STRING, lambda url: quote(url.path, safe=_SAFE)),
                ("getQuery", "map<string, list<string>>", _query),
            )
        ),
    )


def _parse(text: str) -> SplitResult:
    """Python drops tabs and newlines; Go refuses them."""
    if not text or any(ord(c) < 0x21 or ord(c) == 0x7F for c in text):
        raise ValueError("not a URL: it is empty, or has a space or a control character")
    url = urlsplit(text, allow_fragments=False)
    if not url.scheme and not url.path.startswith("/"):
        raise ValueError("not a URL: must be absolute, or an absolute path")
    if not url.scheme and url.netloc:
        return SplitResult("", "", f"//{url.netloc}{url.path}", url.query, "")
    host = url.netloc.rpartition("@")[2]
    port = host.rpartition("]")[2].partition(":")[2]
    if port and not port.isdecimal():
        raise ValueError("not a URL: the port is no number")
    return url


def is_url(text: str) -> bool:
    """Whether it is one."""
    try:
        _parse(text)
    except ValueError:
        return False
    return True


def _read(message: Any) -> SplitResult:
    if type_of(message) != URL:
        raise ValueError("no such overload")
    return _parse(message.text)


def _hostname(url: SplitResult) -> str:
    host = url.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]


def _query(url: SplitResult) -> dict[str, list[str]]:
    return parse_qs(url.query, keep_blank_values=True)
