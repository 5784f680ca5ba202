"""Sequences of 19 digits: a stream may start there, and everything works as at the beginning."""

from __future__ import annotations

import pytest

import jetspark
from jetspark.errors import ApiError

# The last one with 18 digits, and one that no floating-point number has.
FIRST = (10**18 - 2, 2**60 + 1)


@pytest.mark.parametrize("first", FIRST)
async def test_acknowledgements_and_expectations_of_far_sequences_are_understood(
    first: int,
) -> None:
    async with jetspark.Server() as server, await server.connect() as client:
        context = client.jetstream()
        stream = await context.create_stream(
            "S", subjects=["s.>"], first_seq=first, allow_direct=True
        )
        await context.publish("s.a", b"x")
        for number in range(5):
            last = {"Nats-Expected-Last-Sequence": str(first + number)}
            await context.publish("s.a", b"x", headers=last)
        of_subject = {"Nats-Expected-Last-Subject-Sequence": str(first + 5)}
        ack = await context.publish("s.a", b"x", headers=of_subject)
        assert ack.seq == first + 6
        for wrong in (first + 5, 2**63 - 1, 10**19 - 1, 2**64 + first + 6):
            with pytest.raises(ApiError, match="wrong last sequence"):
                await context.publish(
                    "s.a", b"x", headers={"Nats-Expected-Last-Sequence": str(wrong)}
                )
        consumer = await stream.create_consumer(durable="worker")
        messages = await consumer.fetch(5, timeout=5)
        for message in messages[:4]:
            await message.ack_sync()
        stale = messages[4].reply.replace(str(first + 4), str(2**64 + first + 4))
        client.publish(stale, b"+ACK")
        client.publish(stale.replace(str(2**64 + first + 4), str(10**19 - 1)), b"+ACK")
        await client.flush()
        info = await consumer.info()
        assert (info.ack_floor.stream_seq, info.num_ack_pending) == (first + 3, 1)
        await stream.delete_msg(first + 1)
        assert await stream.purge(seq=first + 4) == 3
        assert (await stream.get_msg(seq=first + 4)).seq == first + 4
