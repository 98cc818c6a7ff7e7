"""What ``stationmaster render`` predicts, compared with what is there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from plugins.framework import quantity
from tests.e2e.controlplane import Object

RENDER_SECONDS: Final = 120

ADDED_BY_JOB: Final = ("JOB_COMPLETION_INDEX",)
"""What the Job controller adds to each container's env, behind the rest."""

ADDED_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
CONTAINERS: Final = ("containers", "initContainers")

OF_CONTROLLERS: Final = (
    "batch.kubernetes.io/",
    "jobset.sigs.k8s.io/",
    "controller-uid",
    "job-name",
)
"""Labels and annotations that JobSet and the Job controller add."""


def render(job: Object, folder: Path, *flags: str) -> list[Object]:
    """The objects that the Trainer is said to make for the job, admitted by Stationmaster first."""
    command = [sys.executable, "-m", "webhook.cli", "render", "-f", "-", f"--from={folder}"]
    done = subprocess.run(
        [*command, "--admitted", "-o", "json", *flags],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=RENDER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    objects: list[Object] = printed["items"] if isinstance(printed, dict) else printed
    return objects


def of_kind(objects: list[Object], kind: str) -> Object:
    """The one object of that kind."""
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def expected_pods(jobset: Object) -> dict[str, tuple[int, Object]]:
    """How many Pods each replicated job has, and the template of them once JobSet has seen it."""
    found = {}
    for part in jobset["spec"]["replicatedJobs"]:
        spec = part["template"]["spec"]
        count = part.get("replicas", 1) * spec.get("parallelism", 1)
        found[part["name"]] = (count, _with_claims(spec["template"], jobset))
    return found


def _with_claims(template: Object, jobset: Object) -> Object:
    """The template with the volumes of JobSet's ``volumeClaimPolicies``, where they are mounted."""
    spec = template["spec"]
    mounted = {
        mount["name"] for each in _containers(spec) for mount in each.get("volumeMounts", [])
    }
    claims = [
        {
            "name": name,
            "persistentVolumeClaim": {"claimName": f"{name}-{jobset['metadata']['name']}"},
        }
        for policy in jobset["spec"].get("volumeClaimPolicies", [])
        for name in (claim["metadata"]["name"] for claim in policy["templates"])
        if name in mounted
    ]
    volumes = [*spec.get("volumes", []), *claims]
    return {**template, "spec": {**spec, "volumes": volumes}} if claims else template


def pods_by_part(pods: list[Object]) -> dict[str, list[Object]]:
    """The Pods that exist, by their replicated job."""
    found: dict[str, list[Object]] = {}
    for pod in pods:
        part = pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]
        found.setdefault(part, []).append(pod)
    return found


def with_sorted_env(value: Any) -> Any:
    """The same with each ``env`` in the order of names, for where the Trainer leaves it to chance."""
    if isinstance(value, list):
        return [with_sorted_env(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: sorted(item, key=lambda entry: str(entry["name"]))
        if key == "env"
        else with_sorted_env(item)
        for key, item in value.items()
    }


def differences_of_pod(template: Object, pod: Object) -> list[str]:
    """Where a Pod is not what its template says; nothing where they agree.

    Defaults of the API server and what JobSet and the Job controller add are no differences.
    """
    return [
        *_metadata_differences(template.get("metadata", {}), pod["metadata"]),
        *differences("spec", _with_requests(template["spec"]), _as_made(pod["spec"])),
    ]


def differences(path: str, wanted: Any, found: Any) -> Iterator[str]:
    """Where ``found`` lacks something of ``wanted``; lists have the same length and order."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        amounts = path.endswith((".requests", ".limits"))
        yield from (_amount_differences if amounts else _dict_differences)(path, wanted, found)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield f"{path}: wanted {_names(wanted)}, found {_names(found)}"
        for i, (a, b) in enumerate(zip(wanted, found, strict=False)):
            yield from differences(f"{path}[{i}]", a, b)
    elif wanted != found:
        yield f"{path}: wanted {wanted!r}, found {found!r}"


def _dict_differences(path: str, wanted: Object, found: Object) -> Iterator[str]:
    for key, value in wanted.items():
        if key in found:
            yield from differences(f"{path}.{key}", value, found[key])
        elif value not in ({}, [], None):
            yield f"{path}.{key}: {value!r} is missing"


def _amount_differences(path: str, wanted: Object, found: Object) -> Iterator[str]:
    a, b = (
        {key: quantity.parse(str(amount)).nano for key, amount in amounts.items()}
        for amounts in (wanted, found)
    )
    if a != b:
        yield f"{path}: wanted {wanted!r}, found {found!r}"


def _metadata_differences(wanted: Object, found: Object) -> Iterator[str]:
    for field in ("labels", "annotations"):
        said = wanted.get(field) or {}
        there = {
            key: value
            for key, value in (found.get(field) or {}).items()
            if key in said or not key.startswith(OF_CONTROLLERS)
        }
        if said != there:
            yield f"metadata.{field}: wanted {said}, found {there}"


def _with_requests(spec: Object) -> Object:
    """A pod as the API server completes it: what has a limit and no request asks for its limit."""

    def completed(container: Object) -> Object:
        resources = container.get("resources") or {}
        if "limits" not in resources:
            return container
        requests = {**resources["limits"], **resources.get("requests", {})}
        return {**container, "resources": {**resources, "requests": requests}}

    return _each_container(spec, completed)


def _as_made(spec: Object) -> Object:
    """A pod without what the Job controller and an admission plugin of Kubernetes add to its lists."""

    def cleaned(container: Object) -> Object:
        env = [e for e in container.get("env", []) if e["name"] not in ADDED_BY_JOB]
        return {**container, "env": env} if "env" in container else container

    kept = [t for t in spec.get("tolerations", []) if t.get("key") not in ADDED_TOLERATIONS]
    return {**_each_container(spec, cleaned), "tolerations": kept}


def _each_container(spec: Object, change: Callable[[Object], Object]) -> Object:
    changed = dict(spec)
    for field in CONTAINERS:
        if field in spec:
            changed[field] = [change(each) for each in spec[field]]
    return changed


def _containers(spec: Object) -> Iterator[Object]:
    for field in CONTAINERS:
        yield from spec.get(field, [])


def _names(items: list[Any]) -> list[Any]:
    return [item.get("name", item) if isinstance(item, dict) else item for item in items]
