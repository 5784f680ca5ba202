import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from jetspark.client.connection.outgoing import WRITE_CHUNK_SIZE, Outgoing
from jetspark.errors import BufferFull


class ManualLoop:
    """The part of a loop that is used here; a test runs what was scheduled."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.scheduled.append(callback)

    call_soon_threadsafe = call_soon

    def turn(self) -> None:
        scheduled, self.scheduled = self.scheduled, []
        for callback in scheduled:
            callback()


class Recorder:
    """A transport that keeps what is written; ``buffered`` is what it claims to hold."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.buffered = 0

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.buffered


def make(
    size_max: int = 1 << 20, detached_max: int = 1 << 10
) -> tuple[ManualLoop, Recorder, Outgoing]:
    loop, transport = ManualLoop(), Recorder()
    outgoing = Outgoing(
        cast("asyncio.AbstractEventLoop", cast("Any", loop)), size_max, detached_max
    )
    outgoing.attach(transport, "host:4222", [])
    return loop, transport, outgoing


def test_everything_of_one_turn_is_written_at_once() -> None:
    """Join before writing, at the end of the loop turn."""
    loop, transport, outgoing = make()
    for part in (b"one ", b"two ", b"three"):
        outgoing.send(part)
    assert (len(loop.scheduled), transport.writes) == (1, [])

    loop.turn()
    assert transport.writes == [b"one two three"]
    assert (outgoing.bytes_out, outgoing.size) == (13, 0)


def test_a_request_that_waits_alone_is_written_without_waiting_for_the_turn() -> None:
    loop, transport, outgoing = make()
    outgoing.send_at_once(b"one")

    assert (transport.writes, loop.scheduled) == ([b"one"], [])
    assert (outgoing.bytes_out, outgoing.size) == (3, 0)


def test_what_is_sent_at_once_overtakes_nothing() -> None:
    loop, transport, outgoing = make()
    outgoing.send_control(b"SUB ")
    outgoing.send_at_once(b"PUB one ")
    assert transport.writes == []
    loop.turn()

    outgoing.pause()
    outgoing.send_at_once(b"PUB two ")
    outgoing.resume()

    outgoing.detach()
    outgoing.send_at_once(b"PUB three ")
    outgoing.attach(transport, "host:4222", [b"SUB "])
    assert transport.writes == [b"SUB PUB one ", b"PUB two ", b"SUB PUB three "]


def test_sending_at_once_without_a_connection_keeps_to_the_limit() -> None:
    _, _, outgoing = make(detached_max=10)
    outgoing.detach()
    outgoing.send_at_once(b"PUB 456789")
    with pytest.raises(BufferFull, match="10 bytes are waiting for a connection"):
        outgoing.send_at_once(b"PUB")


def test_a_tight_loop_writes_by_chunks_without_yielding() -> None:
    loop, transport, outgoing = make()
    piece = bytes(WRITE_CHUNK_SIZE // 4)
    for _ in range(6):
        outgoing.send(piece)
    assert [len(write) for write in transport.writes] == [WRITE_CHUNK_SIZE]

    loop.turn()
    assert sum(len(write) for write in transport.writes) == 6 * len(piece)


def test_a_paused_transport_fills_the_buffer_up_to_its_limit() -> None:
    loop, transport, outgoing = make(size_max=300_000)
    outgoing.pause()
    outgoing.send(bytes(200_000))
    with pytest.raises(BufferFull, match="200000 bytes are waiting to be written to host:4222"):
        outgoing.send(bytes(100_001))
    outgoing.send(bytes(100_000))
    loop.turn()
    assert transport.writes == []

    outgoing.resume()
    assert [len(write) for write in transport.writes] == [300_000]


def test_control_frames_pass_a_full_buffer() -> None:
    """A client that cannot answer PING would be thrown out for being slow."""
    _, transport, outgoing = make(size_max=200_000)
    outgoing.pause()
    outgoing.send(bytes(200_000))
    outgoing.send_control(b"PONG\r\n")
    outgoing.resume()

    assert transport.writes[0].endswith(b"PONG\r\n")


def test_frames_of_other_threads_are_taken_by_the_loop_once_per_batch() -> None:
    loop, transport, outgoing = make()
    for part in (b"a", b"b", b"c"):
        outgoing.send_from_thread(part)
    assert (len(loop.scheduled), outgoing.size) == (1, 3)

    loop.turn()
    assert transport.writes == [b"abc"]
    outgoing.send_from_thread(b"d")
    loop.turn()
    assert transport.writes == [b"abc", b"d"]


def test_other_threads_have_the_same_limit() -> None:
    _, _, outgoing = make(size_max=10)
    outgoing.send_from_thread(bytes(8))

    with pytest.raises(BufferFull):
        outgoing.send_from_thread(bytes(3))


def test_what_the_transport_holds_counts_as_waiting() -> None:
    _, transport, outgoing = make()
    transport.buffered = 7
    outgoing.send(b"123")

    assert outgoing.size == 10


def test_without_a_connection_messages_wait_and_control_frames_are_dropped() -> None:
    """A new connection begins with its own SUBs; a late PING would be answered to no one."""
    loop, transport, outgoing = make()
    for frame in (b"SUB a 1\r\n", b"PING\r\n"):
        outgoing.send_control(frame)
    outgoing.send(b"PUB a 0\r\n\r\n")
    outgoing.detach()
    outgoing.send_control(b"PONG\r\n")
    outgoing.send(b"HPUB b\r\n")
    loop.turn()
    assert transport.writes == []

    outgoing.attach(transport, "other:4222", [b"SUB a 1\r\n"])
    assert transport.writes == [b"SUB a 1\r\nPUB a 0\r\n\r\nHPUB b\r\n"]


def test_what_waits_for_a_connection_has_a_limit_of_its_own() -> None:
    _, _, outgoing = make(detached_max=10)
    outgoing.detach()
    outgoing.send(bytes(8))

    with pytest.raises(
        BufferFull, match=r"8 bytes are waiting for a connection \(reconnect_buffer"
    ):
        outgoing.send(bytes(3))
    with pytest.raises(BufferFull, match="no server is connected now"):
        outgoing.send_from_thread(bytes(3))


def test_a_limit_of_nothing_refuses_every_message_without_a_connection() -> None:
    _, _, outgoing = make(detached_max=0)
    outgoing.detach()

    with pytest.raises(BufferFull):
        outgoing.send(b"x")


def test_clearing_tells_how_much_was_never_sent() -> None:
    _, _, outgoing = make()
    outgoing.detach()
    outgoing.send(b"PUB a 0\r\n\r\n")

    assert outgoing.clear() == 11
    assert outgoing.size == 0


def test_many_messages_are_queued_or_none() -> None:
    """The bound holds for all of them together; what does not fit leaves nothing."""
    loop, transport, outgoing = make(size_max=100)
    outgoing.pause()
    outgoing.send_many([b"PUB 1", b"PUB 2"])

    with pytest.raises(BufferFull):
        outgoing.send_many([b"x" * 50, b"y" * 50])
    assert outgoing.size == 10
    outgoing.resume()
    outgoing.send_many([b"z" * 60, b"z" * 60])  # more than waits to be written goes out at once
    loop.turn()

    assert b"".join(transport.writes) == b"PUB 1PUB 2" + b"z" * 120
