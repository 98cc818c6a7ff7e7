"""Kubernetes' named formats (``library/format.go``): ``format.dns1123Label().validate(text)``.

``validate`` answers with nothing for a sound text and with what is wrong otherwise. Texts of errors are those of
``k8s.io/apimachinery/pkg/util/validation`` in meaning.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Any, Final

from policies.cel.library import urls
from policies.cel.library.function import FORMAT, STRING, Function, Overload, type_of, value

_OPTIONAL_STRINGS: Final = "optional_type<list<string>>"
_OPTIONAL_FORMAT: Final = f"optional_type<{FORMAT}>"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_RULES: Final[Mapping[str, tuple[str, int, str]]] = {
    "dns1123Label": (
        _LABEL,
        63,
        "lower case alphanumeric characters or '-', and an alphanumeric character at both ends",
    ),
    "dns1123Subdomain": (
        rf"{_LABEL}(\.{_LABEL})*",
        253,
        "lower case alphanumeric characters, '-' or '.', and an alphanumeric character at both ends",
    ),
    "dns1035Label": (
        r"[a-z]([-a-z0-9]*[a-z0-9])?",
        63,
        "lower case alphanumeric characters or '-', a letter first and an alphanumeric character last",
    ),
    "qualifiedName": (
        rf"({_LABEL}(\.{_LABEL})*/)?{_QUALIFIED}",
        317,
        "a name of at most 63 alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain and '/' before it",
    ),
    "labelValue": (
        rf"({_QUALIFIED})?",
        63,
        "empty, or alphanumeric characters, '-', '_' or '.', with an alphanumeric character at both ends",
    ),
    "uuid": (
        r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}",
        36,
        "a UUID, such as 123e4567-e89b-12d3-a456-426614174000",
    ),
}
_PREFIXED: Final = {
    "dns1123LabelPrefix": "dns1123Label",
    "dns1123SubdomainPrefix": "dns1123Subdomain",
    "dns1035LabelPrefix": "dns1035Label",
}
"""Of a name that something is added to: it may end in '-'."""
_LONGEST_NAME: Final = 63


def functions() -> tuple[Function, ...]:
    """The library."""
    none: tuple[Overload, ...] = (((), FORMAT),)
    named: tuple[Overload, ...] = (((STRING,), _OPTIONAL_FORMAT),)
    checked: tuple[Overload, ...] = (((FORMAT, STRING), _OPTIONAL_STRINGS),)
    return (
        *(
            Function(
                library="format",
                name=f"format.{name}",
                overloads=none,
                runtime=none,
                impl=partial(value, FORMAT, name),
            )
            for name in _checks()
        ),
        Function(
            library="format",
            name="format.named",
            overloads=named,
            runtime=named,
            impl=lambda name: value(FORMAT, name if name in _checks() else ""),
            is_optional=True,
        ),
        Function(
            library="format",
            name="validate",
            overloads=checked,
            runtime=checked,
            impl=_validate,
            is_member=True,
            is_optional=True,
        ),
    )


def _validate(message: Any, text: str) -> list[str]:
    if type_of(message) != FORMAT or message.text not in _checks():
        raise ValueError("no such overload")
    return _checks()[message.text](text)


def _checks() -> Mapping[str, Callable[[str], list[str]]]:
    return {
        **{name: partial(_rule, name) for name in _RULES},
        **{name: partial(_prefix, name) for name in _PREFIXED},
        "uri": _uri,
        "byte": _byte,
        "date": _date,
        "datetime": _datetime,
    }


def _rule(name: str, text: str) -> list[str]:
    pattern, longest, words = _RULES[name]
    problems = [f"must be no more than {longest} characters"] if len(text) > longest else []
    long_name = name == "qualifiedName" and len(text.rpartition("/")[2]) > _LONGEST_NAME
    if problems or long_name or not re.fullmatch(pattern, text):
        problems.append(f"must be {words}")
    return problems


def _prefix(name: str, text: str) -> list[str]:
    return _rule(_PREFIXED[name], text[:-1] + "a" if text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    return [] if urls.is_url(text) else ["must be an absolute URL, or an absolute path"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["must be base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["must be a date, such as 2006-01-02"]
    return (
        []
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII)
        else ["must be a date, such as 2006-01-02"]
    )


def _datetime(text: str) -> list[str]:
    wrong = ["must be a date and time, such as 2006-01-02T15:04:05Z"]
    if not re.fullmatch(
        r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", text, re.ASCII
    ):
        return wrong
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text).upper())
    except ValueError:
        return wrong
    return []
