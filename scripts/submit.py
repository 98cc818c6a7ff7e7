"""Sends a TrainJob to a running Stationmaster as the API server would, and shows what comes back.

    python -m scripts.submit examples/trainjobs/torch.yaml --ca /path/to/stationmaster-ca.crt

It does the API server's part: defaults and pruning first, then the mutating call, the patch, and the
validating call about the result. Exits 0 if the job was allowed, 1 if it was refused.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import ssl
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonpatch
import orjson

from plugins.framework import schema
from webhook import yamlio

GROUP, VERSION, LINE = "trainer.kubeflow.org", "v1alpha1", "2.3"


def main(arguments: list[str] | None = None) -> int:
    """Read the arguments, submit, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a YAML file with one TrainJob")
    parser.add_argument("--server", default="https://127.0.0.1:9443", help="where it serves")
    parser.add_argument("--ca", type=Path, required=True, help="the CA certificate that it wrote")
    options = parser.parse_args(arguments)
    tls = ssl.create_default_context(cafile=str(options.ca))
    return submit(options.file, options.server, tls)


def submit(file: Path, url: str, tls: ssl.SSLContext) -> int:
    """Send the TrainJob through both webhooks and print each step."""
    job = schema.load(LINE).admit("TrainJob", yamlio.load(file.read_bytes(), str(file))).obj
    name = f"{job['metadata'].get('namespace', 'default')}/{job['metadata']['name']}"
    print(f"==> kubectl create -f {file}   (TrainJob {name}, as an AdmissionReview to {url})")

    answer = ask(url, tls, "/mutate", job)
    if not report("mutating webhook", answer):
        return 1
    patch = orjson.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    print(f"\n==> the patch: {len(patch)} operations")
    for operation in patch:
        value = orjson.dumps(operation.get("value")).decode()
        print(f"  {operation['op']:8}{operation['path']}  {value}")

    completed = jsonpatch.apply_patch(job, patch)
    print("\n==> the TrainJob as it would be stored")
    print(yamlio.dump(completed), end="")
    print()
    return 0 if report("validating webhook", ask(url, tls, "/validate", completed)) else 1


def ask(url: str, tls: ssl.SSLContext, path: str, job: dict[str, Any]) -> dict[str, Any]:
    """POST one review, as the API server words it; the ``response`` of the answer."""
    where = urlsplit(url)
    connection = http.client.HTTPSConnection(
        where.hostname or "", where.port, context=tls, timeout=10
    )
    body = orjson.dumps(review(job))
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    connection.request("POST", f"{path}?timeout=10s", body, headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status != 200:
        sys.exit(f"HTTP {response.status}: {answer.decode(errors='replace')}")
    decoded: dict[str, Any] = orjson.loads(answer)["response"]
    return decoded


def review(job: dict[str, Any]) -> dict[str, Any]:
    """The AdmissionReview of a CREATE."""
    kind = {"group": GROUP, "version": VERSION, "kind": "TrainJob"}
    resource = {"group": GROUP, "version": VERSION, "resource": "trainjobs"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "requestKind": kind,
            "resource": resource,
            "requestResource": resource,
            "name": job["metadata"]["name"],
            "namespace": job["metadata"].get("namespace", "default"),
            "operation": "CREATE",
            "userInfo": {"username": "you", "groups": ["system:authenticated"]},
            "object": job,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def report(who: str, answer: dict[str, Any]) -> bool:
    """Print the verdict as kubectl would; whether it was allowed."""
    for warning in answer.get("warnings", ()):
        print(f"Warning: {warning}")
    if not answer["allowed"]:
        print(f"{who}: refused\n{answer['status']['message']}")
        return False
    print(f"{who}: allowed")
    return True


if __name__ == "__main__":
    sys.exit(main())
