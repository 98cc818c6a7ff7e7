"""The points that can only warn: when they are called, and that a fault in one has no effect but to be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pytest

from plugins.framework import profile
from plugins.framework.api.trainjob import TrainJob
from plugins.framework.context import Context
from plugins.framework.info import Info
from plugins.framework.interface import WarnDeletionPlugin, WarnTrainJobPlugin
from plugins.framework.pipeline import Pipeline, Result
from plugins.framework.profile import CONTROLLERS
from plugins.framework.registry import PluginSpec, Registry
from plugins.registry import in_tree
from tests.builders import make_runtime, make_train_job
from tests.plugins.kit import USER, cluster_of, make_context, run, stored

RUNTIME = make_runtime().torch().node()
JOB = make_train_job()
SECRET = "s3cr3t"  # a value that must not come out
FAULT = "plugin Teller failed in {}: ZeroDivisionError"


class Teller(WarnTrainJobPlugin, WarnDeletionPlugin):
    """Says where it was called, or fails there."""

    name: ClassVar[str] = "Teller"

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def warn_train_job(
        self, ctx: Context, info: Info | None, old: TrainJob | None, new: TrainJob
    ) -> Sequence[str]:
        del ctx, new
        return self._tell(f"told: info {info is not None}, old {old is not None}")

    def warn_deletion(self, ctx: Context, old: dict[str, Any]) -> Sequence[str]:
        del ctx, old
        return self._tell("told: gone")

    def _tell(self, text: str) -> Sequence[str]:
        if self.fails:
            raise ZeroDivisionError(SECRET)
        return [text]


@dataclass
class Counter:
    faults: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, plugin: str, point: str) -> None:
        self.faults.append((plugin, point))


def pipeline(counter: Counter | None = None, *, fails: bool = False) -> Pipeline:
    """The built-in profile and a Teller, whose faults would refuse if they could."""
    teller = PluginSpec(name="Teller", build=lambda _args, _handle: Teller(fails=fails))
    document = {
        "apiVersion": profile.API_VERSION,
        "kind": profile.KIND,
        "plugins": {"multiPoint": {"enabled": [{"name": "Teller"}]}},
        "pluginConfig": [{"name": "Teller", "onFault": "Refuse"}],
    }
    chosen = profile.decode(document, [spec.name for spec in in_tree()])
    return Pipeline(Registry((*in_tree(), teller)), chosen, counter)


def creates(pipe: Pipeline) -> list[Result]:
    raw = stored(JOB)
    mutated = run(pipe.mutate(make_context(cluster_of(RUNTIME), obj=raw), raw))
    return [mutated, run(pipe.validate(make_context(cluster_of(RUNTIME), obj=raw), raw))]


def updates(pipe: Pipeline, *, user: str = USER, runtime: bool = True) -> list[Result]:
    """The job is suspended, which is judged by nobody else."""
    old, new = stored(JOB), stored(JOB.suspended())
    cluster = cluster_of(RUNTIME) if runtime else cluster_of()
    out = []
    for call in (pipe.mutate, pipe.validate):
        ctx = make_context(cluster, operation="UPDATE", user=user, obj=new, old=deepcopy(old))
        out.append(run(call(ctx, deepcopy(new))))
    return out


def deletes(pipe: Pipeline, *, user: str = USER) -> list[Result]:
    old = stored(JOB)
    ctx = make_context(cluster_of(RUNTIME), operation="DELETE", user=user, old=old)
    return [pipe.warn_deletion(ctx, old)]


CALLS: dict[str, tuple[Callable[[Pipeline], list[Result]], list[str]]] = {
    "a new job": (creates, ["told: info True, old False"]),
    "an update that no rule is about": (updates, ["told: info True, old True"]),
    "one without a runtime": (
        partial(updates, runtime=False),
        ["told: info False, old True"],
    ),
    "a deletion": (deletes, ["told: gone"]),
    **{f"no update of {user}": (partial(updates, user=user), []) for user in CONTROLLERS},
    **{f"no deletion of {user}": (partial(deletes, user=user), []) for user in CONTROLLERS},
}


@pytest.mark.parametrize("rule", CALLS)
def test_a_warning_is_asked_for_at(rule: str) -> None:
    call, want = CALLS[rule]

    for result in call(pipeline()):
        assert [w for w in result.findings.warnings if w.startswith("told")] == want


FAULTS = {
    "warn_train_job on CREATE": creates,
    "warn_train_job on UPDATE": updates,
    "warn_deletion": deletes,
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_counted_and_said_and_changes_nothing(rule: str) -> None:
    call, point = FAULTS[rule], rule.split(" ", maxsplit=1)[0]
    counter = Counter()

    sound, faulty = call(pipeline()), call(pipeline(counter, fails=True))

    assert counter.faults == [("Teller", point)] * len(faulty)
    for good, bad in zip(sound, faulty, strict=True):
        assert bad.allowed
        assert bad.faults == []
        assert bad.patch == good.patch
        assert [w for w in bad.findings.warnings if w.startswith(FAULT.format(point))]
        assert SECRET not in str(bad.findings)
