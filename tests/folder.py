"""A folder of objects, and what the command line's engine says of documents against it.

folder = Folder.of(make_runtime().torch().node())
folder.admit(make_train_job()).allowed
folder.render(make_train_job()).objects
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plugins.framework.field import FieldError
from tests.builders import Builder, Json
from webhook import offline
from webhook.offline import Explained, Offline, Outcome, Rendered
from webhook.yamlio import Document

Thing = Builder | Json


@dataclass(frozen=True)
class Folder:
    """The engine over some objects."""

    engine: Offline

    @classmethod
    def of(cls, *things: Thing, line: str | None = "2.3", pod_groups: bool = False) -> Folder:
        """A folder that holds these; ``line`` None lets the engine find out."""
        documents = [document(t) for t in things]
        return cls(offline.load(documents, line=line, profile=None, pod_groups=pod_groups))

    def admit(self, thing: Thing, old: Thing | None = None) -> Outcome:
        """What ``stationmaster admit`` makes of it."""
        return self.engine.admit(document(thing), document(old) if old is not None else None)

    def render(self, thing: Thing, *, admitted: bool = False) -> Rendered:
        """What ``stationmaster render`` shows of it."""
        return self.engine.render(document(thing), admitted=admitted)

    def explain(self, thing: Thing, old: Thing | None = None) -> Explained:
        """What ``stationmaster explain`` says of it."""
        return self.engine.explain(document(thing), document(old) if old is not None else None)


def document(thing: Thing) -> Document:
    """An object as a file would give it."""
    obj = thing.obj if isinstance(thing, Builder) else thing
    return Document(obj=obj, source="test.yaml", line=1)


def texts(errors: Sequence[FieldError]) -> list[str]:
    """Findings as they are printed."""
    return [str(error) for error in errors]


def jobset(rendered: Rendered) -> Json:
    """The JobSet among what was rendered."""
    found: Json
    [found] = [o for o in rendered.objects if o["kind"] == "JobSet"]
    return found


def pod(rendered: Rendered, job: str = "node") -> Json:
    """The pod spec of one replicated job."""
    found: Json
    [found] = [j for j in jobset(rendered)["spec"]["replicatedJobs"] if j["name"] == job]
    spec: Json = found["template"]["spec"]["template"]["spec"]
    return spec


def container(rendered: Rendered, job: str = "node", name: str = "node") -> Json:
    """One container of one replicated job."""
    found: Json
    [found] = [c for c in pod(rendered, job)["containers"] if c["name"] == name]
    return found


def env(rendered: Rendered, job: str = "node", name: str = "node") -> dict[str, Any]:
    """Env of a container in its order; no name stands there twice."""
    entries = container(rendered, job, name).get("env", [])
    out = {e["name"]: e.get("value", e.get("valueFrom")) for e in entries}
    assert len(out) == len(entries), "a name stands twice"
    return out
