"""Container ``node`` must be built with an image."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import container, make_runtime, make_train_job
from tests.plugins.kit import LINES, Case, check, invalid, required, table

JOB = make_train_job()
WITH = make_runtime().plain().node()
WITHOUT = make_runtime().plain().node(container("node", image=None))
AT = "spec.trainer.image"

CASES: dict[str, Case] = {
    "the runtime's": Case(job=JOB, runtime=WITH),
    "the TrainJob's": Case(job=JOB.trainer(image="x"), runtime=WITHOUT),
    "an empty one replaces the runtime's": Case(
        job=JOB.trainer(image=""),
        runtime=WITH,
        refused=(
            required(
                AT,
                'an empty image replaces the runtime\'s, "example.test/train:1": leave the field out',
            ),
        ),
    ),
    "an empty one where the runtime has none": Case(
        job=JOB.trainer(image=""), runtime=WITHOUT, refused=(required(AT),)
    ),
    "none at all": Case(
        job=JOB.nodes(2),
        runtime=WITHOUT,
        refused=(required(AT, "runtime runtime gives container node of job node no image"),),
    ),
    "none at all, and no spec.trainer": Case(job=JOB, runtime=WITHOUT, refused=(required(AT),)),
    "an empty one of the runtime is none": Case(
        job=JOB,
        runtime=make_runtime().plain().node(container("node", image="")),
        refused=(required(AT),),
    ),
    "one that begins with a blank": Case(
        job=JOB.trainer(image=" x"),
        runtime=WITH,
        refused=(invalid(AT, '" x": must not have leading or trailing whitespace'),),
    ),
    "an empty one that goes nowhere": Case(
        job=JOB.trainer(image=""), runtime=make_runtime().plain().job("node")
    ),
    "two jobs of the trainer, one finding": Case(
        job=JOB.trainer(image=""), runtime=WITH.job("more", "trainer"), refused=(required(AT),)
    ),
    "of the second of them the first is right": Case(
        job=JOB,
        runtime=WITH.job("more", "trainer", containers=[container("node", image=None)]),
        refused=(required(AT, "of job more"),),
    ),
    "a null is no image, and dropped": Case(job=JOB.trainer(image=None), runtime=WITH),
}


@pytest.mark.parametrize("line", LINES)
@table(CASES)
def test_images(case: Case, line: str) -> None:
    check(replace(case, line=line))
