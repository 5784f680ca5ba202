"""Payloads so large that someone else puts them together: the same frames, in the same order."""

from __future__ import annotations

import pytest
from mypy_extensions import i64

from jetspark.frame import Frame
from jetspark.protocol.limits import ASSEMBLE_MIN
from jetspark.protocol.parser import ServerOps, ServerParser

Published = tuple[bytes, bytes, bytes, bytes, bytes]


class Recorder(ServerOps):
    """Keeps what a client said; with ``beside`` large payloads wait for ``join``."""

    def __init__(self, *, beside: bool) -> None:
        self.beside = beside
        self.waiting: list[list[bytes]] = []
        self.said: list[Published | str] = []
        self.parser = ServerParser(self, 4096, 8 * ASSEMBLE_MIN, True)

    def on_pub(self, frame: Frame) -> None:
        self.said.append(
            (frame.subject(), frame.reply(), frame.headers(), frame.payload(), frame.ending())
        )

    def on_large(self, pieces: list[bytes]) -> bool:
        if self.beside:
            self.waiting.append(pieces)
        return self.beside

    def on_ping(self) -> None:
        self.said.append("ping")

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.said.append(f"sub {subject!r} {queue!r} {sid!r}")

    def on_violation(self, text: bytes, close: bool) -> None:
        self.said.append(f"violation {text!r} {close}")

    def join(self) -> None:
        while self.waiting:
            self.parser.joined(b"".join(self.waiting.pop(0)))


def feed(recorder: Recorder, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        recorder.parser.feed(data[at : at + size])


HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
LONG_HEADERS = b"NATS/1.0\r\nA: " + b"b" * 60_000 + b"\r\n\r\n"


def script(size: int) -> bytes:
    payload = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    return b"".join(
        [
            b"PUB a r %d\r\n%b\r\nPING\r\n" % (size, payload),
            b"HPUB b %d %d\r\n%b%b\r\n" % (len(HEADERS), len(HEADERS) + size, HEADERS, payload),
            b"HPUB c %d %d\r\n" % (len(LONG_HEADERS), len(LONG_HEADERS) + size),
            LONG_HEADERS + payload + b"\r\nPUB small 1\r\nx\r\nSUB s 1\r\nPING\r\n",
        ]
    )


@pytest.mark.parametrize("chunk", [48 * 1024, 65_537, 1 << 20, 1 << 30])
@pytest.mark.parametrize("more", [-40, -2, -1, 0, 1, 70_000])
def test_frames_are_those_of_a_parser_that_joins_chunks_itself(chunk: int, more: int) -> None:
    data = script(ASSEMBLE_MIN + more)
    alone, beside, late = (Recorder(beside=flag) for flag in (False, True, True))
    feed(alone, data, chunk)
    for at in range(0, len(data), chunk):
        beside.parser.feed(data[at : at + chunk])
        beside.join()
    feed(late, data, chunk)
    while late.waiting:
        late.join()

    assert len(alone.said) == 7
    assert beside.said == alone.said
    assert late.said == alone.said


@pytest.mark.parametrize("chunk", [48 * 1024, 65_537, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 70_000, ASSEMBLE_MIN])
@pytest.mark.parametrize("more", [-40, 0, 1, ASSEMBLE_MIN])
def test_a_large_frame_may_be_mostly_headers(chunk: int, size: int, more: int) -> None:
    headers = b"NATS/1.0\r\nA: ".ljust(ASSEMBLE_MIN + more - 4, b"b") + b"\r\n\r\n"
    total = len(headers) + size
    data = b"HPUB a %d %d\r\n%b%b\r\nPING\r\n" % (len(headers), total, headers, bytes(size))
    alone, beside = (Recorder(beside=flag) for flag in (False, True))
    feed(alone, data, chunk)
    feed(beside, data, chunk)
    beside.join()

    assert alone.said == [(b"a", b"", headers, bytes(size), bytes(size) + b"\r\n"), "ping"]
    assert beside.said == alone.said


@pytest.mark.parametrize("end", [b"\rx", b"x\n", b"xx"])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_large_payload_without_its_line_end_is_a_violation(end: bytes, cut: int) -> None:
    data = b"PUB a %d\r\n%b%b" % (ASSEMBLE_MIN, bytes(ASSEMBLE_MIN), end)
    recorder = Recorder(beside=True)
    recorder.parser.feed(data[: ASSEMBLE_MIN // 2])
    recorder.parser.feed(data[ASSEMBLE_MIN // 2 : len(data) - cut])
    recorder.parser.feed(data[len(data) - cut :])

    assert recorder.said == ["violation b'Unknown Protocol Operation' True"]
    assert recorder.waiting == []


def test_what_comes_after_the_end_of_a_connection_is_not_carried_out() -> None:
    recorder = Recorder(beside=True)
    feed(recorder, script(ASSEMBLE_MIN), 1 << 20)
    recorder.parser.closed = True
    recorder.join()

    assert recorder.said == []


def test_sizes_are_those_of_the_line() -> None:
    """``pe`` continues to say where the payload would end."""
    sizes: list[i64] = []

    class Sizes(Recorder):
        def on_pub(self, frame: Frame) -> None:
            sizes.append(frame.pe - frame.hs)

    recorder = Sizes(beside=True)
    feed(recorder, b"PUB a %d\r\n%b\r\n" % (ASSEMBLE_MIN, bytes(ASSEMBLE_MIN)), 1 << 20)
    recorder.join()
    assert sizes == [ASSEMBLE_MIN]
