"""Fast ingest over a server: ADR-50, wire.md, Batches, decisions.md, Batches."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client, Expect, JetStream, Stream, StreamConfig
from jetspark.errors import (
    AlreadyEnded,
    ApiError,
    BatchIncomplete,
    BatchNotEnabled,
    InvalidState,
    NoResponders,
    NotSupported,
    WrongLastSequence,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def made(js: JetStream, name: str, **changes: Any) -> Stream:
    given: dict[str, Any] = {"allow_batched": True, "allow_direct": True}
    return await js.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), **(given | changes))
    )


async def stored(stream: Stream) -> list[bytes]:
    pager = stream.get_batch()
    return [each.data async for each in pager]


@pytest.mark.parametrize("count", [1, 2, 5000])
async def test_messages_are_stored_in_order(client: Connect, name: str, count: int) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        async with js.fast_publisher() as fast:
            for n in range(count):
                assert await fast.publish(f"{name}.{n % 3}", b"%d" % n) == n + 1

        assert (fast.ack.stream, fast.ack.seq, fast.ack.count) == (name, count, count)
        assert (fast.sent, fast.acked) == (count, count)
        assert await stored(stream) == [b"%d" % n for n in range(count)]


async def test_columns_are_sent(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        async with js.fast_publisher(flow=100) as fast:
            rows = range(3000)
            await fast.extend(
                [f"{name}.{n % 7}" for n in rows],
                [b"%d" % n for n in rows],
                [block if n % 2 else b"" for n in rows],
                [f"id-{n}" for n in rows],
            )
            await fast.extend([], [])
        odd = await stream.get_msg(seq=2)
        even = await stream.get_msg(seq=3)

        assert fast.ack.count == 3000
        assert await stored(stream) == [b"%d" % n for n in range(3000)]
        assert odd.headers.items() == [("A", "b"), ("Nats-Msg-Id", "id-1")]
        assert even.headers.items() == [("Nats-Msg-Id", "id-2")]
        with pytest.raises(ValueError, match="2 subjects, but data has 1 rows"):
            await js.fast_publisher().extend(["a", "b"], [b""])


async def test_a_stream_without_it_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name, allow_batched=False)

        with pytest.raises(BatchNotEnabled):
            await js.fast_publisher().publish(f"{name}.a", b"1")
        with pytest.raises(NoResponders):
            await js.fast_publisher().publish(f"none.{name}", b"1")


async def test_a_refused_message_ends_the_batch(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)

        async def refused() -> None:
            async with js.fast_publisher() as fast:
                await fast.publish(f"{name}.a", b"1")
                await fast.publish(f"{name}.a", b"2", expect=Expect(last_subject_seq=99))
                await fast.publish(f"{name}.a", b"3")

        with pytest.raises(WrongLastSequence):
            await refused()
        assert await stored(stream) == [b"1"]


async def test_with_gaps_allowed_a_refused_message_is_reported_and_it_continues(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        told: list[tuple[int, ApiError]] = []
        async with js.fast_publisher(
            gap="ok", on_refused=lambda seq, error: told.append((seq, error))
        ) as fast:
            await fast.publish(f"{name}.a", b"1")
            await fast.publish(f"{name}.a", b"2", expect=Expect(last_subject_seq=99))
            await fast.publish(f"{name}.a", b"3")

        assert [(seq, type(error)) for seq, error in told] == [(2, WrongLastSequence)]
        assert await stored(stream) == [b"1", b"3"]


@pytest.mark.parametrize("gap", ["ok", "fail"])
async def test_a_lost_message_is_a_gap(client: Connect, name: str, gap: Any) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        gaps: list[tuple[int, int]] = []

        async def lossy() -> None:
            async with js.fast_publisher(gap=gap, on_gap=lambda *gap: gaps.append(gap)) as fast:
                await fast.publish(f"{name}.a", b"1")
                fast._window.send(0)  # one that never reached the server
                await fast.publish(f"{name}.a", b"3")

        if gap == "ok":
            await lossy()
            assert gaps == [(2, 3)]
            assert await stored(stream) == [b"1", b"3"]
        else:
            with pytest.raises(BatchIncomplete, match="1 of 3 messages"):
                await lossy()
            assert await stored(stream) == [b"1"]


async def test_lost_acks_are_asked_for(client: Connect, name: str) -> None:
    """ADR-50: clients might stall if they lost all the acks; a ping asks for the last one."""
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        async with js.fast_publisher(flow=5, max_outstanding_acks=1, ack_timeout=0.2) as fast:
            await fast.publish(f"{name}.a", b"1")
            for n in range(2, 6):
                await fast.publish(f"{name}.a", b"%d" % n)
            await nc.flush()
            assert fast._subscription is not None
            fast._subscription.sink.messages.clear()
            fast._window.acked = 0
            async with asyncio.timeout(5):
                for n in range(6, 30):
                    await fast.publish(f"{name}.a", b"%d" % n)

        assert fast.ack.count == 29


async def test_duplicates_are_counted_and_not_stored(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        for _ in range(2):
            async with js.fast_publisher() as fast:
                await fast.publish(f"{name}.a", b"1", msg_id="x")
                await fast.publish(f"{name}.a", b"2", msg_id="y")

        assert await stored(stream) == [b"1", b"2"]


async def test_the_header_dialect(server: Any, client: Connect, name: str) -> None:
    """A server that lacks it stores the first message and answers without batch."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)

        async def send() -> None:
            async with js.fast_publisher(dialect="headers", flow_bytes=5000) as fast:
                for n in range(100):
                    await fast.publish(f"{name}.a", b"%d" % n + bytes(500))

        if server.kind == "nats-server":
            with pytest.raises(NotSupported, match="stored the first message"):
                await send()
        else:
            await send()
            assert len(await stored(stream)) == 100
        with pytest.raises(ValueError, match="flow_bytes requires"):
            js.fast_publisher(flow_bytes=5)


