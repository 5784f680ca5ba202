"""What a newcomer gets wrong: each mistake is refused where it is made, and named."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.scripted import greet, scripted

from jetspark import Client, connect
from jetspark.errors import BadSubject


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[Client]:
    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await reader.read()

    async with scripted(quiet) as address, await connect(address) as connected:
        yield connected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"subject": b"a"}, r"a subject must be str, not bytes; decode it first"),
        ({"subject": None}, "a subject must be str, not NoneType"),
        ({"subject": "a", "reply": b"b"}, "a subject must be str, not bytes"),
        ({"subject": "a", "data": None}, "data must be bytes, not NoneType"),
        ({"subject": "a", "headers": "b: c"}, "headers: expected a mapping, .* not str"),
        ({"subject": "a", "headers": 5}, "headers: expected a mapping, .* not int"),
        ({"subject": "a", "headers": ["b: c"]}, "one of the items is 'b: c'"),
        ({"subject": "a", "headers": {"b": 5}}, "header 'b' has a value of type int"),
    ],
)
async def test_a_publish_of_wrong_types_is_refused(arguments: dict[str, Any], reason: str) -> None:
    async with client() as nc:
        with pytest.raises(TypeError, match=reason):
            nc.publish(**arguments)
        assert not nc.stats.out_msgs


async def test_half_characters_are_no_subject() -> None:
    async with client() as nc:
        with pytest.raises(BadSubject, match="cannot be written as UTF-8"):
            nc.publish("a\ud800")
        with pytest.raises(BadSubject, match="cannot be written as UTF-8"):
            await nc.subscribe("a\ud800")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"subject": b"a"}, "a subject must be str, not bytes"),
        ({"subject": "a", "queue": None}, "queue must be str, not NoneType"),
        ({"subject": "a", "callback": 5}, "callback must be a function"),
        ({"subject": "a", "pending_msgs": "5"}, "pending_msgs must be an int, not str"),
        ({"subject": "a", "pending_bytes": None}, "pending_bytes must be an int, not NoneType"),
        ({"subject": "a", "pending_msgs": True}, "pending_msgs must be an int, not bool"),
    ],
)
async def test_a_subscription_of_wrong_types_is_refused(
    arguments: dict[str, Any], reason: str
) -> None:
    async with client() as nc:
        with pytest.raises(TypeError, match=reason):
            await nc.subscribe(**arguments)
        assert not nc.stats.subscriptions


@pytest.mark.parametrize("limit", [0, -1, 2**63])
async def test_limits_that_cannot_be_kept_are_refused(limit: int) -> None:
    async with client() as nc:
        with pytest.raises(ValueError, match=f"pending_msgs={limit}: expected a limit above 0"):
            await nc.subscribe("a", pending_msgs=limit)


async def test_a_number_of_messages_that_is_none_is_refused() -> None:
    async with client() as nc:
        wrong: Any = "5"
        subscription = await nc.subscribe("a")
        with pytest.raises(TypeError, match="limit must be an int, not str"):
            await subscription.unsubscribe(wrong)
        with pytest.raises(ValueError, match="limit=-1"):
            await subscription.unsubscribe(-1)
        with pytest.raises(ValueError, match="limit=-1"):
            nc.request_many("a", limit=-1)


@pytest.mark.parametrize(
    ("timeout", "kind"), [("5", TypeError), (True, TypeError), (float("nan"), ValueError)]
)
async def test_a_timeout_that_is_none_is_refused(timeout: Any, kind: type[Exception]) -> None:
    """A deadline of NaN would never come, and the timer of all other requests with it."""
    async with client() as nc:
        subscription = await nc.subscribe("a")
        for call in (subscription.next, subscription.drain, nc.flush, nc.drain):
            with pytest.raises(kind, match="seconds"):
                await call(timeout=timeout)
        with pytest.raises(kind, match="seconds"):
            await nc.request("a", timeout=timeout)
        with pytest.raises(kind, match="stall"):
            nc.request_many("a", stall=timeout)
        with pytest.raises(kind, match="seconds"):
            await nc.jetstream().stream("S", timeout=timeout)
        with pytest.raises(TimeoutError):
            await nc.request("a", timeout=0.01)

        assert not nc.stats.requests_pending
