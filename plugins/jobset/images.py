"""Container ``node`` must have an image: the TrainJob's, where it names one, else the runtime's.

An empty ``spec.trainer.image`` counts as named: the controller writes it over the runtime's, and the API server
then refuses every Job (``image: Required value``). Patches cannot set images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from plugins.framework import field, values
from plugins.framework.api import names
from plugins.framework.field import FieldError, Path

if TYPE_CHECKING:
    from plugins.framework.info import Info

AT: Final = Path("spec", "trainer", "image")


def problems(info: Info) -> Iterator[FieldError]:
    """At most one finding: for the first job whose container would be built with no image, or with a bad one."""
    own = info.job.trainer.get("image") if info.job.trainer else None
    if own is not None and (type(own) is not str or (own and own == own.strip())):
        return  # an image, or what the schema refuses
    for pod_set in info.pod_sets:
        container = pod_set.base.container(names.NODE)
        if pod_set.ancestor != names.TRAINER or container is None:
            continue
        there = values.text(container.get("image"))
        if own is None and not there:
            detail = f"runtime {info.runtime.name} gives container {names.NODE} of job {pod_set.name} no image"
        elif own == "":
            detail = (
                f"an empty image replaces the runtime's, {field.show(there)}: leave the field out"
            )
        elif own:
            yield field.invalid(AT, own, "must not have leading or trailing whitespace")
            return
        else:
            continue
        yield field.required(AT, detail)
        return
