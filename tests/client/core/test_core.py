"""Publish, subscribe and request over a real server (wire.md, Core protocol)."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client, Message
from jetspark.errors import (
    AlreadyEnded,
    BadSubject,
    ConnectionClosed,
    InvalidState,
    NoResponders,
    PayloadTooLarge,
    RequestTimeout,
    SlowConsumer,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def test_messages_arrive_in_order_with_headers_and_reply(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(f"{name}.*")
        for n in range(100):
            nc.publish(f"{name}.{n}", b"%d" % n, reply="answers", headers={"n": str(n)})
        received = [await subscription.next() for _ in range(100)]

    assert [message.data for message in received] == [b"%d" % n for n in range(100)]
    assert received[7].subject == f"{name}.7"
    assert received[7].reply == "answers"
    assert received[7].headers["n"] == "7"


async def test_large_messages_cross_chunks_whole(client: Connect, name: str) -> None:
    """Frames arrive in any pieces; 256 KiB is the read buffer."""
    payloads = [bytes([n]) * (200_000 + n) for n in range(8)]
    async with client() as nc:
        subscription = await nc.subscribe(name)
        for payload in payloads:
            nc.publish(name, payload)
        received = [(await subscription.next()).data for _ in payloads]

    assert received == payloads


async def test_what_has_arrived_can_be_read_when_the_client_is_closed(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        for _ in range(3):
            nc.publish(name)
        await nc.flush()
        await nc.close()

        for _ in range(3):
            await anext(subscription)
        with pytest.raises(ConnectionClosed, match="the client was closed"):
            await anext(subscription)


async def test_members_of_a_queue_group_share_the_messages(client: Connect, name: str) -> None:
    async with client() as nc:
        members = [await nc.subscribe(name, queue="workers") for _ in range(2)]
        for _ in range(50):
            nc.publish(name)
        await nc.flush()

        assert sum(member.pending_msgs for member in members) == 50


async def test_unsubscribe_stops_at_once(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name, b"before")
        await nc.flush()
        await subscription.unsubscribe()
        nc.publish(name, b"after")
        await nc.flush()

        assert [message.data async for message in subscription] == [b"before"]
        assert subscription.is_closed


@pytest.mark.parametrize("already", [0, 2])
async def test_unsubscribe_after_a_number_of_messages(
    client: Connect, name: str, already: int
) -> None:
    """UNSUB with max counts deliveries since SUB."""
    async with client() as nc:
        subscription = await nc.subscribe(name)
        for _ in range(already):
            nc.publish(name)
        await nc.flush()
        await subscription.unsubscribe(3)
        for _ in range(5):
            nc.publish(name)
        await nc.flush()

        assert len([message async for message in subscription]) == 3


async def test_next_says_when_nothing_came(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)

        with pytest.raises(RequestTimeout, match=f"no message on '{name}' within 0.01 s"):
            await subscription.next(timeout=0.01)
        await subscription.unsubscribe()
        with pytest.raises(AlreadyEnded, match="has ended"):
            await subscription.next()


async def test_a_slow_consumer_loses_messages_and_is_notified(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        subscription = await nc.subscribe(name, pending_msgs=10)
        for n in range(25):
            nc.publish(name, b"%d" % n)
        await nc.flush()

        assert (subscription.dropped, subscription.pending_msgs) == (15, 10)
        assert [type(error) for error in errors] == [SlowConsumer]
        assert (await subscription.next()).data == b"0"


async def test_a_drained_subscription_gives_everything_that_was_sent(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        for _ in range(500):
            nc.publish(name)
        draining = asyncio.ensure_future(subscription.drain())
        received = [message async for message in subscription]
        await draining

    assert len(received) == 500


async def test_a_drain_whose_messages_are_not_read_reports_it(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name)
        await nc.flush()

        with pytest.raises(RequestTimeout, match=r"1 messages were not read within 0\.05 s"):
            await subscription.drain(timeout=0.05)


async def test_a_request_is_answered(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name, callback=lambda message: message.respond(message.data.upper()))
        answers = await asyncio.gather(*(nc.request(name, b"a%d" % n) for n in range(50)))

    assert [answer.data for answer in answers] == [b"A%d" % n for n in range(50)]


async def test_a_request_without_responders_fails_at_once(client: Connect, name: str) -> None:
    async with client() as nc:
        with pytest.raises(NoResponders, match=name):
            await nc.request(name, timeout=30)


async def test_a_request_without_an_answer_times_out(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name)

        with pytest.raises(RequestTimeout, match=f"no reply on '{name}' within 0.02 s"):
            await nc.request(name, timeout=0.02)
        assert nc.stats.requests_pending == 0


async def test_a_cancelled_request_leaves_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name)
        request = asyncio.ensure_future(nc.request(name))
        await nc.flush()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

        assert nc.stats.requests_pending == 0


def answer_with(payload: bytes) -> Callable[[Message], None]:
    return lambda message: message.respond(payload)


async def test_many_replies_to_one_request(client: Connect, name: str) -> None:
    async with client() as nc:
        for n in range(3):
            await nc.subscribe(name, callback=answer_with(b"%d" % n))
        by_count = [reply.data async for reply in nc.request_many(name, limit=3)]
        by_stall = [reply.data async for reply in nc.request_many(name, stall=0.05)]
        two = [reply.data async for reply in nc.request_many(name, limit=2)]

    assert sorted(by_count) == sorted(by_stall) == [b"0", b"1", b"2"]
    assert len(two) == 2


async def test_many_replies_end_at_the_sentinel_or_with_the_time(
    client: Connect, name: str
) -> None:
    def answer(message: Message) -> None:
        for payload in (b"1", b"2", b"", b"3"):
            message.respond(payload)

    async with client() as nc:
        await nc.subscribe(name, callback=answer)
        until_empty = [m.data async for m in nc.request_many(name, sentinel=True)]
        all_of_them = [m.data async for m in nc.request_many(name, timeout=0.1)]
        with pytest.raises(NoResponders):
            await anext(nc.request_many(f"{name}.nobody"))

    assert until_empty == [b"1", b"2"]
    assert all_of_them == [b"1", b"2", b"", b"3"]


@pytest.mark.parametrize("subject", ["", "a b", "a..b", ".a", "a.", "a.*", "a.>", "a\r\nb"])
async def test_a_subject_that_cannot_be_published_to_is_refused(
    client: Connect, subject: str
) -> None:
    async with client() as nc:
        with pytest.raises(BadSubject):
            nc.publish(subject)


@pytest.mark.parametrize("subject", ["", "a b", "a..b", "a.>.b"])
async def test_a_subject_that_cannot_be_subscribed_to_is_refused(
    client: Connect, subject: str
) -> None:
    async with client() as nc:
        with pytest.raises(BadSubject):
            await nc.subscribe(subject)


async def test_a_message_above_max_payload_is_refused_and_the_connection_lives(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        limit = nc.server_info.max_payload
        with pytest.raises(PayloadTooLarge) as caught:
            nc.publish(name, bytes(limit), headers={"k": "v"})
        nc.publish(name, bytes(limit))
        await nc.flush()

    assert caught.value.max_payload == limit


async def test_payloads_may_be_anything_like_bytes_but_text(client: Connect, name: str) -> None:
    async with client() as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name, bytearray(b"array"))  # type: ignore[arg-type]
        nc.publish(name, memoryview(b"view"))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"encode text first: text\.encode\(\)"):
            nc.publish(name, "text")  # type: ignore[arg-type]

        assert [(await subscription.next()).data for _ in range(2)] == [b"array", b"view"]


async def test_publish_from_other_threads(client: Connect, name: str) -> None:
    """Client: ``publish`` may be called from any thread; order per thread is kept."""
    async with client() as nc:
        subscription = await nc.subscribe(name)

        def work(thread: int) -> None:
            for n in range(500):
                nc.publish(name, b"%d %d" % (thread, n))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        received = [(await subscription.next()).data.split() for _ in range(1500)]
        for thread in threads:
            thread.join()

    for number in range(3):
        mine = [int(n) for thread, n in received if int(thread) == number]
        assert mine == list(range(500))


async def test_after_close_everything_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.close()

        with pytest.raises(ConnectionClosed, match=r"call connect\(\) again"):
            nc.publish(name)
        for call in (nc.request(name), nc.subscribe(name), nc.flush()):
            with pytest.raises(ConnectionClosed):
                await call
        await nc.close()


async def test_own_messages_are_not_echoed_when_asked(client: Connect, name: str) -> None:
    async with client(echo=False) as nc:
        subscription = await nc.subscribe(name)
        nc.publish(name)
        await nc.flush()

        assert subscription.delivered == 0


async def test_counters_count(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name)
        for _ in range(10):
            nc.publish(name, b"12345")
        await nc.flush()
        stats = nc.stats

    assert (stats.out_msgs, stats.in_msgs, stats.in_bytes) == (10, 10, 50)
    assert (stats.subscriptions, stats.write_pending_bytes) == (1, 0)
    assert stats.out_bytes > 100


async def test_inboxes_are_unique_and_have_the_prefix(client: Connect) -> None:
    async with client(inbox_prefix="app.inbox") as nc:
        inboxes = {nc.new_inbox() for _ in range(100)}

    assert len(inboxes) == 100
    assert all(inbox.startswith("app.inbox.") for inbox in inboxes)


async def test_the_round_trip_time_is_measured(client: Connect) -> None:
    async with client() as nc:
        assert 0 < await nc.rtt() < 5


async def test_the_limit_of_pending_bytes_holds_too(client: Connect, name: str) -> None:
    errors: list[Exception] = []
    async with client(error_callback=errors.append) as nc:
        subscription = await nc.subscribe(name, pending_bytes=1000)
        for _ in range(15):
            nc.publish(name, bytes(100))
        await nc.flush()
        assert (subscription.pending_msgs, subscription.dropped) == (10, 5)
        for _ in range(10):
            await subscription.next()
        for _ in range(15):
            nc.publish(name, bytes(100))
        await nc.flush()

        assert (subscription.pending_bytes, subscription.dropped) == (1000, 10)
    assert [str(error) for error in errors] == [
        f"slow consumer on '{name}': {dropped} messages dropped" for dropped in (5, 10)
    ]


async def test_a_client_is_not_used_on_another_event_loop(client: Connect, name: str) -> None:
    """A task that waited there would never be woken."""
    async with client() as nc:
        subscription = await nc.subscribe(name)

        def elsewhere(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
            with pytest.raises(InvalidState, match="belongs to another event loop"):
                asyncio.run(call())

        for call in (
            lambda: nc.request(name),
            lambda: nc.subscribe(name),
            nc.flush,
            nc.drain,
            nc.close,
        ):
            await asyncio.to_thread(elsewhere, call)
        await nc.flush()

        assert (nc.stats.requests_pending, nc.stats.subscriptions) == (0, 1)
        # Nothing was started there, and so nothing was ended here.
        nc.publish(name, b"still open")
        assert (await subscription.next()).data == b"still open"
