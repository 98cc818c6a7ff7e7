"""Whether a job's command was made by the SDK: from a Python function, or for torchtune.

The SDK refuses TrainerCommand and TrainerArgs for such trainers on the client; what it sent bears no mark, so they
are known by their form (the here-document around a function's source, ``tune run``, the runtime's framework label).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugins.framework import values
from plugins.framework.api import names

if TYPE_CHECKING:
    from plugins.framework.info import Info

FRAMEWORK_LABEL: Final = "trainer.kubeflow.org/framework"
TORCHTUNE: Final = "torchtune"
_TUNE: Final = ["tune", "run"]
_HERE_DOCUMENT: Final = "read -r -d '' SCRIPT << EOM"


def generator(info: Info) -> str:
    """The SDK's trainer that made the command: CustomTrainer or BuiltinTrainer; empty where none did."""
    command = values.items(info.job.words("command"))
    if any(_HERE_DOCUMENT in values.text(word) for word in command):
        return "CustomTrainer"
    if command[:2] == _TUNE or info.runtime.labels.get(FRAMEWORK_LABEL) == TORCHTUNE:
        return "BuiltinTrainer"
    job = info.runtime.trainer_job
    container = job.container(names.NODE) if job is not None else None
    own = values.items((container or {}).get("command"))
    return "BuiltinTrainer" if not command and own[:2] == _TUNE else ""
