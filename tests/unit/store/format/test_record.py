"""The record on disk: disk-format.md."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter
from xxhash import xxh3_64_intdigest

from jetspark.store.format.record import (
    BAD_CHECK,
    BAD_FRAME,
    FIXED,
    GROUP_FIRST,
    LENGTH_MAX,
    MESSAGE,
    OVERHEAD,
    SKIP,
    SUBJECT_MAX,
    TRUNCATED,
    Codec,
    body_end,
    headers_end,
    record_flags,
    record_key,
    record_kind,
    record_length,
    record_sequence,
    record_time,
    subject_end,
)

STREAM_ID = 0xFEDCBA9876543210


def encoded(
    *,
    seq: int = 7,
    time: int = 1_700_000_000_123_456_789,
    kind: int = int(MESSAGE),
    flags: int = 0,
    subject: bytes = b"orders.new",
    headers: bytes = b"NATS/1.0\r\nA: b\r\n\r\n",
    body: bytes = b"hello",
    stream_id: int = STREAM_ID,
) -> bytes:
    writer = BytesWriter()
    length = Codec(stream_id).encode(
        writer, seq, time, kind, flags, subject, len(headers), headers + body + b"\r\n"
    )
    data = writer.getvalue()
    assert length == len(data)
    return data


def test_layout_is_the_one_of_the_contract() -> None:
    """Every field at its place, little-endian; written here a second time."""
    subject, headers, body = b"orders.new", b"NATS/1.0\r\nA: b\r\n\r\n", b"hello"
    length = 40 + len(subject) + len(headers) + len(body) + 2 + 8
    seq, time = 0x1122334455667788, 1_700_000_000_123_456_789
    frame_word = (length ^ seq ^ STREAM_ID) & 0xFFFFFFFF
    fields = struct.pack(
        "<4sIQqHBBIII",
        b"JSR1",
        length,
        seq,
        time,
        len(subject),
        1,
        8,
        len(headers),
        0,
        frame_word,
    )
    everything = fields + subject + headers + body + b"\r\n"
    # The check is stored as xxHash writes digests, which is big-endian.
    check = struct.pack(">Q", xxh3_64_intdigest(everything[8:], STREAM_ID))

    actual = encoded(seq=seq, time=time, flags=8, subject=subject, headers=headers, body=body)

    assert len(fields) == FIXED
    assert everything + check == actual


@given(
    seq=st.integers(0, 2**63 - 1),
    time=st.integers(0, 2**63 - 1),
    kind=st.integers(1, 9),
    flags=st.integers(0, 15),
    subject=st.binary(max_size=80),
    headers=st.binary(max_size=80),
    body=st.binary(max_size=200),
    stream_id=st.integers(0, 2**64 - 1),
    before=st.binary(max_size=9),
    after=st.binary(max_size=9),
)
def test_what_was_encoded_is_read_back(
    *,
    seq: int,
    time: int,
    kind: int,
    flags: int,
    subject: bytes,
    headers: bytes,
    body: bytes,
    stream_id: int,
    before: bytes,
    after: bytes,
) -> None:
    record = encoded(
        seq=seq,
        time=time,
        kind=kind,
        flags=flags,
        subject=subject,
        headers=headers,
        body=body,
        stream_id=stream_id,
    )
    data = before + record + after
    at = len(before)

    assert Codec(stream_id).examine(data, at) == len(record) == record_length(data, at)
    assert record_sequence(data, at) == seq
    assert record_time(data, at) == time
    assert record_kind(data, at) == kind
    assert record_flags(data, at) == flags
    assert record_key(data, at) == 0
    assert data[at + FIXED : subject_end(data, at)] == subject
    assert data[subject_end(data, at) : headers_end(data, at)] == headers
    assert data[headers_end(data, at) : body_end(data, at)] == body
    assert data[body_end(data, at) : body_end(data, at) + 2] == b"\r\n"


@pytest.mark.parametrize("kind", [int(MESSAGE), int(SKIP)], ids=["message", "skip"])
def test_every_flipped_bit_is_noticed(kind: int) -> None:
    """Header and body of every record are checked."""
    good = encoded(kind=kind)
    codec = Codec(STREAM_ID)
    # More bytes after it: a flipped length must not be excused by the end of the data.
    behind = encoded(seq=8, body=b"x" * 300)
    unnoticed = []
    for bit in range(len(good) * 8):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        if codec.examine(bytes(damaged) + behind, 0) > 0:
            unnoticed.append(bit)

    assert unnoticed == []


def test_a_damaged_length_is_distinguished_from_a_damaged_body() -> None:
    """The frame word does that without a second hash."""
    good = encoded()
    codec = Codec(STREAM_ID)
    long = bytearray(good)
    long[4] ^= 1
    wrong = bytearray(good)
    wrong[FIXED + 3] ^= 1

    assert codec.examine(bytes(long) + good, 0) == BAD_FRAME
    assert codec.examine(bytes(wrong) + good, 0) == BAD_CHECK
    assert codec.framed_length(bytes(wrong), 0) == len(good)


def test_a_record_that_ends_too_early_is_truncated() -> None:
    good = encoded()
    codec = Codec(STREAM_ID)

    assert {int(codec.examine(good[:n], 0)) for n in range(len(good))} == {int(TRUNCATED)}


def test_a_record_of_another_stream_does_not_check() -> None:
    """No payload can contain a record that checks; the id is shown to no one."""
    assert Codec(STREAM_ID + 1).examine(encoded(), 0) == BAD_FRAME
    # The same low half: the frame word holds, the check does not.
    assert Codec(STREAM_ID ^ 1 << 60).examine(encoded(), 0) == BAD_CHECK


@given(data=st.binary(max_size=200), at=st.integers(0, 220))
def test_no_bytes_make_examine_raise(data: bytes, at: int) -> None:
    assert Codec(STREAM_ID).examine(data, at) <= 0


@given(
    changes=st.lists(st.tuples(st.integers(0, 140), st.binary(min_size=1, max_size=8))),
    end=st.integers(0, 200),
    at=st.integers(0, 200),
)
def test_no_change_of_a_record_makes_examine_raise(
    changes: list[tuple[int, bytes]], end: int, at: int
) -> None:
    data = bytearray(encoded() + encoded(seq=8))
    for offset, patch in changes:
        data[offset : offset + len(patch)] = patch
    length = Codec(STREAM_ID).examine(bytes(data[:end]), at)

    assert length <= end - at if length > 0 else length in {TRUNCATED, BAD_FRAME, BAD_CHECK}


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [(24, "<H", 0xFFFF), (28, "<I", 0xFFFFFFFF), (28, "<I", 60)],
    ids=["subject", "headers", "headers by a little"],
)
def test_parts_longer_than_the_record_are_a_bad_frame(
    offset: int, layout: str, value: int
) -> None:
    data = bytearray(encoded())
    struct.pack_into(layout, data, offset, value)

    assert Codec(STREAM_ID).examine(bytes(data), 0) == BAD_FRAME


@pytest.mark.parametrize("length", [0, 49, LENGTH_MAX + 1, 0xFFFFFFFF])
def test_a_length_that_no_record_has_is_a_bad_frame(length: int) -> None:
    data = bytearray(encoded() + bytes(100))
    struct.pack_into("<I", data, 4, length)
    struct.pack_into("<I", data, 36, (length ^ 7 ^ STREAM_ID) & 0xFFFFFFFF)

    assert Codec(STREAM_ID).examine(bytes(data), 0) == BAD_FRAME


def test_the_longest_subject_fits() -> None:
    record = encoded(subject=b"s" * SUBJECT_MAX)

    assert subject_end(record, 0) - FIXED == SUBJECT_MAX


@pytest.mark.parametrize(
    ("subject", "headers_length", "tail"),
    [
        (b"s" * (SUBJECT_MAX + 1), 0, b"\r\n"),
        (b"s", 4, b"abc\r\n"),
        (b"s", 0, b""),
        (b"s", 0, bytes(LENGTH_MAX - OVERHEAD + 2)),
    ],
    ids=["subject", "headers", "no line end", "record"],
)
def test_what_the_format_cannot_hold_is_refused(
    subject: bytes, headers_length: int, tail: bytes
) -> None:
    writer = BytesWriter()
    with pytest.raises(ValueError, match="a record holds a subject of up to 65535 bytes"):
        Codec(STREAM_ID).encode(writer, 1, 0, MESSAGE, GROUP_FIRST, subject, headers_length, tail)

    assert writer.getvalue() == b""
