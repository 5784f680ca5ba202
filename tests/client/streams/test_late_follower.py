"""Reads from a replica that lags (decisions.md, Read-after-write).

The routes of one node of a real cluster run through proxies that hold everything back, so the
replica there answers direct gets from the past whenever it is asked.
"""

import asyncio
import contextlib
from pathlib import Path

import pytest
from tests.support.chaos_proxy import ChaosProxy
from tests.support.late_follower import LATE, late_cluster, led_elsewhere

from jetspark import Client, JetStream, Pager, Stream, StreamConfig, StreamMessage, connect
from jetspark.errors import MinLastSequence, NoResponders

LAG = 0.12  # seconds that each chunk for it is held back

pytestmark = pytest.mark.timeout(600)


async def served_directly(nc: Client) -> None:
    """Wait until direct gets are answered: a refused one is remembered for 30 seconds."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NoResponders):
                await nc.request("$JS.API.DIRECT.GET.S.s")
                return
            await asyncio.sleep(0.05)


async def check_last_many(js: JetStream, copy: Stream) -> int:
    """In pages, and as of a sequence, never from the past."""
    acks = [await js.publish(f"t.{n}", b"new") for n in (0, 2)]
    last = acks[-1].seq
    pages, bounded, nothing = await asyncio.gather(
        seen(copy.get_last_many(["t.*"], batch=1, min_last_seq=last)),
        seen(copy.get_last_many(["t.*"], up_to_seq=last, min_last_seq=last)),
        seen(copy.get_last_many(["none.*"], min_last_seq=last)),
    )

    assert pages[1:] == bounded[1:] == [("t.0", acks[0].seq), ("t.2", last)]
    assert pages[0] == bounded[0] == ("t.1", 2)
    assert nothing == []
    return last


async def seen(messages: Pager[StreamMessage]) -> list[tuple[str, int]]:
    return sorted([(m.subject, m.seq) async for m in messages], key=lambda each: each[1])


async def test_a_replica_that_lags_gives_no_stale_read_when_a_sequence_is_required(
    tmp_path: Path,
) -> None:
    async with (
        late_cluster(tmp_path, ChaosProxy) as (cluster, proxies),
        await connect(cluster.urls[0], ignore_discovered=True) as writer,
        await connect(cluster.urls[LATE], ignore_discovered=True) as reader,
    ):
        js = writer.jetstream(timeout=20.0)
        stream = await js.create_stream(
            StreamConfig(name="S", subjects=("s", "t.*"), num_replicas=3, allow_direct=True)
        )
        for n in range(3):
            await js.publish(f"t.{n}", b"old")
        await js.publish("s", b"0")
        await led_elsewhere(writer, stream)
        await served_directly(reader)
        copy = await reader.jetstream(timeout=20.0).stream("S")
        for proxy in proxies:
            proxy.latency = LAG
        stale = rounds = 0
        # Which replica answers is the cluster's choice: until the late one was seen.
        while rounds < 3 or (not stale and rounds < 20):
            rounds += 1
            ack = await js.publish("s", b"%d" % rounds)
            plain = [copy.get_msg(last_by_subject="s") for _ in range(8)]
            sure = [copy.get_msg(last_by_subject="s", min_last_seq=ack.seq) for _ in range(8)]
            seqs = [message.seq for message in await asyncio.gather(*plain, *sure)]
            stale += sum(seq < ack.seq for seq in seqs[:8])

            assert set(seqs[8:]) == {ack.seq}
        last = await check_last_many(js, copy)
        for proxy in proxies:
            proxy.calm()
        with pytest.raises(MinLastSequence):
            await copy.get_msg(last_by_subject="s", min_last_seq=last + 1, timeout=1)

    assert stale, "the set-up must show the danger that the client protects from"
