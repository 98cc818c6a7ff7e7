"""TorchTune's recipe, config and command line, and the rules that the Trainer has for them (semantics 4.3).

Active only where ``trainer.command`` is exactly ``["tune", "run"]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from plugins.framework import field, pods, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path
from plugins.framework.info import Info, gpu_count

if TYPE_CHECKING:
    from plugins.framework.api.trainjob import TrainJob

ENTRYPOINT: Final = ["tune", "run"]
IMMUTABLE: Final = (
    "output_dir",
    "tokenizer.path",
    "tokenizer.merges_file",
    "checkpointer.checkpoint_dir",
)
"""Settings that come from the runtime's own command."""
_IMMUTABLE_V20: Final = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir")

_BIG: Final = "llama3_3/70B"
_SMALL_LLAMAS: Final = ("llama3_2/1B", "llama3_2/3B")
_QWEN: Final = "qwen2_5/1.5B"
_MODELS: Final = {
    "2.0": ("llama3_2/1B", "llama3_2/7B", _BIG),
    "2.1": (*_SMALL_LLAMAS, _BIG, _QWEN),
    "2.2": (*_SMALL_LLAMAS, _BIG, _QWEN),
    "2.3": (*_SMALL_LLAMAS, _BIG, _QWEN),
}

_NAME: Final = Path("spec", "runtimeRef", "name")
_TRAINER: Final = Path("spec", "trainer")


def applies(command: Sequence[str] | None) -> bool:
    """Whether the Trainer takes over the command line."""
    return command == ENTRYPOINT


def model_of(runtime_name: str) -> str:
    """``torchtune-llama3.2-1b`` -> ``llama3_2/1B``; empty where the name has not exactly three parts."""
    parts = runtime_name.split("-")
    if len(parts) != 3:  # a-b-c
        return ""
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}"


def command(info: Info, processes: int | str) -> list[str]:
    """The command that the controller writes for these facts."""
    trainer = info.trainer
    nodes = trainer.count if trainer is not None else 1
    gpus = gpu_count(info.resources_per_node())
    out = list(ENTRYPOINT)
    if _needs_rendezvous(info, nodes, processes, gpus):
        out.append(f"--rdzv_endpoint={pods.master_address(info)}:{names.TRAINER_PORT}")
    recipe, suffix = recipe_and_suffix(info, nodes, processes, gpus, info.job.words("args") or [])
    out += [recipe, "--config", f"{model_of(info.job.runtime_name)}{suffix}"]
    for pod_set in info.pod_sets:
        if pod_set.ancestor == names.TRAINER:
            container = pod_set.base.container(names.NODE) or {}
            kept = IMMUTABLE if info.line.name != "2.0" else _IMMUTABLE_V20
            out += [w for w in values.items(container.get("command")) if w.split("=")[0] in kept]
    return out


def _needs_rendezvous(info: Info, nodes: int, processes: int | str, gpus: int) -> bool:
    if info.line.name == "2.0":
        return nodes > 1 or processes != 1
    if type(processes) is int:
        return nodes > 1 or processes > 1
    return nodes > 1 or gpus > 1


def recipe_and_suffix(
    info: Info, nodes: int, processes: int | str, gpus: int, args: Sequence[str]
) -> tuple[str, str]:
    """The recipe, and what follows the model in the config's name."""
    if info.line.name == "2.0":
        if nodes == 1 and processes == 1:
            return "full_finetune_single_device", "_full_single_device"
        return "full_finetune_distributed", "_full_multinode" if nodes > 1 else "_full"
    qlora, lora = uses_qlora(info.line.name, args), uses_lora(args)
    if nodes != 1:
        return "full_finetune_distributed", "_full_multinode" if nodes > 1 else "_full"
    if processes == 1 or gpus == 1:
        if qlora or lora:
            return "lora_finetune_single_device", f"_{'q' if qlora else ''}lora_single_device"
        return "full_finetune_single_device", "_full_single_device"
    if qlora or lora:
        return "lora_finetune_distributed", "_qlora" if qlora else "_lora"
    return "full_finetune_distributed", "_full"


