"""The syntax of names, label keys and label values, and Kubernetes' words for breaches of it.

Sources: ``k8s.io/apimachinery/pkg/api/validate/content`` and ``pkg/util/validation``.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL_1123: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_NAME_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_1123_RE: Final = re.compile(rf"{_LABEL_1123}\Z")
_SUBDOMAIN_RE: Final = re.compile(rf"{_SUBDOMAIN}\Z")
_NAME_PART_RE: Final = re.compile(rf"{_NAME_PART}\Z")


def not_qualified_name(value: str) -> list[str]:
    """Why this is no label key, empty if it is one (``content.IsLabelKey``)."""
    prefix, slash, name = value.rpartition("/")
    words = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    example = f"{words} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
    if "/" in prefix:
        return [
            f"a valid label key {example} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    messages: list[str] = []
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif prefix:
        messages += [f"prefix part {message}" for message in not_subdomain(prefix, unit="bytes")]
    if not name:
        messages.append("name part must be non-empty")
    elif size(name) > 63:
        messages.append("name part must be no more than 63 bytes")
    if not _NAME_PART_RE.match(name):
        messages.append(f"name part {example}")
    return messages


def not_label_value(value: str) -> list[str]:
    """Why this is no value of a label, empty if it is one (``content.IsLabelValue``)."""
    messages = []
    if size(value) > 63:
        messages.append("must be no more than 63 bytes")
    if value and not _NAME_PART_RE.match(value):
        messages.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character "
            f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME_PART})?')"
        )
    return messages


def not_subdomain(value: str, *, unit: str = "characters") -> list[str]:
    """Why this is no DNS-1123 subdomain, empty if it is one."""
    # It counts bytes in both places, and says so in one (util/validation and api/validate/content).
    messages = []
    if size(value) > 253:
        messages.append(f"must be no more than 253 {unit}")
    if not _SUBDOMAIN_RE.match(value):
        messages.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return messages


def not_label_1123(value: str) -> list[str]:
    """Why this is no DNS-1123 label, empty if it is one."""
    messages = []
    if size(value) > 63:
        messages.append("must be no more than 63 characters")
    if _LABEL_1123_RE.match(value):
        return messages
    if _SUBDOMAIN_RE.match(value):
        return [*messages, "must not contain dots"]
    messages.append(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
        "and end with an alphanumeric character "
        f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_1123}')"
    )
    return messages


def size(text: str) -> int:
    """The bytes of a text in UTF-8, which is what Go's ``len`` counts."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
