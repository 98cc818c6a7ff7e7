"""A small API server on loopback for the real SDK: what it asks for, answered from memory.

A created TrainJob goes through ``ApiServer``, so through our webhook; its pods are those that ``render``
predicts, all of them running.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar, Final

from tests.builders import Json
from tests.folder import Folder, jobset
from tests.reviews.apiserver import ApiServer, Refused
from tests.reviews.desk import Desk

_GROUP: Final = "/apis/trainer.kubeflow.org/v1alpha1"
_PLURALS: Final = {
    "trainingruntimes": "TrainingRuntime",
    "clustertrainingruntimes": "ClusterTrainingRuntime",
}


@dataclass
class Cluster:
    """Runtimes, and the TrainJobs created so far."""

    runtimes: list[Json]
    jobs: dict[str, Json] = field(default_factory=dict)

    def create(self, namespace: str, body: Json) -> tuple[int, Json]:
        """Create a TrainJob."""
        body["metadata"]["namespace"] = namespace
        try:
            stored = ApiServer(Desk.of(*self.runtimes)).create(body)
        except Refused as refused:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", **refused.status}
            return refused.status["code"], status
        self.jobs[stored["metadata"]["name"]] = stored
        return 201, stored

    def get(self, path: str, query: str) -> tuple[int, Json]:
        """Answer a GET."""
        parts = path.removeprefix(_GROUP).strip("/").split("/")
        if path.endswith("/pods"):
            return 200, {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {},
                "items": self._pods(query),
            }
        if "trainjobs" in parts:
            return _one_of(list(self.jobs.values()), "TrainJob", parts, "trainjobs")
        for plural, kind in _PLURALS.items():
            if plural in parts:
                mine = [r for r in self.runtimes if r["kind"] == kind]
                return _one_of(mine, kind, parts, plural)
        return 404, {"kind": "Status", "code": 404, "message": "not found"}

    def _pods(self, query: str) -> list[Json]:
        found = re.search(r"jobset-name(?:%3D|=)([-a-z0-9]+)", query)
        job = self.jobs.get(found.group(1)) if found else None
        if job is None:
            return []
        rendered = Folder.of(*self.runtimes).render(job)
        return [
            _pod(job, replicated, index)
            for replicated in jobset(rendered)["spec"]["replicatedJobs"]
            for index in range(replicated["template"]["spec"]["parallelism"])
        ]


def _one_of(objects: list[Json], kind: str, parts: list[str], plural: str) -> tuple[int, Json]:
    if parts[-1] == plural:
        return 200, {"kind": f"{kind}List", "metadata": {}, "items": objects}
    for obj in objects:
        if obj["metadata"]["name"] == parts[-1]:
            return 200, obj
    return 404, {"kind": "Status", "code": 404, "message": f"{kind} {parts[-1]} not found"}


def _pod(job: Json, replicated: Json, index: int) -> Json:
    name = job["metadata"]["name"]
    labels = {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    metadata = {"name": f"{name}-{replicated['name']}-0-{index}", "labels": labels}
    spec = replicated["template"]["spec"]["template"]["spec"]
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


class _Handler(BaseHTTPRequestHandler):
    cluster: ClassVar[Cluster]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self._answer(*self.cluster.get(path, query))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(*self.cluster.create(self.path.split("/")[-2], body))

    def _answer(self, code: int, obj: Json) -> None:
        data = json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
        """Say nothing."""


@contextmanager
def served(cluster: Cluster) -> Iterator[str]:
    """Serve a cluster on loopback; gives its address."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
