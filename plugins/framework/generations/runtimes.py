"""TrainingRuntimes and ClusterTrainingRuntimes: policies and templates, as far as the lines differ in their fields."""

from __future__ import annotations

from typing import Any, Final

from plugins.framework import field, values
from plugins.framework.field import Findings
from plugins.framework.generations.marks import SPEC
from plugins.framework.generations.translate import Translator, object_at, same_type
from plugins.framework.lines import Line

TORCH: Final = SPEC.child("mlPolicy", "torch")
PROCESSES: Final = "numProcPerNode"
ELASTIC: Final = "elasticPolicy"
IMPLEMENTATION: Final = SPEC.child("mlPolicy", "mpi", "mpiImplementation")


def convert_spec(spec: Any, source: Line, target: Line, findings: Findings) -> Any:
    """The ``spec`` of a runtime of one line for another."""
    if spec is None:
        return None
    raw = object_at(findings, SPEC, spec)
    translator = Translator(
        source, target, findings, "leave it out, or stay with a Trainer that has it"
    )
    removed = frozenset({TORCH.child(PROCESSES), TORCH.child(ELASTIC)})
    out = translator.copy(raw, SPEC, same_type("TrainingRuntimeSpec"), skip=removed)
    if not target.proc_per_node_text:
        _convert_torch(values.at_obj(out, "mlPolicy", "torch"), target, findings)
    implementation = values.at(raw, "mlPolicy", "mpi", "mpiImplementation")
    if implementation == "" and target.name == "2.0":
        findings.error(field.not_supported(IMPLEMENTATION, implementation, ("OpenMPI",)))
    return out


def _convert_torch(torch: dict[str, Any], target: Line, findings: Findings) -> None:
    """2.2 removed both fields: the number is the TrainJob's, ``auto`` if it has none, and nobody acts on the other."""
    processes, path = torch.get(PROCESSES), TORCH.child(PROCESSES)
    if processes == "auto":
        del torch[PROCESSES]
        findings.warn(
            f"{path}: left out, since Trainer {target.name} has no such field and does what auto says"
        )
    elif processes is not None:
        detail = f"Trainer {target.name} has no such field: set spec.trainer.numProcPerNode in the TrainJobs"
        findings.error(field.forbidden(path, detail))
    if torch.get(ELASTIC) is not None:
        detail = f"Trainer {target.name} has no such field, and no Trainer acts on it: leave it out"
        findings.error(field.forbidden(TORCH.child(ELASTIC), detail))
