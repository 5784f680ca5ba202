"""The disk refuses to read: what stands on a message is refused or waits, nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk
from tests.unit.engine.conftest import Bench

from jetspark.api.stream import StreamConfig
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.units import Nanoseconds


class Refusing(Bench):
    """A bench on a simulated disk whose stream is read from the disk."""

    def __init__(self, **config: Any) -> None:
        self.disk = SimulatedDisk()
        super().__init__(KeptPath("/store"), self.disk, cache_budget=0)
        wanted = StreamConfig(name="S", subjects=("s.>",), allow_direct=True, **config)
        self.engine.create_stream(prepared(wanted), self.now)

    @property
    def stream(self) -> Stream:
        return self.engine.streams["S"]

    def reopen(self, *, refuse: bool = True) -> None:
        self.restart()
        self.stream.log.reader.forget_page()  # opening reads the last message
        if refuse:
            self.disk.refuse_reads(".seg")

    def answer(self, subject: bytes, payload: bytes, *lines: bytes) -> dict[str, Any]:
        """What a publisher receives."""
        block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
        self.publish(self.stream, subject, payload, b"_R", block if lines else b"")
        self.submit()
        while self.on_the_way:
            self.land()
        (sent,) = self.sent()
        if sent[4].endswith(b"}"):
            found: dict[str, Any] = json.loads(sent[4])
            return found
        raise AssertionError(sent)


def test_a_duplicate_is_not_stored_because_ids_cannot_be_read() -> None:
    bench = Refusing()
    bench.answer(b"s.a", b"x", b"Nats-Msg-Id: one")
    bench.reopen()

    refused = bench.answer(b"s.a", b"x", b"Nats-Msg-Id: one")
    bench.disk.allow_reads()
    again = bench.answer(b"s.a", b"x", b"Nats-Msg-Id: one")

    assert refused["error"]["err_code"] == 10077
    assert again["duplicate"] is True
    assert bench.stream.log.index.messages == 1


def test_the_last_id_is_read_later_when_it_could_not_be_read_at_the_start() -> None:
    bench = Refusing()
    bench.answer(b"s.a", b"x", b"Nats-Msg-Id: one")
    bench.reopen()
    bench.disk.allow_reads()
    assert bench.answer(b"s.a", b"x", b"Nats-Expected-Last-Msg-Id: one")["seq"] == 2


def test_a_stream_whose_last_message_cannot_be_read_opens() -> None:
    bench = Refusing()
    bench.answer(b"s.a", b"x", b"Nats-Msg-Id: one")
    bench.reopen()
    stream = bench.stream
    bench.engine.reveal(stream.config, stream, bench.now)  # made again, as opening makes it

    refused = bench.answer(b"s.a", b"x", b"Nats-Expected-Last-Msg-Id: one")
    bench.disk.allow_reads()

    assert refused["error"]["err_code"] == 10077
    assert bench.answer(b"s.a", b"x", b"Nats-Expected-Last-Msg-Id: one")["seq"] == 2


def test_a_counter_does_not_start_again_because_it_cannot_be_read() -> None:
    bench = Refusing(allow_msg_counter=True)
    bench.answer(b"s.a", b"", b"Nats-Incr: 5")
    bench.reopen()

    refused = bench.answer(b"s.a", b"", b"Nats-Incr: 1")
    bench.disk.allow_reads()

    assert "error" in refused
    assert bench.answer(b"s.a", b"", b"Nats-Incr: 1")["val"] == "6"


def test_a_direct_get_says_that_the_disk_refuses_and_not_where_the_store_is() -> None:
    bench = Refusing()
    bench.answer(b"s.a", b"x")
    bench.reopen()

    (status,) = bench.get(bench.stream, b'{"seq":1}')
    answer = json.loads(bench.request(b"STREAM.MSG.GET.S", b'{"seq":1}'))

    assert status[3].startswith(b"NATS/1.0 500 ")
    assert answer["error"]["description"] == "message 1 cannot be read now: Input/output error"
    bench.disk.allow_reads()
    assert bench.get(bench.stream, b'{"seq":1}')[0][4] == b"x"


@pytest.mark.parametrize(
    "body", [b'{"start_time":"%s"}', b'{"multi_last":[">"],"up_to_time":"%s"}']
)
def test_a_time_is_not_guessed_when_records_cannot_be_read(body: bytes) -> None:
    from jetspark.units import format_rfc3339

    bench = Refusing()
    for _ in range(9):
        bench.now += 1_000_000
        bench.answer(b"s.a", b"x" * 5000)
    when = format_rfc3339(int(bench.stream.log.reader.time_of(5))).encode()
    bench.reopen()

    (status,) = bench.get(bench.stream, body % when)

    assert status[3].startswith(b"NATS/1.0 500 ")


def test_a_ttl_is_kept_when_the_message_can_be_read_again() -> None:
    bench = Refusing(allow_msg_ttl=True)
    bench.answer(b"s.a", b"x", b"Nats-TTL: 10s")
    bench.answer(b"s.b", b"x")
    bench.reopen()

    bench.wait(20)
    before = int(bench.stream.log.index.messages)
    bench.disk.allow_reads()
    bench.wait(5)
    bench.submit()
    bench.land()

    assert (before, int(bench.stream.log.index.messages)) == (2, 1)


def test_a_marker_is_left_when_the_message_can_be_read_again() -> None:
    bench = Refusing(
        allow_msg_ttl=True,
        subject_delete_marker_ttl=Nanoseconds(5_000_000_000),
        allow_rollup_hdrs=True,
    )
    bench.answer(b"s.a", b"x", b"Nats-TTL: 10s")
    bench.disk.refuse_reads(".seg")
    bench.stream.log.reader.forget_page()

    bench.wait(20)
    bench.disk.allow_reads()
    bench.wait(5)
    bench.submit()
    bench.land()

    (answer,) = bench.get(bench.stream, b'{"last_by_subj":"s.a"}')
    assert b"Nats-Marker-Reason: MaxAge" in answer[3]


def test_one_bad_read_is_no_damage() -> None:
    """A record that does not check is read once more before any reader skips it."""

    class OnceWrong(SimulatedDisk):
        wrong = 0

        def read(self, handle: int, offset: int, length: int) -> bytes:
            data = super().read(handle, offset, length)
            if self.wrong > 0 and len(data) > 60:
                self.wrong -= 1
                return data[:50] + bytes([data[50] ^ 1]) + data[51:]
            return data

    bench = Refusing()
    bench.close()
    disk = OnceWrong()
    bench.files = bench.disk = disk
    bench.engine = bench._open()
    bench.create("S")
    bench.answer(b"s.a", b"x" * 100)
    bench.restart()
    bench.stream.log.reader.forget_page()
    disk.wrong = 1

    assert bench.get(bench.stream, b'{"seq":1}')[0][4] == b"x" * 100
    assert not bench.stream.log.reader.unreadable
