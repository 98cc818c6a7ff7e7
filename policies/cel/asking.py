"""Answering questions: the same in the server's process and in a worker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from plugins.framework.field import FieldError, Path
from policies.cel.activation import Activation
from policies.cel.compiling import compile as compile_expression
from policies.cel.program import Program, Wants
from policies.cel.protocol import Answers, Question
from policies.cel.values import EvaluationError
from policies.document import Expression

MOST_POLICIES: Final = 512
"""Policies whose expressions stay compiled; some 10 KB an expression."""
LATE: Final = EvaluationError("took longer than the time that was left", "timeout")


def ask(
    question: Question,
    *,
    faults: Mapping[str, str] | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> Answers:
    """Evaluate a question's expressions, in order.

    ``faults`` are variables that were left out of the data, and why. ``is_late`` is asked before each expression.
    """
    unit = _unit(question.digest, question.variables)
    activation = Activation(question.data, faults=faults).scoped(unit.variables)
    answers: dict[str, Any] = {}
    for path, text, wants in question.expressions:
        if is_late():
            answers[path] = LATE
            continue
        program = unit.program(text, wants)
        answers[path] = (
            program if isinstance(program, EvaluationError) else program.evaluate(activation)
        )
    return answers


@dataclass(slots=True)
class _Unit:
    """What one policy's expressions were compiled to."""

    variables: Mapping[str, Program]
    broken: str
    programs: dict[tuple[str, str], Program | EvaluationError] = field(default_factory=dict)

    def program(self, text: str, wants: Wants) -> Program | EvaluationError:
        key = (text, wants)
        if key not in self.programs:
            self.programs[key] = self._compiled(text, wants)
        return self.programs[key]

    def _compiled(self, text: str, wants: Wants) -> Program | EvaluationError:
        if self.broken:
            return EvaluationError(self.broken)
        made = compile_expression(Expression(text, Path()), wants=wants, variables=self.variables)
        return _broken(made) if isinstance(made, list) else made


def _broken(errors: list[FieldError]) -> EvaluationError:
    return EvaluationError(f"does not compile: {errors[0].detail}")


@lru_cache(maxsize=MOST_POLICIES)
def _unit(_digest: str, variables: tuple[tuple[str, str], ...]) -> _Unit:
    """By digest: a policy that changed is another one, and the old one is forgotten in time."""
    compiled: dict[str, Program] = {}
    for name, text in variables:
        made = compile_expression(Expression(text, Path()), wants="any", variables=compiled)
        if isinstance(made, list):
            return _Unit(compiled, f"variables.{name} {_broken(made).message}")
        compiled[name] = made
    return _Unit(compiled, "")
