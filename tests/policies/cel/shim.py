"""Short forms for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plugins.framework.field import Path
from policies import cel
from policies.document import Expression

PATH = Path("spec", "validations").index(0).child("expression")


def compiled(
    text: str,
    wants: cel.Wants = "any",
    variables: Mapping[str, cel.Program] | None = None,
) -> cel.Program:
    made = cel.compile(Expression(text, PATH), wants=wants, variables=variables or {})
    assert isinstance(made, cel.Program), [str(error) for error in made]
    return made


def refused(
    text: str,
    wants: cel.Wants = "any",
    variables: Mapping[str, cel.Program] | None = None,
) -> list[str]:
    """The details of the errors."""
    made = cel.compile(Expression(text, PATH), wants=wants, variables=variables or {})
    assert isinstance(made, list), "compiled"
    assert all(error.path == PATH for error in made)
    return [error.detail for error in made]


def value(text: str, data: Mapping[str, Any] | None = None, wants: cel.Wants = "any") -> Any:
    program = compiled(text, wants)
    return program.evaluate(cel.Activation(data or {}, reads=program.reads))
