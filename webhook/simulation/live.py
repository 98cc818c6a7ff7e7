"""A cluster as it is now, read once: what TrainJobs are judged by, and then the TrainJobs one page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names
from plugins.framework.cluster import Snapshot
from plugins.framework.errors import ConfigError
from webhook.kube import resources
from webhook.kube.client import ApiError

if TYPE_CHECKING:
    from webhook.kube.resources import Resource
    from webhook.simulation.listing import Lists, Page

_POLICIES: Final = f"/apis/{names.POLICY_GROUP}/v1alpha1"
DOCUMENTS: Final = {
    names.POLICY: f"{_POLICIES}/trainjobpolicies",
    names.NAMESPACED_POLICY: f"{_POLICIES}/namespacedtrainjobpolicies",
    names.EXCEPTION: f"{_POLICIES}/policyexceptions",
}
CONFIG_MAPS: Final = "/api/v1/configmaps"
TRAIN_JOBS: Final = f"/apis/{names.API_VERSION}"


async def surroundings(lists: Lists, tell: Callable[[str], None]) -> Snapshot:
    """Runtimes, namespaces, LimitRanges, policies and what else answers depend on; each list is read once.

    ``tell`` hears what is being read. Raises ConfigError where we may not, or where there is no Trainer; Unreachable
    where nobody answers.
    """
    snapshot = Snapshot()
    for resource in resources.ALWAYS:
        tell(resource.title)
        found = await _all(lists, resource)
        if resource is resources.DEFINITIONS:
            snapshot = snapshot.serving(
                frozenset(values.text(values.at(o, "metadata", "name")) for o in found)
            )
        else:
            snapshot = snapshot.with_all(resource.kept_as, found)
    if snapshot.crd_line is None:
        raise ConfigError("the cluster has no TrainJobs, or those of a Trainer that is not known")
    for kind, path in DOCUMENTS.items():
        tell(kind)
        snapshot = snapshot.with_all(kind, await _documents(lists, kind, path))
    tell(names.CONFIG_MAP)
    query = {"labelSelector": names.PARAMS_LABEL}
    maps = await _may(
        lists.all(CONFIG_MAPS, query), "ConfigMaps with that label, the params of policies,"
    )
    return snapshot.with_all(names.CONFIG_MAP, [_named(o, names.CONFIG_MAP, "v1") for o in maps])


async def _all(lists: Lists, resource: Resource) -> list[dict[str, Any]]:
    accept = resource.accept(is_list=True)
    found = await _may(lists.all(resource.path, resource.selection, accept=accept), resource.plural)
    return [_named(obj, resource.kind, resource.api_version) for obj in found]


async def _documents(lists: Lists, kind: str, path: str) -> list[dict[str, Any]]:
    """Policies; none where the kinds are not installed yet."""
    try:
        found = await _may(lists.all(path), path.rpartition("/")[2])
    except ApiError as error:
        if error.status != 404:
            raise
        return []
    return [_named(obj, kind, f"{names.POLICY_GROUP}/v1alpha1") for obj in found]


async def _may(asked: Any, plural: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = await asked
    except ApiError as error:
        if error.status in {401, 403}:
            raise ConfigError(f"may not list {plural} in all namespaces: {error}") from error
        raise
    return found


def _named(obj: dict[str, Any], kind: str, version: str) -> dict[str, Any]:
    """Items of lists have no kind, and metadata alone has one of its own."""
    return {**obj, "kind": kind, "apiVersion": version}


async def train_jobs(lists: Lists, namespace: str = "") -> AsyncIterator[Page]:
    """The TrainJobs of a cluster or of one namespace, page by page. Raises ConfigError where we may not."""
    inside = f"/namespaces/{namespace}" if namespace else ""
    try:
        async for page in lists.pages(f"{TRAIN_JOBS}{inside}/trainjobs"):
            yield page
    except ApiError as error:
        if error.status in {401, 403, 404}:
            where = f"namespace {namespace}" if namespace else "all namespaces"
            raise ConfigError(f"may not list trainjobs in {where}: {error}") from error
        raise


def in_turn(runner: asyncio.Runner, pages: AsyncIterator[Page]) -> Iterator[Page]:
    """The pages, each asked for when the one before it is done with: no more than one is held."""

    async def following() -> Page | None:
        return await anext(pages, None)

    while (page := runner.run(following())) is not None:
        yield page
