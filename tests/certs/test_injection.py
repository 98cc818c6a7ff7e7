from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from certs import injection

OLD, NEW = b"old bundle", b"new bundle"


def encoded(bundle: bytes) -> str:
    return base64.b64encode(bundle).decode()


def configuration(**bundles: str | None) -> dict[str, Any]:
    return {
        "metadata": {"name": "00-stationmaster", "resourceVersion": "7"},
        "webhooks": [
            {
                "name": name,
                "clientConfig": {"service": {"name": "s"}}
                | ({} if bundle is None else {"caBundle": bundle}),
                "failurePolicy": "Fail",
            }
            for name, bundle in bundles.items()
        ],
    }


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (encoded(OLD), OLD),
        (None, b""),
        ("", b""),
        ("not base64!", b""),
    ],
)
def test_a_bundle_is_read_whatever_it_is(found: str | None, wanted: bytes) -> None:
    assert injection.bundles(configuration(a=found)) == {"a": wanted}


def test_a_configuration_without_webhooks_has_no_bundles() -> None:
    assert injection.bundles({"metadata": {"resourceVersion": "1"}}) == {}


def test_only_what_differs_is_touched_and_nothing_else_of_it() -> None:
    before = configuration(a=encoded(NEW), b=encoded(OLD), c=None)
    wanted = deepcopy(before)
    for index in (1, 2):
        wanted["webhooks"][index]["clientConfig"]["caBundle"] = encoded(NEW)

    patch = injection.patch(before, NEW, {"a", "b", "c"})

    assert {operation["path"].split("/")[2] for operation in patch[1:]} == {"1", "2"}
    assert jsonpatch.apply_patch(before, patch) == wanted


def test_a_webhook_that_is_not_named_stays() -> None:
    assert injection.patch(configuration(a=None), NEW, {"b"}) == []


def test_nothing_is_sent_when_all_is_well() -> None:
    assert injection.patch(configuration(a=encoded(NEW)), NEW, {"a"}) == []


@pytest.mark.parametrize("change", ["the list is reordered", "somebody has written"])
def test_a_patch_does_not_apply_to_what_was_not_read(change: str) -> None:
    read = configuration(a=None, b=encoded(NEW))
    now = deepcopy(read)
    if change == "the list is reordered":
        now["webhooks"].reverse()
    else:
        now["metadata"]["resourceVersion"] = "8"

    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(now, injection.patch(read, NEW, {"a"}))
