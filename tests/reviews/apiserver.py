"""The API server around our webhook, with Trainer 2.3 and, if wanted, Kueue: what they do to a TrainJob.

    server = ApiServer(desk, kueue=True)
    stored = server.create(manifest)
    server.update(stored, changed)

In the order of the real one (recorded in ``tests/data/admission-reviews``): schema and defaults; ours; the
Trainer's defaulter, which stamps ``time``; Kueue's, on CREATE only, which suspends, appends an entry and writes
quantities as text; ours once more where somebody behind it changed the object; schema and CEL; the validating
webhooks. Without a desk there is no webhook of ours.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from plugins.framework import schema, values
from plugins.framework.api import names
from tests.builders import Json
from tests.reviews import desk as desks
from tests.reviews.desk import Desk

NOW: Final = "2026-11-30T18:48:49Z"
LATER: Final = "2026-11-30T19:00:00Z"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Refused(Exception):  # what happened, not a fault
    """The request is denied; by whom, and with what words."""

    def __init__(self, by: str, text: str, status: Json | None = None) -> None:
        super().__init__(f"{by}: {text}")
        self.by = by
        self.text = text
        self.status = status or {"message": text, "code": 422, "reason": "Invalid"}


@dataclass(frozen=True)
class ApiServer:
    """Takes TrainJobs in, one at a time; keeps none."""

    desk: Desk | None
    kueue: bool = False
    line: str = "2.3"

    def create(self, manifest: Json, *, user: str = desks.USER) -> Json:
        """What is stored of a new TrainJob. Raises Refused."""
        obj = schema.load(self.line).admit(names.TRAIN_JOB, manifest).obj
        ours = self._mutated(obj, None, user)
        theirs = stamp(None, ours, NOW)
        if self.kueue:
            theirs = kueue_creates(theirs)
        if not values.same(ours, theirs):
            again = self._mutated(theirs, None, user)
            assert values.same(again, theirs), "the second call changed what the first had left"
        self._check_schema(theirs, None)
        stored = {
            **theirs,
            "metadata": {
                **theirs["metadata"],
                "uid": "8b71915c-2109-4e97-aaaa-4ff848b0af82",
                "generation": 1,
                "creationTimestamp": NOW,
                "resourceVersion": "1",
            },
        }
        self._validated(stored, None, user)
        return deepcopy(stored)

    def update(self, old: Json, new: Json, *, user: str = desks.USER) -> Json:
        """What is stored after an update; equal to ``old`` where nothing changed. Raises Refused."""
        shaped = schema.load(self.line).admit(names.TRAIN_JOB, new, old).obj
        for key in ("uid", "generation", "creationTimestamp", "resourceVersion"):
            if key in old["metadata"]:
                shaped["metadata"].setdefault(key, old["metadata"][key])
        ours = self._mutated(shaped, old, user)
        theirs = stamp(old, ours, LATER)
        if not values.same(ours, theirs):
            theirs = self._mutated(theirs, old, user)
        self._check_schema(theirs, old)
        _trainer_judges(old, theirs)
        self._validated(theirs, old, user)
        return deepcopy(theirs)

    def _mutated(self, obj: Json, old: Json | None, user: str) -> Json:
        if self.desk is None:
            return obj
        reply = self.desk.mutate(desks.review(obj, old, user=user))
        if not reply.allowed:
            raise Refused("stationmaster", reply.message, reply.status)
        return reply.after

    def _validated(self, obj: Json, old: Json | None, user: str) -> None:
        if self.desk is None:
            return
        reply = self.desk.validate(desks.review(obj, old, user=user))
        if not reply.allowed:
            raise Refused("stationmaster", reply.message, reply.status)

    def _check_schema(self, obj: Json, old: Json | None) -> None:
        errors = schema.load(self.line).admit(names.TRAIN_JOB, obj, old).errors
        if errors:
            raise Refused("schema", "; ".join(map(str, errors)))


def stamp(old: Json | None, new: Json, now: str) -> Json:
    """The Trainer's defaulter (semantics 6.2)."""
    out = deepcopy(new)
    before = {e["manager"]: e for e in (old or {}).get("spec", {}).get("runtimePatches") or []}
    for entry in out["spec"].get("runtimePatches") or []:
        known = before.get(entry["manager"])
        if known is not None and _timeless(known) == _timeless(entry):
            if "time" in known:
                entry["time"] = known["time"]
            else:
                entry.pop("time", None)
        elif known is not None:
            entry["time"] = now
        else:
            entry.setdefault("time", now)
    return out


