"""Atomic batches in bulk (ADR-50): columns, pipelining, limits that are known before sending."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client, Expect, JetStream, Stream, StreamConfig
from jetspark.errors import (
    AlreadyEnded,
    BatchDuplicate,
    BatchIncomplete,
    BatchNotEnabled,
    BatchTooLarge,
    PayloadTooLarge,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def made(js: JetStream, name: str, **changes: Any) -> Stream:
    given: dict[str, Any] = {"allow_atomic": True, "allow_direct": True}
    return await js.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), **(given | changes))
    )


async def stored(stream: Stream) -> list[tuple[str, bytes]]:
    return [(each.subject, each.data) async for each in stream.get_batch()]


@pytest.mark.parametrize("eob", [False, True])
async def test_columns_are_stored_together(client: Connect, name: str, eob: bool) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        rows = [(f"{name}.{n % 7}", b"%d" % n) for n in range(1000)]
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        batch = js.atomic_batch(eob=eob)
        batch.extend([subject for subject, _ in rows[:400]], [data for _, data in rows[:400]])
        batch.extend(
            [subject for subject, _ in rows[400:]],
            [data for _, data in rows[400:]],
            [block if n % 2 else b"" for n in range(600)],
        )
        ack = await batch.commit()
        headers = (await stream.get_msg(seq=402)).headers

        assert (ack.seq, ack.count) == (1000, 1000)
        assert await stored(stream) == rows
        assert headers["A"] == "b"
        assert nc.stats.requests_pending == 0


async def test_columns_that_do_not_fit_add_nothing(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        batch = js.atomic_batch(max_messages=3)
        batch.extend([f"{name}.a"] * 2, [b""] * 2)

        with pytest.raises(BatchTooLarge):
            batch.extend([f"{name}.a"] * 2, [b""] * 2)
        with pytest.raises(ValueError, match="1 subjects, but data has 2 rows"):
            batch.extend([f"{name}.a"], [b""] * 2)
        # The headers of the batch count too, so that nothing is sent that cannot be ended.
        with pytest.raises(PayloadTooLarge):
            batch.add(f"{name}.a", bytes(nc.server_info.max_payload))
        assert len(batch) == 2


async def test_what_the_server_would_refuse_is_refused_at_once(client: Connect, name: str) -> None:
    """ADR-50: which expectations a batch can have, and duplicates within it."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        await js.publish(f"{name}.a", b"0")
        async with js.atomic_batch() as batch:
            batch.add(f"{name}.a", b"1", expect=Expect(last_seq=1), msg_id="x")
            with pytest.raises(ValueError, match="batch's first message"):
                batch.add(f"{name}.a", b"2", expect=Expect(last_seq=1))
            with pytest.raises(ValueError, match=r"last_msg_id is not supported .*: omit it"):
                batch.add(f"{name}.a", b"2", expect=Expect(last_msg_id="x"))
            with pytest.raises(ValueError, match="msg_id 'x' is already in the batch"):
                batch.add(f"{name}.a", b"2", msg_id="x")
            batch.add(f"{name}.b", b"3")
        again = js.atomic_batch()
        again.extend([f"{name}.c"] * 2, [b"4"] * 2)
        again.add(f"{name}.a", msg_id="x")

        with pytest.raises(BatchDuplicate):
            await again.commit()
        assert [data for _, data in await stored(stream)] == [b"0", b"1", b"3"]


async def test_batches_follow_each_other_without_waiting(client: Connect, name: str) -> None:
    """The answer to the first message is waited for only until a batch was committed there."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await made(js, name)
        for number in range(3):
            async with js.atomic_batch() as batch:
                batch.extend([f"{name}.a"] * 50, [b"%d" % number] * 50)
        assert await stored(stream) == [(f"{name}.a", b"%d" % (n // 50)) for n in range(150)]

        await stream.update(allow_atomic=False)
        late = js.atomic_batch()
        late.extend([f"{name}.a"] * 50, [b"late"] * 50)

        # The answer to the first message has the reason, that to the last one does not.
        with pytest.raises(BatchNotEnabled):
            await late.commit()
        assert (await stream.info()).state.messages == 150
        assert nc.stats.requests_pending == 0


async def test_a_batch_over_two_streams_names_what_may_be_wrong(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        batch = js.atomic_batch()
        batch.extend([f"{name}.a", f"elsewhere.{name}", f"{name}.a"], [b""] * 3)

        with pytest.raises(BatchIncomplete) as raised:
            await batch.commit()
        assert "one stream must store all subjects" in raised.value.__notes__[0]
        with pytest.raises(ValueError, match="max_messages=0: expected at least 1"):
            js.atomic_batch(max_messages=0)


async def test_a_commit_that_is_cancelled_leaves_no_request(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await made(js, name)
        for turns in range(1, 5):
            batch = js.atomic_batch()
            batch.extend([f"{name}.a"] * 50, [b""] * 50)
            commit = asyncio.create_task(batch.commit())
            for _ in range(turns):
                await asyncio.sleep(0)
            commit.cancel()
            await asyncio.wait([commit])

            assert nc.stats.requests_pending == 0
            with pytest.raises(AlreadyEnded, match="committed or aborted"):
                await batch.commit()
