"""Headers over a real server: nothing is lost, what cannot be sent is refused."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def test_headers_keep_their_order_case_and_duplicates(client: Connect, name: str) -> None:
    """What nats-py's users complain about."""
    given = [("k", "1"), ("K", "2"), ("k", "3"), ("text", "größer: ☃"), ("empty", "")]
    async with client() as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name, headers=given)
        nc.publish(name, headers={"k": ["1", "3"], "one": "2"})
        nc.publish(name, headers=(await subscription.next()).headers)
        by_mapping = (await subscription.next()).headers
        forwarded = (await subscription.next()).headers

    assert forwarded.items() == given
    assert by_mapping.items() == [("k", "1"), ("k", "3"), ("one", "2")]
    assert (forwarded["k"], forwarded.get_all("k")) == ("3", ["1", "3"])


@pytest.mark.parametrize(
    ("headers", "error", "reason"),
    [
        ({"a b": "x"}, ValueError, "bad header name 'a b'"),
        ({"ä": "x"}, ValueError, "bad header name 'ä'"),
        ({"a:": "x"}, ValueError, "bad header name 'a:'"),
        ({"": "x"}, ValueError, "it is empty"),
        ({"a": "x\r\ny"}, ValueError, "a value is one line"),
        ({"a": 5}, TypeError, "header 'a' has a value of type int: expected str"),
        ({"a": b"x"}, TypeError, "of type bytes"),
    ],
)
async def test_headers_that_cannot_be_encoded_are_refused(
    client: Connect, name: str, headers: Any, error: type[Exception], reason: str
) -> None:
    async with client() as nc:
        with pytest.raises(error, match=reason):
            nc.publish(name, headers=headers)
        with pytest.raises(error, match=reason):
            await nc.request(name, headers=headers)
        assert (nc.stats.out_msgs, nc.stats.requests_pending) == (0, 0)


async def test_an_answer_may_have_headers(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name, callback=lambda m: m.respond(b"a", headers={"k": "v"}))

        assert (await nc.request(name)).headers["k"] == "v"