def _timeless(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if key != "time"}


def kueue_creates(obj: Json) -> Json:
    """Kueue's webhook on CREATE."""
    out = deepcopy(obj)
    queue = out["metadata"].get("labels", {}).get(QUEUE)
    template: Json = {"spec": {}}
    if queue:
        out["spec"]["suspend"] = True
        template["metadata"] = {"labels": {QUEUE: queue}}
    entry = {"manager": names.KUEUE_MANAGER, "trainingRuntimeSpec": {"template": template}}
    out["spec"].setdefault("runtimePatches", []).append(entry)
    resources = out["spec"].get("trainer", {}).get("resourcesPerNode", {})
    for part in ("limits", "requests"):
        for name, amount in resources.get(part, {}).items():
            resources[part][name] = str(amount)
    return out


def kueue_admits(stored: Json) -> Json:
    """Kueue's controller fills its entry in, while the job is suspended."""
    out = deepcopy(stored)
    labels = {"kueue.x-k8s.io/podset": "node"}
    pods = {"metadata": {"labels": labels}, "spec": {}}
    jobs = [{"name": "node", "template": {"spec": {"template": pods}}}]
    for entry in out["spec"]["runtimePatches"]:
        if entry["manager"] == names.KUEUE_MANAGER:
            entry["trainingRuntimeSpec"]["template"]["spec"] = {"replicatedJobs": jobs}
    return out


def kueue_starts(stored: Json) -> Json:
    """Kueue's controller lets the job run."""
    out = deepcopy(stored)
    out["spec"]["suspend"] = False
    return out


def with_status(stored: Json, *, kind: str = "Suspended", status: str = "True") -> Json:
    """The Trainer's controller has been here."""
    out = deepcopy(stored)
    out["status"] = {
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": kind,
                "message": "",
                "lastTransitionTime": NOW,
            }
        ],
        "jobsStatus": [
            {"name": "node", "active": 0, "failed": 0, "ready": 0, "succeeded": 0, "suspended": 1}
        ],
    }
    return out


def _trainer_judges(old: Json, new: Json) -> None:
    """The Trainer's validator: patches change only while suspended before or after (semantics 6.3)."""
    before, after = (o["spec"].get("runtimePatches") or [] for o in (old, new))
    if before != after and not (old["spec"].get("suspend") or new["spec"].get("suspend")):
        raise Refused(
            "trainer", "spec.runtimePatches: Forbidden: RuntimePatches can only be modified"
        )


# How a manifest is applied once more


def client_side_apply(live: Json, manifest: Json, last: Json | None = None) -> Json:
    """What ``kubectl apply`` sends: a JSON merge patch of the manifest, lists whole.

    What neither the manifest nor the last one says is left as it is in the cluster.
    """
    out: Json = _merge(deepcopy(live), manifest, manifest if last is None else last)
    return out


def _merge(live: Json, manifest: Json, last: Json) -> Json:
    for key in last:
        if key not in manifest:
            live.pop(key, None)
    for key, value in manifest.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            before = last.get(key)
            live[key] = _merge(live[key], value, before if isinstance(before, dict) else {})
        else:
            live[key] = deepcopy(value)
    return live


_KEYS: Final[dict[str, str]] = {
    "runtimePatches": "manager",
    "env": "name",
    "replicatedJobs": "name",
    "containers": "name",
}


def server_side_apply(live: Json, manifest: Json) -> Json:
    """What ``kubectl apply --server-side`` makes of it: keyed lists merged by their keys."""
    out: Json = _merge_keyed(deepcopy(live), manifest)
    return out


def _merge_keyed(live: Any, manifest: Any, key: str = "") -> Any:
    if isinstance(live, dict) and isinstance(manifest, dict):
        for name, value in manifest.items():
            live[name] = _merge_keyed(live.get(name), value, name)
        return live
    if isinstance(live, list) and isinstance(manifest, list) and key in _KEYS:
        by = _KEYS[key]
        known = {item[by]: i for i, item in enumerate(live)}
        for item in manifest:
            if item[by] in known:
                live[known[item[by]]] = _merge_keyed(live[known[item[by]]], item)
            else:
                live.append(deepcopy(item))
        return live
    return deepcopy(manifest)


def replace_whole(live: Json, manifest: Json) -> Json:
    """What ``kubectl replace`` sends: the manifest and nothing else."""
    out = deepcopy(manifest)
    out["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    return out
