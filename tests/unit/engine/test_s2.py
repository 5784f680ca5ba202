"""The S2 framing of backup archives, judged by a slow reading of its specification."""

from __future__ import annotations

import random

import pytest

from jetspark.engine.s2 import FRAME_MAX, MAGIC, CompressedChunk, FramesBroken, Unframer, frame
from jetspark.engine.s2 import crc32c as ours


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksums_are_those_of_rfc_3720(data: bytes, crc: int) -> None:
    assert ours(data) == crc


def test_checksums_of_any_length_equal_the_slow_ones() -> None:
    source = random.Random(7)
    for size in (255, 256, 257, 511, 512, 1000, 4096, 10_001):
        data = source.randbytes(size)
        assert ours(data) == crc32c(data)


def test_a_stored_chunk_is_as_the_format_says() -> None:
    made = frame(b"hello")

    crc = crc32c(b"hello")
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32
    assert made == b"\x01\x09\x00\x00" + masked.to_bytes(4, "little") + b"hello"
    assert len(frame(bytes(FRAME_MAX))) == FRAME_MAX + 8


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_chunks_paddings_and_repeated_heads_are_read_in_any_pieces(piece: int) -> None:
    data = random.Random(3).randbytes(5000)
    whole = MAGIC + frame(data[:2000]) + b"\xfe\x05\x00\x00.....\x99\x00\x00\x00" + frame(b"")
    whole += MAGIC + frame(data[2000:])

    unframer = Unframer()
    found = [unframer.feed(whole[at : at + piece]) for at in range(0, len(whole), piece)]

    assert b"".join(found) == data


def test_bytes_without_a_frame_pass_as_they_are() -> None:
    unframer = Unframer()

    assert unframer.feed(b"\xff\x06") + unframer.feed(b"plain") == b"\xff\x06plain"


@pytest.mark.parametrize("chunk", [b"\x02\x00\x00\x00", b"\x01\x03\x00\x00", b"\xff\x07\x00\x00"])
def test_other_chunks_are_refused(chunk: bytes) -> None:
    with pytest.raises(FramesBroken):
        Unframer().feed(MAGIC + chunk)
    with pytest.raises(CompressedChunk):
        Unframer().feed(MAGIC + b"\x00\x01\x00\x00")
