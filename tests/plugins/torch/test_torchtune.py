"""TorchTune: the model in the runtime's name, the recipe, the command line, and the Trainer's rules for them."""

from __future__ import annotations

import pytest

from plugins.torch.torchtune import model_of, uses_lora, uses_qlora
from tests.builders import MakeRuntime, MakeTrainJob, container, make_runtime, make_train_job
from tests.plugins.kit import Case, built, check, invalid, not_found, required, table

LORA = "model.lora_attn_modules=[q_proj,v_proj]"
QLORA = "model.quantize_base=True"
SMALL, BIG, QWEN = "torchtune-llama3.2-1b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b"
KEPT = [
    "output_dir=/workspace/output",
    "tokenizer.path=/workspace/model/tokenizer.model",
    "checkpointer.checkpoint_dir=/workspace/model",
]
NAME, NODES, ARGS = "spec.runtimeRef.name", "spec.trainer.numNodes", "spec.trainer.args"
PROCESSES, RESOURCES = "spec.trainer.numProcPerNode", "spec.trainer.resourcesPerNode"
MODELS = "llama3_2/1B, llama3_2/3B, llama3_3/70B, qwen2_5/1.5B"


def runtime(name: str = SMALL, *, command: list[str] | None = None) -> MakeRuntime:
    words = command if command is not None else ["tune", "run", "full_finetune_distributed", *KEPT]
    return make_runtime(name).torch().node(container("node", command=words))


def tune(name: str = SMALL, *args: str, nodes: int | None = None, gpus: int = 0) -> MakeTrainJob:
    job = make_train_job().runtime(name).command("tune", "run")
    job = job.args(*args) if args else job
    job = job.nodes(nodes) if nodes is not None else job
    return job.resources(limits={"nvidia.com/gpu": gpus}) if gpus else job


@pytest.mark.parametrize(
    ("name", "model"),
    [
        (SMALL, "llama3_2/1B"),
        (QWEN, "qwen2_5/1.5B"),
        (BIG, "llama3_3/70B"),
        ("torchtune-llama3", ""),
        ("my-torchtune-llama3.2-1b", ""),
        ("", ""),
    ],
)
def test_u01_the_model_is_read_from_a_name_of_three_parts(name: str, model: str) -> None:
    assert model_of(name) == model


# Validation


