"""Journal files: what is found in them, whole, torn and damaged."""

import struct
import time

import pytest
from xxhash import xxh3_64_intdigest

from jetspark.errors.storage import WrongStoreFormat
from jetspark.store.journal.format import (
    ALIGNMENT,
    FRAMES_AT,
    HEAD_COPIES,
    Head,
    Place,
    aligned,
    decode_frame,
    decode_head,
    encode_frame,
    encode_head,
    frames_in,
)
from jetspark.store.journal.view import Found

HEAD = Head(key=0x1234567890ABCDEF, first=7)


def frame(number: int, *blobs: bytes, key: int = HEAD.key) -> bytes:
    groups = [
        Found(Place(stream_id=n, first_seq=1, first_position=2, generation=3, offset=n * 10), n, b)
        for n, b in enumerate(blobs)
    ]
    return encode_frame(key, number, groups)


def heads(first: Head, second: Head) -> bytes:
    return encode_head(first).ljust(HEAD_COPIES[1], b"\0") + encode_head(second)


def file_with(*frames: bytes) -> bytes:
    data = heads(HEAD, HEAD).ljust(FRAMES_AT, b"\0")
    for each in frames:
        data = data.ljust(aligned(len(data)), b"\0") + each
    return data.ljust(aligned(len(data)) + 4 * ALIGNMENT, b"\0")


def test_frames_are_found_in_order_with_every_group() -> None:
    blobs = [b"first", b"x" * 3000, b"last"]
    data = file_with(frame(7, *blobs), frame(8, b"one"), frame(9, *blobs[::-1]))

    assert decode_head(data) == HEAD
    found = list(frames_in(data, HEAD))
    assert [each.number for each in found] == [7, 8, 9]
    assert all(each.whole for each in found)
    assert [entry.data for entry in found[0].entries] == blobs
    assert found[0].entries[2].place == Place(2, 1, 2, 3, 20)
    assert [entry.last_seq for entry in found[2].entries] == [0, 1, 2]


def test_a_frame_cut_at_any_byte_is_not_whole() -> None:
    data = frame(7, b"first group", b"second")
    for length in range(len(data)):
        found = decode_frame(data[:length], 0, HEAD.key)
        assert found is None or not found.whole


def test_one_flipped_bit_costs_one_group_or_one_frame_and_no_other() -> None:
    whole = frame(8, b"first group", b"second")
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        found = list(frames_in(file_with(frame(7, b"a"), bytes(damaged), frame(9, b"b")), HEAD))
        assert found[0].whole
        assert found[-1].number == 9
        assert found[-1].whole
        if len(found) == 3:
            # The length of a frame is part of the checked table: only a group can be wrong.
            assert sum(entry.data is None for entry in found[1].entries) == 1


def test_frames_of_an_earlier_use_are_not_found() -> None:
    old = [frame(number, b"old" * 50, key=5) for number in (7, 8, 9)]
    data = file_with(frame(7, b"new"), *old)

    assert [each.entries[0].data for each in frames_in(data, HEAD)] == [b"new"]


def test_a_payload_with_a_frame_in_it_is_not_a_frame() -> None:
    inner = frame(8, b"inner", key=99)
    data = file_with(frame(7, b"\0" * (ALIGNMENT - 200) + inner * 5))

    assert [each.number for each in frames_in(data, HEAD)] == [7]


def test_either_copy_of_the_head_is_enough() -> None:
    data = bytearray(file_with())
    data[10] ^= 1
    assert decode_head(bytes(data)) == HEAD
    data[4096 + 10] ^= 1
    assert decode_head(bytes(data)) is None
    assert decode_head(b"") is None


def test_the_later_of_two_heads_counts() -> None:
    later = Head(key=1, first=20)
    assert decode_head(heads(later, HEAD)) == later
    assert decode_head(heads(HEAD, later)) == later


def test_another_version_of_the_format_is_refused() -> None:
    head = encode_head(HEAD)
    fixed = head[:4] + struct.pack("<I", 2) + head[8:-8]
    later = fixed + struct.pack("<Q", xxh3_64_intdigest(fixed))

    with pytest.raises(WrongStoreFormat, match="the journal has format 2"):
        decode_head(later)


def test_payloads_that_look_like_frames_do_not_delay_a_start() -> None:
    """Each of these has a table up to the end of the file, which would have to be hashed."""
    size = 8 * 1024 * 1024
    fakes = []
    for at in range(FRAMES_AT, size, ALIGNMENT):
        groups = (size - at - 40) // 56
        fakes.append((b"JSF1" + struct.pack("<IQII", 10**6, 8, groups, 0)).ljust(ALIGNMENT, b"J"))
    data = heads(HEAD, HEAD).ljust(FRAMES_AT, b"\0") + b"".join(fakes)
    started = time.process_time()

    assert list(frames_in(data, HEAD)) == []
    assert list(frames_in(data.replace(b"JJJJ", b"JSF1"), HEAD)) == []
    assert time.process_time() - started < 1.5
