"""The data that expressions of one request and round are evaluated on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from policies.cel import engine
from policies.cel.reads import ReadPath, cut_all
from policies.cel.shapes import VARIABLES
from policies.cel.values import EvaluationError, fault_of

if TYPE_CHECKING:
    from cel_expr_python import cel

    from policies.cel.program import Program


class Activation:
    """One request's data, given to the engine once and shared by the expressions of all policies.

    Short-lived on purpose: the engine keeps every temporary value until the activation dies.
    """

    __slots__ = ("_data", "_engine", "_faults")

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        reads: frozenset[ReadPath] | None = None,
        faults: Mapping[str, str] | None = None,
    ) -> None:
        """Take variable -> JSON value (plain dict, list, str, int, float, bool, None).

        ``reads``: what the compiled set reads, to which the data is cut; None: the data is given whole. ``faults``:
        variables that are not in the data, and why.
        """
        self._data = dict(data) if reads is None else cut_all(data, reads)
        self._faults = {name: f"{name} {fault}" for name, fault in (faults or {}).items()}
        for name, value in self._data.items():
            fault = fault_of(value)
            if fault:
                self._faults[name] = f"{name} {fault}"
        self._engine: cel.Activation | None = None

    @property
    def data(self) -> Mapping[str, Any]:
        """What expressions see, as JSON: what a worker is sent."""
        return self._data

    def fault(self, roots: frozenset[str]) -> EvaluationError | None:
        """Why none of these variables may be read: closed, because the engine would read something else."""
        if not self._faults:
            return None
        for name in sorted(roots & self._faults.keys()):
            return EvaluationError(self._faults[name], "data")
        return None

    def bound(self) -> cel.Activation:
        """The engine's form, made when first asked for."""
        if self._engine is None:
            self._engine = engine.evaluation().Activation(self._data)
        return self._engine

    def scoped(self, variables: Mapping[str, Program]) -> ScopedActivation:
        """The same data with a policy's own variables, each evaluated once and only if it is read."""
        return ScopedActivation(self, variables)


class ScopedActivation:
    """An Activation with the variables of one policy."""

    __slots__ = ("_base", "_bound", "_errors", "_programs", "_values")

    def __init__(self, base: Activation, programs: Mapping[str, Program]) -> None:
        """Take the shared data and the compiled variables, in document order."""
        self._base = base
        self._programs = programs
        self._values: dict[str, Any] = {}
        self._errors: dict[str, EvaluationError] = {}
        self._bound: dict[frozenset[str], cel.Activation] = {}

    @property
    def data(self) -> Mapping[str, Any]:
        """The shared data."""
        return self._base.data

    def fault(self, roots: frozenset[str]) -> EvaluationError | None:
        """As of the shared data."""
        return self._base.fault(roots)

    def bound(self, names: frozenset[str] = frozenset()) -> cel.Activation:
        """The engine's form with these variables in it; one that has no value is missing there."""
        if not names:
            return self._base.bound()
        if names not in self._bound:
            for name in sorted(names):
                self._resolve(name)
            values = {name: self._values[name] for name in sorted(names) if name in self._values}
            self._bound[names] = engine.evaluation().Activation(
                {**self._base.data, VARIABLES: values}
            )
        return self._bound[names]

    def error_behind(self, error: EvaluationError, names: frozenset[str]) -> EvaluationError | None:
        """The reason why a variable has no value, where all that the engine says is that it is missing."""
        for name in sorted(names & self._errors.keys()):
            if error.message.endswith((f" {name}", f'"{name}"')):
                return self._errors[name]
        return None

    def _resolve(self, name: str) -> None:
        """Variables read earlier ones only, so this ends."""
        if name in self._values or name in self._errors or name not in self._programs:
            return
        found = self._programs[name].native(self)
        if isinstance(found, EvaluationError):
            self._errors[name] = EvaluationError(
                f"variables.{name}: {found.message}"
                if not found.message.startswith("variables.")
                else found.message,
                found.reason,
            )
        else:
            self._values[name] = found


AnyActivation = Activation | ScopedActivation