CASES: dict[str, Case] = {
    "U02 a model that is not supported is refused, and the models are named": Case(
        job=tune("torchtune-llama3.1-70b"),
        refused=(
            invalid(
                NAME, '"torchtune-llama3.1-70b"', "invalid model configured: llama3_1/70B", MODELS
            ),
        ),
    ),
    "U02 a name that is no model is refused": Case(
        job=tune("torch-distributed"), refused=(invalid(NAME, "(none)", MODELS),)
    ),
    "U02 supported models pass": Case(job=tune(QWEN)),
    "U02 without `tune run` in the TrainJob nobody looks": Case(
        job=make_train_job().runtime("torch-distributed").args("x=1")
    ),
    "U02 `tune run` and more is another command": Case(
        job=make_train_job().runtime("torch-distributed").command("tune", "run", "x")
    ),
    "U03 two nodes are refused for a small model": Case(
        job=tune("torchtune-llama3.2-3b", nodes=2),
        refused=(invalid(NODES, "2", "must be 1 for llama3_2/3B model"),),
    ),
    "U03 two nodes pass for the big one": Case(job=tune(BIG, nodes=2)),
    "U03 the runtime's own two nodes are not judged, as the Trainer does not": Case(
        job=tune("torchtune-llama3.2-3b"), runtime=runtime("torchtune-llama3.2-3b").nodes(2)
    ),
    "U04 QLoRA is refused for qwen": Case(
        job=tune(QWEN, LORA, QLORA, gpus=1),
        refused=(invalid(NAME, "QLoRA is not supported for qwen2_5/1.5B model"),),
    ),
    "U05 QLoRA with two GPUs is refused twice for a small model": Case(
        job=tune(SMALL, LORA, QLORA, gpus=2),
        refused=(
            invalid(
                PROCESSES, '"auto"', "must be auto or 1 for llama3_2/1B model when using QLoRA"
            ),
            invalid(RESOURCES, "must have gpu resource with value 1 for llama3_2/1B"),
        ),
    ),
    "U05 QLoRA with one GPU passes": Case(job=tune(SMALL, LORA, QLORA, gpus=1)),
    "U05 QLoRA with one process passes": Case(job=tune(SMALL, LORA, QLORA, gpus=2).processes(1)),
    "U05 QLoRA with two processes names their number": Case(
        job=tune(SMALL, QLORA, gpus=2).processes(2),
        refused=(invalid(PROCESSES, "2"), invalid(RESOURCES)),
    ),
    "U05 QLoRA with two GPUs passes for the big model": Case(job=tune(BIG, QLORA, gpus=2)),
    "U06 LoRA on two nodes is refused": Case(
        job=tune(BIG, LORA, nodes=2),
        refused=(invalid(NODES, "LoRA fine-tuning is not supported for multi-node training"),),
    ),
    "U06 QLoRA on two nodes is refused": Case(
        job=tune(BIG, QLORA, nodes=2), refused=(invalid(NODES, "LoRA fine-tuning"),)
    ),
    "U06 LoRA on one node passes": Case(job=tune(BIG, LORA, nodes=1)),
    "U06 up to 2.2 nobody looks": Case(line="2.2", job=tune(BIG, LORA, nodes=2)),
    "U07 settings of the runtime are refused at their places": Case(
        job=tune(SMALL, "output_dir=/custom/output", "epochs=1", "tokenizer.path=/x"),
        refused=(
            invalid(f"{ARGS}[0]", 'must not set immutable config "output_dir"'),
            invalid(f"{ARGS}[2]", 'must not set immutable config "tokenizer.path"'),
        ),
    ),
    "U07 the other two as well": Case(
        job=tune(SMALL, "tokenizer.merges_file=/x", "checkpointer.checkpoint_dir=/x"),
        refused=(invalid(f"{ARGS}[0]"), invalid(f"{ARGS}[1]")),
    ),
    "U07 other settings pass": Case(job=tune(SMALL, "tokenizer.max_seq_len=1", "output=/x")),
    "U07 up to 2.2 nobody looks": Case(line="2.2", job=tune(SMALL, "output_dir=/x")),
    "0.1.17 up to 2.1 the webhook panics on numProcPerNode without numNodes": Case(
        line="2.1",
        job=tune(BIG).processes(2),
        runtime=runtime(BIG).nodes(2),
        refused=(required(NODES, "panics on `tune run` with numProcPerNode and without numNodes"),),
    ),
    "0.1.17 with numNodes it does not": Case(line="2.1", job=tune(BIG, nodes=2).processes(2)),
    "0.1.16 2.0 does not know llama3_2/3B": Case(
        line="2.0",
        job=tune("torchtune-llama3.2-3b", nodes=1),
        refused=(invalid(NAME, "llama3_2/1B, llama3_2/7B, llama3_3/70B"),),
    ),
}


@table(CASES)
def test_validation(case: Case) -> None:
    own = case.runtime or runtime(case.job.raw["spec"]["runtimeRef"]["name"])
    check(Case(line=case.line, job=case.job, runtime=own, refused=case.refused))


def test_a_runtime_that_is_missing_is_all_that_is_said() -> None:
    check(Case(job=tune("nope", "output_dir=/x", nodes=2), refused=(not_found(NAME),)))


# What LoRA and QLoRA are