def uses_lora(args: Sequence[str]) -> bool:
    """Some argument names the LoRA modules."""
    return any("model.lora_attn_modules" in arg for arg in args)


def uses_qlora(line: str, args: Sequence[str]) -> bool:
    """The base model is quantized, and DoRA is not used. Before 2.3 naming the setting was enough."""
    if line in {"2.1", "2.2"}:
        # The first of the two that is met decides when it is DoRA; order matters no further.
        return not any("model.use_dora" in a for a in args) and any(
            "model.quantize_base" in a for a in args
        )
    return not _enabled(args, "model.use_dora") and _enabled(args, "model.quantize_base")


def _enabled(args: Sequence[str], item: str) -> bool:
    for arg in args:
        name, found, value = arg.partition("=")
        if found and item in name and value.strip().lower() == "true":
            return True
    return False


def problems(info: Info, job: TrainJob) -> Iterator[FieldError]:
    """What the Trainer refuses, at paths that exist."""
    line = info.line.name
    name = job.runtime_name
    model = model_of(name)
    known = ", ".join(_MODELS[line])
    if model not in _MODELS[line]:
        yield field.invalid(
            _NAME,
            name,
            f"must have a supported pretrained model, invalid model configured: {model or '(none)'}; a "
            f"runtime for `tune run` is named <prefix>-<model>-<size>, and the models are: {known}",
        )
    if line in {"2.0", "2.1"} and job.num_nodes is None and job.num_proc_per_node is not None:
        detail = f"the webhook of Trainer {line} panics on `tune run` with numProcPerNode and without numNodes"
        yield field.required(_TRAINER.child("numNodes"), detail)
    nodes = job.num_nodes if job.num_nodes is not None else 1
    if nodes > 1 and model != _BIG:
        yield field.invalid(
            _TRAINER.child("numNodes"), nodes, f"must be 1 for {model or 'this'} model"
        )
    if line == "2.0":
        return
    yield from _qlora_problems(info, job, model, nodes)
    if line == "2.3":
        yield from _args_problems(job, nodes)


def _qlora_problems(info: Info, job: TrainJob, model: str, nodes: int) -> Iterator[FieldError]:
    processes = job.num_proc_per_node
    start: int | str = "auto" if processes is None else processes
    gpus = gpu_count(info.resources_per_node())
    _, suffix = recipe_and_suffix(info, nodes, start, gpus, job.words("args") or [])
    if "_qlora" not in suffix:
        return
    if model == _QWEN:
        yield field.invalid(_NAME, job.runtime_name, f"QLoRA is not supported for {model} model")
    if suffix == "_qlora" and model in _SMALL_LLAMAS:
        yield field.invalid(
            _TRAINER.child("numProcPerNode"),
            start,
            f"must be auto or 1 for {model} model when using QLoRA",
        )
        yield field.invalid(
            _TRAINER.child("resourcesPerNode"),
            job.resources_per_node,
            f"must have gpu resource with value 1 for {model} model when using QLoRA",
        )


def _args_problems(job: TrainJob, nodes: int) -> Iterator[FieldError]:
    args = job.words("args") or []
    if nodes > 1 and (uses_lora(args) or uses_qlora("2.3", args)):
        yield field.invalid(
            _TRAINER.child("numNodes"),
            nodes,
            "LoRA fine-tuning is not supported for multi-node training in TorchTune",
        )
    for i, arg in enumerate(args):
        key = arg.split("=", 1)[0]
        if key in IMMUTABLE:
            yield field.invalid(
                _TRAINER.child("args").index(i),
                arg,
                f'must not set immutable config "{key}" in trainer args; it is managed by the runtime',
            )