async def test_an_exception_leaves_the_batch_open_for_the_server_to_end(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)

        async def fail() -> None:
            async with js.fast_publisher() as fast:
                await fast.publish(f"{name}.a", b"1")
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert nc.stats.subscriptions == 0
        with pytest.raises(InvalidState, match="nothing was sent"):
            await js.fast_publisher().commit()


async def test_many_tasks_publish_into_one_batch(client: Connect, name: str) -> None:
    """Each gets its own sequence, and none waits for an answer that another one took."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        async with asyncio.timeout(10), js.fast_publisher(flow=50) as fast:
            places = await asyncio.gather(
                *(fast.publish(f"{name}.a", b"%d" % n) for n in range(500)),
                fast.extend([f"{name}.a"] * 300, [b"e"] * 300),
            )

        assert fast.ack.count == 800
        data = await stored(stream)
        assert [data[place - 1] for place in places[:-1] if place] == [
            b"%d" % n for n in range(500)
        ]


async def test_what_has_ended_takes_no_more(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        async with js.fast_publisher() as committed:
            await committed.publish(f"{name}.a", b"1")
        left = js.fast_publisher()
        await left.publish(f"{name}.a", b"2")
        await left.__aexit__(LookupError, LookupError(), None)

        for fast in (committed, left):
            with pytest.raises(AlreadyEnded, match="has ended: create a new one"):
                await fast.publish(f"{name}.a", b"3")
            with pytest.raises(AlreadyEnded, match="has ended"):
                await fast.extend([f"{name}.a"] * 2, [b"3"] * 2)
        assert b"3" not in await stored(stream)


async def test_a_callback_that_raises_does_not_end_the_batch(client: Connect, name: str) -> None:
    told: list[Exception] = []
    async with client(error_callback=told.append) as nc:
        js = nc.jetstream()
        await made(js, name)

        def fails(*_gap: object) -> None:
            raise LookupError("mine")

        async with js.fast_publisher(gap="ok", on_gap=fails, on_refused=fails) as fast:
            await fast.publish(f"{name}.a", b"1")
            fast._window.send(0)  # one that never reached the server
            await fast.publish(f"{name}.a", b"3")
            await fast.publish(f"{name}.a", b"4", expect=Expect(last_subject_seq=99))

        assert [str(error) for error in told] == ["mine", "mine"]


async def test_words_that_mean_nothing_are_refused(client: Connect) -> None:
    async with client() as nc:
        js = nc.jetstream()
        wrong: Any = "maybe"

        with pytest.raises(ValueError, match='gap=\'maybe\': expected "fail" or "ok"'):
            js.fast_publisher(gap=wrong)
        with pytest.raises(ValueError, match="dialect='maybe'"):
            js.fast_publisher(dialect=wrong)
