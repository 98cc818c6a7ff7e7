from __future__ import annotations

import pytest

from tests.webhook.kube.fake_calls import FakeCalls
from webhook.kube.client import ApiError
from webhook.kube.secret import SecretStore

PATH = "/api/v1/namespaces/ns/secrets/certs"


@pytest.fixture
def api() -> FakeCalls:
    return FakeCalls()


@pytest.fixture
def store(api: FakeCalls) -> SecretStore:
    return SecretStore(api, namespace="ns", name="certs")


async def test_what_is_written_is_read(api: FakeCalls, store: SecretStore) -> None:
    assert await store.write({"a": b"\x00\xff"}, await store.read())

    assert (await store.read()).data == {"a": b"\x00\xff"}
    assert api.objects[PATH]["type"] == "Opaque"


async def test_there_may_be_none(store: SecretStore) -> None:
    assert (await store.read()).data is None


async def test_an_empty_one_is_no_missing_one(api: FakeCalls, store: SecretStore) -> None:
    api.put(PATH, {"metadata": {"name": "certs"}})

    assert (await store.read()).data == {}


async def test_what_others_wrote_into_its_metadata_stays(
    api: FakeCalls, store: SecretStore
) -> None:
    api.put(PATH, {"metadata": {"name": "certs", "labels": {"helm": "x"}}, "type": "Opaque"})

    await store.write({"a": b"1"}, await store.read())

    assert api.objects[PATH]["metadata"]["labels"] == {"helm": "x"}


async def test_of_two_who_create_one_is_told(store: SecretStore) -> None:
    first, second = await store.read(), await store.read()

    assert await store.write({"a": b"1"}, first)
    assert not await store.write({"a": b"2"}, second)
    assert (await store.read()).data == {"a": b"1"}


async def test_of_two_who_replace_one_is_told(store: SecretStore) -> None:
    await store.write({"a": b"0"}, await store.read())
    first, second = await store.read(), await store.read()

    assert await store.write({"a": b"1"}, first)
    assert not await store.write({"a": b"2"}, second)
    assert (await store.read()).data == {"a": b"1"}


async def test_one_that_was_deleted_meanwhile_is_a_conflict(
    api: FakeCalls, store: SecretStore
) -> None:
    await store.write({"a": b"0"}, await store.read())
    found = await store.read()
    del api.objects[PATH]

    assert not await store.write({"a": b"1"}, found)


async def test_a_refusal_is_no_conflict(api: FakeCalls, store: SecretStore) -> None:
    found = await store.read()

    def refuse(method: str, path: str) -> None:
        raise ApiError(403, "Forbidden", f"{method} {path}")

    api.before = refuse

    with pytest.raises(ApiError, match="403"):
        await store.write({}, found)


async def test_keys_are_not_shown_when_it_is_printed(store: SecretStore) -> None:
    await store.write({"tls.key": b"secret"}, await store.read())

    assert "tls.key" not in repr(await store.read())
