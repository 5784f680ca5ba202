"""Answers that other people's clients wait for, asked over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.inbox_wire import Wire

import jetspark


@asynccontextmanager
async def served(store: Path) -> AsyncIterator[Wire]:
    async with jetspark.Server(store_dir=store) as server:
        wire = await Wire.open(server.port)
        try:
            yield wire
        finally:
            wire.writer.close()


async def api(wire: Wire, verb: str, **body: Any) -> dict[str, Any]:
    text = json.dumps(body).encode() if body else b""
    answer: dict[str, Any] = json.loads(
        await wire.ask(f"$JS.API.{verb}".encode(), b"in.api", text)
    )
    return answer


async def make(wire: Wire, messages: int = 0, **config: Any) -> None:
    answer = await api(wire, "STREAM.CREATE.S", name="S", subjects=["s.>"], **config)
    assert "error" not in answer, answer
    for n in range(messages):
        await wire.ask(b"s.a.%d" % n, b"in.ack", b"x")


async def consumer(wire: Wire, **config: Any) -> None:
    whole = {"durable_name": "c", "ack_policy": "explicit", **config}
    answer = await api(wire, "CONSUMER.CREATE.S.c", stream_name="S", config=whole)
    assert "error" not in answer, answer


PULL = b"$JS.API.CONSUMER.MSG.NEXT.S.c"


async def test_a_fetch_that_max_ack_pending_stops_ends_at_its_first_heartbeat(
    tmp_path: Path,
) -> None:
    """404, as nats-server; previously it lived, and delivered until it expired."""
    async with served(tmp_path) as wire:
        await make(wire, messages=5)
        await consumer(wire, max_ack_pending=2)
        body = b'{"batch":4,"no_wait":true,"expires":5000000000,"idle_heartbeat":200000000}'
        wire.tell(PULL, b"in.1", body)
        said = [await wire.hear() for _ in range(3)]
    assert said == [b"x", b"x", b"NATS/1.0 404 No Messages\r\n\r\n"]


async def test_a_pull_that_expired_before_it_began_is_over_at_once(tmp_path: Path) -> None:
    """Previously the answer was that one message is pending."""
    async with served(tmp_path) as wire:
        await make(wire, messages=1)
        await consumer(wire)
        said = await wire.ask(PULL, b"in.1", b'{"expires":-5}')
    assert said.startswith(b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 0\r\n")


async def test_a_rollup_of_a_wildcard_subject_takes_all_that_match(tmp_path: Path) -> None:
    """nats-py's ``kv.purge("a.*")``; previously the values stayed."""
    async with served(tmp_path) as wire:
        await make(wire, messages=6, allow_rollup_hdrs=True)
        await wire.ask(b"s.b", b"in.ack", b"x")
        block = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
        wire.writer.write(b"HPUB s.a.* in.ack %d %d\r\n%b\r\n" % (len(block), len(block), block))
        await wire.hear()
        info = await api(wire, "STREAM.INFO.S", subjects_filter=">")
    assert info["state"]["subjects"] == {"s.a.*": 1, "s.b": 1}


async def test_deleting_what_a_memory_stream_lacks_names_the_sequence(tmp_path: Path) -> None:
    """10043, as nats-server; previously 10057."""
    async with served(tmp_path) as wire:
        await make(wire, messages=1, storage="memory")
        for seq in (0, 9, 2**62):
            answer = await api(wire, "STREAM.MSG.DELETE.S", seq=seq)
            assert answer["error"]["err_code"] == 10043


async def test_a_purge_counts_as_activity_of_the_ack_floor(tmp_path: Path) -> None:
    """``ack_floor.last_active`` was missing previously."""
    async with served(tmp_path) as wire:
        await make(wire, messages=3)
        await consumer(wire)
        assert await wire.ask(PULL, b"in.1", b'{"batch":1,"no_wait":true}') == b"x"
        await api(wire, "STREAM.PURGE.S")
        info = await api(wire, "CONSUMER.INFO.S.c")
    assert "last_active" in info["ack_floor"]


async def test_the_durability_of_a_stream_is_answered_outside_its_metadata(tmp_path: Path) -> None:
    """Tools show metadata as the user's own (previously with ``_jetspark.durability``)."""
    async with served(tmp_path) as wire:
        await make(wire)
        info = await api(wire, "STREAM.INFO.S", jetspark=True)
    assert info["jetspark"] == {"durability": "durable"}
    assert set(info["config"]["metadata"]) == {"_nats.level", "_nats.req.level", "_nats.ver"}


async def test_answers_about_streams_have_no_fields_that_nats_server_lacks(tmp_path: Path) -> None:
    """Strict clients (nats-jetstream, ``strict=True``) refuse an unknown one, ``jetspark``."""
    async with served(tmp_path) as wire:
        answers = [
            await api(wire, "STREAM.CREATE.S", name="S", subjects=["s.>"]),
            await api(wire, "STREAM.UPDATE.S", name="S", subjects=["s.>"], description="d"),
            await api(wire, "STREAM.INFO.S"),
            *(await api(wire, "STREAM.LIST"))["streams"],
        ]
    assert all("error" not in answer and "jetspark" not in answer for answer in answers)


async def test_others_have_their_turn_while_one_client_sends_without_a_pause(
    tmp_path: Path,
) -> None:
    """Previously the loop read 32 buffers of one publisher before it looked at the next client."""
    async with jetspark.Server(store_dir=tmp_path) as server:
        wire = await Wire.open(server.port)
        assert await wire.ask(b"in.1", b"", b"there") == b"there"
        (connection,) = server._inner.connections
        buffer = memoryview(connection.get_buffer(-1))
        line = b"PUB x 2\r\nhi\r\n"
        rest = b""
        read = 0
        while not connection._held_back:
            flood = rest + line * (len(buffer) // len(line) + 1)
            buffer[:] = flood[: len(buffer)]
            rest = flood[len(buffer) :]
            connection.buffer_updated(len(buffer))
            read += 1
            assert read <= 8
        turns = 0
        while connection._held_back:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 1000
        wire.writer.write(rest)  # the end of a message that was cut
        assert await wire.ask(b"in.2", b"", b"still there") == b"still there"
        wire.writer.close()
