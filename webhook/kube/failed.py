"""The TrainJobs that have failed, as the caches tell it: some failures are a condition and no event."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from plugins.framework import values
from webhook.kube import failures
from webhook.kube.failures import Failure

MOST_FAILED: Final = 2048


class FailedJobs:
    """The TrainJobs that have failed, of those that the caches follow; the oldest are forgotten."""

    def __init__(self) -> None:
        """Know none."""
        self._failed: dict[tuple[str, str], Failure] = {}
        self.is_news = False
        """Whether something came since it was asked for."""

    def swap(self, kept: Sequence[bytes]) -> None:
        """All there are, each as JSON."""
        self._failed.clear()
        for data in kept:
            self.put(orjson.loads(data))

    def put(self, obj: dict[str, Any]) -> None:
        """One, as it is now."""
        failure = failures.of_train_job(obj)
        if failure is None:
            metadata = values.obj(obj.get("metadata"))
            self.drop(values.text(metadata.get("namespace")), values.text(metadata.get("name")))
            return
        key = failure.about.namespace, failure.about.name
        if self._failed.get(key) == failure:
            return
        self._failed.pop(key, None)
        self._failed[key] = failure
        self.is_news = True
        if len(self._failed) > MOST_FAILED:
            del self._failed[next(iter(self._failed))]

    def drop(self, namespace: str, name: str) -> None:
        """This one is gone."""
        self._failed.pop((namespace, name), None)

    def since(self, at: datetime) -> list[Failure]:
        """Those that failed then or later."""
        self.is_news = False
        return [each for each in self._failed.values() if each.last >= at]
