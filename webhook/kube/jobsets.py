"""Whose a JobSet is: read by name, bounded, and remembered.

A list of one takes no right that the caches do not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugins.framework import values
from plugins.framework.api import names
from webhook.kube.allowance import Allowance
from webhook.kube.client import Unreachable
from webhook.kube.failures import Ref
from webhook.kube.recent import Recent
from webhook.kube.resources import JOB_SETS, TRAIN_JOBS

if TYPE_CHECKING:
    from webhook.kube.client import Requests
    from webhook.kube.resources import Resource

MOST_KNOWN: Final = 4096
READS_AT_ONCE: Final = 20
READS_PER_SECOND: Final = 5.0


class JobSets:
    """Knows the TrainJobs that own them."""

    def __init__(self, requests: Requests, clock: Callable[[], float]) -> None:
        """Read by ``requests``; ``clock`` is monotonic, in seconds."""
        self._requests = requests
        self._known: Recent[str, Ref] = Recent(MOST_KNOWN)
        self._reads = Allowance(burst=READS_AT_ONCE, per_second=READS_PER_SECOND, clock=clock)

    def learn(self, uid: str, owner: Ref) -> None:
        """Whose the JobSet of this uid is, as somebody has found out before."""
        self._known[uid] = owner

    async def owner(self, about: Ref) -> Ref | None:
        """The TrainJob whose JobSet this very one is; None where it is not there any more, or nobody's.

        Raises ApiError, or Unreachable also where too many are asked for.
        """
        known = self._known.get(about.uid)
        if known is not None:
            return known
        if not self._reads.take():
            raise Unreachable("too many are asked for at once")
        jobset, job = await asyncio.gather(
            self._read(JOB_SETS, about), self._read(TRAIN_JOBS, about)
        )
        uid = values.text(job.get("uid"))
        owners = values.objects(jobset.get("ownerReferences"))
        is_owned = any(o.get("controller") is True and o.get("uid") == uid for o in owners)
        if jobset.get("uid") != about.uid or not uid or not is_owned:
            return None
        found = Ref(
            api_version=names.API_VERSION,
            kind=names.TRAIN_JOB,
            namespace=about.namespace,
            name=about.name,
            uid=uid,
            version=values.text(job.get("resourceVersion")),
        )
        self._known[about.uid] = found
        return found

    async def _read(self, resource: Resource, about: Ref) -> dict[str, Any]:
        """The metadata of the one of that name; empty where there is none."""
        one = replace(resource, namespace=about.namespace, only=about.name, metadata_only=True)
        found = await self._requests.get(one.path, one.selection, accept=one.accept(is_list=True))
        for item in values.objects(values.obj(found).get("items")):
            metadata = values.obj(item.get("metadata"))
            if metadata.get("name") == about.name:
                return metadata
        return {}