LORAS: dict[str, tuple[list[str], bool, bool, bool]] = {
    # args, LoRA, QLoRA in 2.3, QLoRA in 2.1 and 2.2
    "nothing": ([], False, False, False),
    "the modules": ([LORA], True, False, False),
    "quantized": ([QLORA], False, True, True),
    "U09 not quantized": (["model.quantize_base=False"], False, False, True),
    "true in any case, with blanks": (["model.quantize_base= TRUE "], False, True, True),
    "U09 quantized with DoRA": ([QLORA, "model.use_dora=True"], False, False, False),
    "U09 quantized without DoRA": ([QLORA, "model.use_dora=False"], False, True, False),
    "the bare word": (["model.quantize_base"], False, False, True),
}


@table(LORAS)
def test_u09(case: tuple[list[str], bool, bool, bool]) -> None:
    args, lora, qlora, older = case
    assert uses_lora(args) is lora
    assert uses_qlora("2.3", args) is qlora
    assert uses_qlora("2.2", args) is uses_qlora("2.1", args) is older


# The recipe (4.3)


RECIPES: dict[str, tuple[MakeTrainJob, str, str]] = {
    "one device, full": (tune(gpus=1), "full_finetune_single_device", "_full_single_device"),
    "one device, LoRA": (
        tune(SMALL, LORA, gpus=1),
        "lora_finetune_single_device",
        "_lora_single_device",
    ),
    "one device, QLoRA": (
        tune(SMALL, QLORA, gpus=1),
        "lora_finetune_single_device",
        "_qlora_single_device",
    ),
    "one process on four GPUs is one device": (
        tune(SMALL, LORA, gpus=4).processes(1),
        "lora_finetune_single_device",
        "_lora_single_device",
    ),
    "four GPUs, full": (tune(gpus=4), "full_finetune_distributed", "_full"),
    "four GPUs, LoRA": (tune(SMALL, LORA, gpus=4), "lora_finetune_distributed", "_lora"),
    "four GPUs, QLoRA": (tune(SMALL, QLORA, gpus=4), "lora_finetune_distributed", "_qlora"),
    "four processes": (
        tune(SMALL, gpus=1).processes(4),
        "full_finetune_single_device",
        "_full_single_device",
    ),
    "four processes without GPUs": (tune().processes(4), "full_finetune_distributed", "_full"),
    "no GPU and one CPU, which becomes one process": (
        tune(),
        "full_finetune_single_device",
        "_full_single_device",
    ),
    "two nodes, full": (tune(nodes=2), "full_finetune_distributed", "_full_multinode"),
    "two nodes, LoRA": (tune(SMALL, LORA, nodes=2), "full_finetune_distributed", "_full_multinode"),
    "no nodes": (tune(nodes=0), "full_finetune_distributed", "_full"),
}


@table(RECIPES)
def test_u08_recipes(case: tuple[MakeTrainJob, str, str]) -> None:
    job, recipe, suffix = case
    command = built(job, runtime()).container()["command"]
    at = command.index("--config")
    assert command[:2] == ["tune", "run"]
    assert command[at - 1 : at + 2] == [recipe, "--config", f"llama3_2/1B{suffix}"]


OLDEST: dict[str, tuple[MakeTrainJob, str, str, bool]] = {
    "one process": (
        tune(nodes=1).processes(1),
        "full_finetune_single_device",
        "_full_single_device",
        False,
    ),
    "auto": (tune(nodes=1), "full_finetune_distributed", "_full", True),
    "LoRA is not known": (
        tune(SMALL, LORA, nodes=1).processes(1),
        "full_finetune_single_device",
        "_full_single_device",
        False,
    ),
    "two nodes": (
        tune(BIG, nodes=2).processes(1),
        "full_finetune_distributed",
        "_full_multinode",
        True,
    ),
}


@table(OLDEST)
def test_0_1_16_recipes_of_2_0(case: tuple[MakeTrainJob, str, str, bool]) -> None:
    job, recipe, suffix, rendezvous = case
    name = job.raw["spec"]["runtimeRef"]["name"]
    node = container("node", command=["x", *KEPT], resources={"requests": {"cpu": "1"}})
    made = built(job, make_runtime(name).torch().node(node), line="2.0")
    command = made.container()["command"]
    assert command[-6:] == [recipe, "--config", f"{model_of(name)}{suffix}", *KEPT]
    assert any(word.startswith("--rdzv_endpoint") for word in command) is rendezvous


