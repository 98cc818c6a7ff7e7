from __future__ import annotations

import json

import pytest

from plugins.framework.field import Findings, forbidden
from tests.webhook.cli.conftest import Run, job, review
from tests.webhook.cli.fakes import Converted, Engine
from webhook.yamlio import Document

CONVERT = ("convert", "-f", "-", "--to", "2.3")


def convert(document: Document, to: str) -> Converted:
    obj = {**document.obj, "to": to}
    if obj["metadata"]["name"] == "b":
        error = forbidden("spec.podSpecOverrides[0]", "cannot be said in 2.3")
        return Converted(obj=obj, findings=Findings([error]))
    return Converted(obj=obj, findings=Findings(warnings=["a default is written out"]))


def test_the_object_is_printed_in_the_words_of_the_other_line(run: Run, engine: Engine) -> None:
    engine.on_convert = convert
    ran = run(*CONVERT, "--trainer-version", "2.0", stdin=job())
    assert (ran.code, ran.err) == (0, ["Warning: TrainJob team/a: a default is written out"])
    assert ran.out.endswith('to: "2.3"\n')


def test_what_cannot_be_said_is_not_printed(run: Run, engine: Engine) -> None:
    engine.on_convert = convert
    ran = run(*CONVERT, "-o", "json", stdin=job("a") + "---\n" + job("b"))
    assert ran.code == 1
    assert ran.err[1:] == [
        "Error: TrainJob team/b: spec.podSpecOverrides[0]: Forbidden: cannot be said in 2.3 (standard input:5)"
    ]
    assert [item["metadata"]["name"] for item in json.loads(ran.out)["items"]] == ["a"]
    assert run(*CONVERT, stdin=job("b")).out == ""


def test_the_object_of_a_review_is_converted(run: Run, engine: Engine) -> None:
    engine.on_convert = convert
    assert "kind: TrainJob\nmetadata:\n  name: c\n" in run(*CONVERT, stdin=review("c")).out
    ran = run(*CONVERT, stdin="kind: AdmissionReview\nrequest: {kind: {kind: TrainJob}}")
    assert ran.code == 2
    assert ran.err == [
        "Error: AdmissionReview (no name): standard input:1: the review holds no object"
    ]


@pytest.mark.parametrize(
    ("text", "inner"), [(review("p", "Pod"), "Pod"), ("kind: AdmissionReview\nrequest: []", "")]
)
def test_reviews_of_other_kinds_are_skipped(
    run: Run, engine: Engine, text: str, inner: str
) -> None:
    del engine
    ran = run(*CONVERT, stdin=text)
    assert ran.code == 2
    assert ran.err[0] == f'Warning: standard input:1: skipped: it reviews "{inner}"'
