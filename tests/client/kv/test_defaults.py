"""What is given where there is no value, and the types of it: mypy checks them here."""

from typing import Any, assert_type

import pytest
from tests.client.conftest import Connect

from jetspark import Entry, Headers, TypedEntry, sync
from jetspark.errors import KeyNotFound


async def test_a_default_stands_for_a_missing_value_everywhere(client: Connect, name: str) -> None:
    async with client() as nc:
        kv = await nc.jetstream().create_key_value(name)
        await kv.put("a", b"1")
        await kv.put("gone", b"1")
        await kv.delete("gone")

        for key in ("never", "gone"):
            assert await kv.get(key, default=None) is None
            assert await kv.get(key, default=7) == 7
            assert not await kv.exists(key)
            with pytest.raises(KeyNotFound):
                await kv.get(key)
        assert assert_type(await kv.get("a"), Entry).value == b"1"
        found = assert_type(await kv.get("a", default=None), Entry | None)
        assert found is not None
        assert await kv.exists("a")

        numbers = kv.typed(int)
        assert assert_type(await numbers.get("a"), TypedEntry[int]).value == 1
        assert assert_type(await numbers.get("b", default=0), TypedEntry[int] | int) == 0
        assert await numbers.exists("a")

        async with kv.replica() as replica:
            assert assert_type(replica.get("a"), Entry).value == b"1"
            assert assert_type(replica.get("gone", default=None), Entry | None) is None
            assert assert_type(replica.value("gone"), bytes | None) is None
            assert assert_type(replica.value("gone", b""), bytes) == b""
            assert (replica.exists("a"), replica.exists("gone")) == (True, False)
            with pytest.raises(KeyNotFound):
                replica.get("gone")


def test_blocking_buckets_have_defaults_too(server: Any, name: str) -> None:
    with sync.connect(server.url) as nc:
        kv = nc.jetstream().create_key_value(name)
        kv.put("a", b"1")
        assert assert_type(kv.get("b", default=None), Entry | None) is None
        assert assert_type(kv.get("a"), Entry).value == b"1"
        assert kv.exists("a")
        with kv.replica() as replica:
            assert assert_type(replica.get("b", default=0), Entry | int) == 0
            assert assert_type(replica.value("b", b"x"), bytes) == b"x"
            assert replica.exists("a")


def test_headers_have_defaults() -> None:
    headers = Headers({"lang": "en"})

    assert assert_type(headers.get("lang"), str | None) == "en"
    assert assert_type(headers.get("none", ""), str) == ""
    assert assert_type(headers.get("none", 0), str | int) == 0
