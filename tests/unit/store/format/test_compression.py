"""Messages compressed on disk."""

from typing import TYPE_CHECKING

import pytest
from librt.strings import BytesWriter
from tests.support.store.model import Message, check_counts, messages, sequences

from jetspark.errors.storage import CorruptRecord
from jetspark.store.format.compression import pack, unpacked
from jetspark.store.format.record import COMPRESSED, MESSAGE, Codec, record_flags

if TYPE_CHECKING:
    from tests.unit.store.conftest import Bench

BODY = b"the same words, and the same words again; " * 8
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


def keep_house(bench: "Bench") -> None:
    while bench.log.maintain():
        pass


def packed_bench(bench: "Bench", count: int = 120) -> dict[int, Message]:
    """Fill a stream that wants compression; what must be read."""
    bench.log.upkeep.pack(True)
    bench.log.segments.size = 6000
    written = {}
    for n in range(count):
        body = BODY + b"%d" % n if n % 3 else b"%d" % n
        headers = HEADERS if n % 2 else b""
        seq = int(
            bench.log.staged.add_message(
                b"k.%d" % (n % 5), len(headers), headers + body + b"\r\n", n
            )
        )
        bench.write()
        bench.log.commit()
        written[seq] = Message(b"k.%d" % (n % 5), headers, body)
    return written


def test_full_segments_are_compressed_and_read_as_they_were(bench: "Bench") -> None:
    written = packed_bench(bench)
    before = bench.log.segments.disk_bytes
    keep_house(bench)

    assert bench.log.segments.disk_bytes < before // 2
    assert messages(bench.log) == written
    assert all(file.rows[0].packed for file in bench.log.segments.list_files()[:-1])


def test_state_counts_messages_and_not_what_the_disk_holds(bench: "Bench") -> None:
    written = packed_bench(bench)
    counted = int(bench.log.index.bytes)
    keep_house(bench)

    assert bench.log.index.bytes == counted
    check_counts(bench.log, written)

    bench.reopen()

    assert bench.log.index.bytes == counted
    assert messages(bench.log) == written
    assert bench.recovery.damaged == []
    check_counts(bench.log, written)


def test_a_start_without_condensed_files_counts_the_same(bench: "Bench") -> None:
    written = packed_bench(bench)
    keep_house(bench)
    counted = int(bench.log.index.bytes)
    for path in list(bench.disk.paths()):
        if path.suffix == ".idx":
            bench.disk.remove(path)
    bench.reopen()

    assert bench.log.index.bytes == counted
    assert messages(bench.log) == written


def test_nothing_is_compressed_before_its_segment_is_full(bench: "Bench") -> None:
    """Never in the ack path."""
    bench.log.upkeep.pack(True)
    bench.publish(*[BODY] * 5)
    keep_house(bench)
    (path,) = bench.segments()

    assert bench.disk.read_file(path).count(BODY) == 5


def test_a_stream_that_no_longer_wants_it_keeps_what_is_compressed(bench: "Bench") -> None:
    written = packed_bench(bench)
    keep_house(bench)
    bench.log.upkeep.pack(False)
    for seq in [seq for seq in written if seq % 4]:
        assert bench.log.staged.delete(seq)
        del written[seq]
    bench.write()
    bench.log.commit()
    keep_house(bench)

    assert messages(bench.log) == written

    bench.reopen()

    assert messages(bench.log) == written


def test_a_flipped_bit_of_a_compressed_message_costs_that_message(bench: "Bench") -> None:
    written = packed_bench(bench)
    keep_house(bench)
    columns = bench.log.index.segment_of(2)
    assert columns is not None
    offset = int(columns.offset_at(2 - columns.base))
    bench.disk.flip(bench.segments()[0], (offset + 70) * 8)

    with pytest.raises(CorruptRecord):
        bench.log.reader.locate(2)
    unreadable: set[int] = set()
    found = messages(bench.log, unreadable)
    assert unreadable == {2}
    assert found.items() <= written.items()
    assert len(found) == len(written) - 1


def test_long_runs_are_read_across_pages(bench: "Bench") -> None:
    bench.log.upkeep.pack(True)
    bench.log.segments.size = 200_000
    bodies = [b"%05d" % n * 400 for n in range(400)]
    for n in range(0, 400, 50):
        bench.publish(*bodies[n : n + 50])
    keep_house(bench)

    assert [m.body for m in messages(bench.log).values()] == bodies
    assert len(sequences(bench.log)) == 400


@pytest.mark.parametrize(
    "body", [b"x", b"x" * 63, bytes(range(200))], ids=["tiny", "short", "dense"]
)
def test_what_gains_nothing_stays_as_it_is(body: bytes) -> None:
    codec, plain, packed = Codec(7), BytesWriter(), BytesWriter()
    codec.encode(plain, 1, 2, MESSAGE, 0, b"s", 0, body + b"\r\n")

    assert not pack(codec, plain.getvalue(), 0, packed)
    assert packed.getvalue() == b""


def test_a_body_that_is_not_what_it_says_is_refused() -> None:
    """A record can check and lie: only a mistake of ours writes such a thing."""
    codec, plain, packed = Codec(7), BytesWriter(), BytesWriter()
    codec.encode(plain, 1, 2, MESSAGE, 0, b"s", 0, BODY + b"\r\n")
    assert pack(codec, plain.getvalue(), 0, packed)
    record = packed.getvalue()
    assert record_flags(record, 0) & COMPRESSED
    assert BODY in unpacked(record, 0)

    wrong_length = record[:41] + bytes([record[41] + 1]) + record[42:]
    huge = record[:41] + b"\xff" * 8 + record[49:]
    garbage = record[:49] + bytes(len(record) - 49)

    assert unpacked(wrong_length, 0) == b""
    assert unpacked(huge, 0) == b""
    assert unpacked(garbage, 0) == b""
