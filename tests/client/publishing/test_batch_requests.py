"""ADR-50 on the wire: what the messages of a batch say, seen by another client."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from jetspark import Client, Expect, Message, Stream, Subscription
from jetspark.errors import BatchNotEnabled, WrongLastSequence

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def watched(
    client: Connect, name: str, **settings: Any
) -> AsyncIterator[tuple[Client, Stream, Subscription]]:
    """A client, its stream, and a subscription of another client that sees what is published."""
    async with client() as nc, client() as other:
        stream = await nc.jetstream().create_stream(
            name, subjects=[f"{name}.>"], allow_direct=True, **settings
        )
        seen = await other.subscribe(f"{name}.>")
        await other.flush()
        yield nc, stream, seen


async def taken(seen: Subscription, count: int) -> list[Message]:
    return [await seen.next(timeout=30) for _ in range(count)]


def marks(messages: list[Message]) -> list[dict[str, str]]:
    """The headers of each message that make it part of a batch, without the name."""
    return [
        {
            name.removeprefix("Nats-"): value
            for name, value in message.headers.items()
            if name.startswith(("Nats-Batch", "Nats-Flow")) and name != "Nats-Batch-Id"
        }
        for message in messages
    ]


@pytest.mark.parametrize("eob", [False, True])
async def test_an_atomic_batch_is_marked_as_the_document_says(
    client: Connect, name: str, eob: bool
) -> None:
    """ADR-50, "Client Design" of atomic batches: both ways to commit."""
    async with watched(client, name, allow_atomic=True) as (nc, stream, seen):
        async with nc.jetstream().atomic_batch(eob=eob) as batch:
            for n in range(3):
                batch.add(f"{name}.a", b"%d" % n)
        messages = await taken(seen, 4 if eob else 3)
        last = await stream.get_msg(seq=3)

        ids = {message.headers["Nats-Batch-Id"] for message in messages}
        assert len(ids) == 1
        assert len(ids.pop()) <= 64
        end = {"Batch-Sequence": "4", "Batch-Commit": "eob"}
        sequences = [{"Batch-Sequence": str(n)} for n in (1, 2, 3)]
        if not eob:
            sequences[-1]["Batch-Commit"] = "1"
        assert marks(messages) == [*sequences, *([end] if eob else [])]
        # The first is a request, and the last: what is between them needs no answer.
        assert [bool(message.reply) for message in messages] == [
            True,
            *[False] * (len(messages) - 2),
            True,
        ]
        # The server marks the last stored message when another one committed the batch.
        assert last.headers["Nats-Batch-Commit"] == "1"
        assert (batch.ack.batch, batch.ack.count) == (messages[0].headers["Nats-Batch-Id"], 3)


async def test_the_rest_of_a_first_batch_is_sent_when_the_server_took_the_first_message(
    client: Connect, name: str
) -> None:
    """ADR-50: the initial message will get an error, or a zero byte ack."""
    async with watched(client, name) as (nc, stream, seen):
        batch = nc.jetstream().atomic_batch()
        for n in range(3):
            batch.add(f"{name}.a", b"%d" % n)
        with pytest.raises(BatchNotEnabled):
            await batch.commit()
        await nc.jetstream().publish(f"{name}.end")
        messages = await taken(seen, 2)

        assert [message.subject for message in messages] == [f"{name}.a", f"{name}.end"]
        assert [message.data async for message in stream.get_batch()] == [b""]


async def test_a_batch_that_a_check_rejects_stores_nothing(client: Connect, name: str) -> None:
    """ADR-50: rejects the batch if any message fails these checks."""
    async with watched(client, name, allow_atomic=True) as (nc, stream, _):
        js = nc.jetstream()
        await js.publish(f"{name}.a", b"before")
        batch = js.atomic_batch()
        batch.add(f"{name}.b", b"1")
        batch.add(f"{name}.a", b"2", expect=Expect(last_subject_seq=0))

        with pytest.raises(WrongLastSequence):
            await batch.commit()
        assert (await stream.info()).state.last_seq == 1


async def test_a_fast_batch_is_marked_in_its_reply_subjects(client: Connect, name: str) -> None:
    """The dialect of released servers: <inbox>.<id>.<flow>.<gap>.<sequence>.<operation>.$FI."""
    async with watched(client, name, allow_batched=True) as (nc, stream, seen):
        async with nc.jetstream().fast_publisher(flow=7, gap="ok") as fast:
            for n in range(3):
                await fast.publish(f"{name}.a", b"%d" % n)
        messages = await taken(seen, 4)

        parts = [message.reply.rsplit(".", 6) for message in messages]
        assert len({(inbox, batch) for inbox, batch, *_ in parts}) == 1
        assert len(parts[0][1]) <= 64
        # Start, append, append, and an end that is not stored.
        assert [tuple(part[2:]) for part in parts] == [
            ("7", "ok", "1", "0", "$FI"),
            ("7", "ok", "2", "1", "$FI"),
            ("7", "ok", "3", "1", "$FI"),
            ("7", "ok", "4", "3", "$FI"),
        ]
        assert (await stream.info()).state.messages == 3
        assert (fast.ack.batch, fast.ack.count) == (parts[0][1], 3)


async def test_a_fast_batch_is_marked_in_its_headers(
    server: Any, client: Connect, name: str
) -> None:
    """ADR-50, "Client Design" of fast ingest: the dialect of the document."""
    if server.kind == "nats-server":
        pytest.skip("released servers do not speak it: test_the_header_dialect")
    async with watched(client, name, allow_batched=True) as (nc, stream, seen):
        async with nc.jetstream().fast_publisher(dialect="headers", flow=7, gap="ok") as fast:
            for n in range(3):
                await fast.publish(f"{name}.a", b"%d" % n)
        messages = await taken(seen, 4)

        assert len({message.headers["Nats-Fast-Batch-Id"] for message in messages}) == 1
        assert len({message.reply for message in messages}) == 1
        assert marks(messages) == [
            {"Batch-Sequence": "1", "Flow": "7", "Batch-Gap": "ok"},
            {"Batch-Sequence": "2"},
            {"Batch-Sequence": "3"},
            {"Batch-Sequence": "4", "Batch-Commit": "eob"},
        ]
        assert (await stream.info()).state.messages == 3
        assert fast.ack.count == 3