RENDEZVOUS: dict[str, tuple[MakeTrainJob, bool]] = {
    "two nodes": (tune(nodes=2), True),
    "several processes": (tune().processes(2), True),
    "auto with several GPUs": (tune(gpus=2), True),
    "auto with one GPU": (tune(gpus=1), False),
    "one process on several GPUs": (tune(gpus=2).processes(1), False),
    "nothing": (tune(), False),
}


@table(RENDEZVOUS)
def test_the_rendezvous(case: tuple[MakeTrainJob, bool]) -> None:
    job, wanted = case
    option = "--rdzv_endpoint=test-job-node-0-0.test-job:29500"
    assert (option in built(job, runtime()).container()["command"]) is wanted


def test_u10_the_whole_command_of_a_big_model() -> None:
    words = ["tune", "run", "--x", "dataset.source=parquet", *KEPT, "tokenizer.merges_file=/m"]
    job = tune(BIG, "epochs=1", nodes=30).processes(3)
    made = built(job, runtime(BIG, command=words))
    assert made.container()["command"] == [
        "tune",
        "run",
        "--rdzv_endpoint=test-job-node-0-0.test-job:29500",
        "full_finetune_distributed",
        "--config",
        "llama3_3/70B_full_multinode",
        *KEPT,
        "tokenizer.merges_file=/m",
    ]
    assert made.container()["args"] == ["epochs=1"]
    env = made.env()
    assert list(env) == ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"]
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("30", "3")


U11: dict[str, tuple[list[str], int, bool, str, str]] = {
    "LoRA with two GPUs": ([LORA], 2, True, "lora_finetune_distributed", "llama3_2/1B_lora"),
    "QLoRA with one": (
        [LORA, QLORA],
        1,
        False,
        "lora_finetune_single_device",
        "llama3_2/1B_qlora_single_device",
    ),
    "quantized with DoRA, two GPUs": (
        [LORA, QLORA, "model.use_dora=True"],
        2,
        True,
        "lora_finetune_distributed",
        "llama3_2/1B_lora",
    ),
}


@table(U11)
def test_u11(case: tuple[list[str], int, bool, str, str]) -> None:
    args, gpus, rendezvous, recipe, config = case
    made = built(tune(SMALL, *args, nodes=1, gpus=gpus), runtime())
    command = made.container()["command"]
    assert command[-6:] == [recipe, "--config", config, *KEPT]
    assert any(word.startswith("--rdzv_endpoint") for word in command) is rendezvous
    env = made.env()
    assert env["PET_NPROC_PER_NODE"] == "auto"
    assert not any(name.startswith("PET_MASTER") for name in env)


def test_u12_settings_come_from_container_node_of_the_trainers_jobs_only() -> None:
    elsewhere = container("side", command=["output_dir=/side"])
    made = built(
        tune(),
        make_runtime(SMALL)
        .torch()
        .job("other", containers=[container("node", command=["output_dir=/other"])])
        .node(container("node", command=["x", "output_dir=/node", "epochs=1"]), elsewhere)
        .job("more", "trainer", containers=[container("node", command=["tokenizer.path=/more"])]),
    )
    assert made.container()["command"][-2:] == ["output_dir=/node", "tokenizer.path=/more"]


def test_u12_a_runtime_without_a_command_gives_none() -> None:
    made = built(tune(), make_runtime(SMALL).torch().node())
    assert made.container()["command"][-1] == "llama3_2/1B_full_single_device"


def test_without_tune_run_the_runtimes_command_stays() -> None:
    made = built(make_train_job().runtime(SMALL).nodes(1), runtime())
    assert made.container()["command"] == ["tune", "run", "full_finetune_distributed", *KEPT]
