"""CEL, behind a shim: compiling, checking and evaluating expressions of policies.

The engine is ``cel-expr-python`` (docs/adr/0008-cel.md); nothing outside of this package knows it. What the shim adds:
types and names are checked against the TrainJob's schema, no expression or value of data takes the process down, and
an error is a value. ::

    program = cel.compile(Expression("object.spec.trainer.numNodes > 8", path), wants="bool")
    activation = cel.Activation(data, reads=program.reads)      # once a request, for all programs
    program.evaluate(activation)                                # JSON, or an EvaluationError
"""

from __future__ import annotations

from policies.cel.activation import Activation, AnyActivation, ScopedActivation
from policies.cel.asking import ask
from policies.cel.compiling import LONGEST, MOST_EXPRESSIONS, caret, compile, too_many  # noqa: A004 - as in re
from policies.cel.explaining import Part, explain, texts
from policies.cel.program import Program, Wants
from policies.cel.protocol import Answers, Ask, Question
from policies.cel.reads import ReadPath, cut, cut_all, minimal, trie
from policies.cel.values import EvaluationError

__all__ = [
    "LONGEST",
    "MOST_EXPRESSIONS",
    "Activation",
    "Answers",
    "AnyActivation",
    "Ask",
    "EvaluationError",
    "Part",
    "Program",
    "Question",
    "ReadPath",
    "ScopedActivation",
    "Wants",
    "ask",
    "caret",
    "compile",
    "cut",
    "cut_all",
    "explain",
    "minimal",
    "texts",
    "too_many",
    "trie",
]
