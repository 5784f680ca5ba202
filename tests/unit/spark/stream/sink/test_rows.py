"""Arrow batches turned into messages with ids that a repeated task makes again."""

from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType
from xxhash import xxh3_128_digest

from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.headers.block import append_lines, decode_headers
from jetspark.spark.stream.sink.message_ids import (
    IdMaker,
    WriteTask,
    digest_in,
    epoch_in,
    has_place,
    row_digests,
)
from jetspark.spark.stream.sink.row_counts import RowCounts, digest_sum, sum_of_sums
from jetspark.spark.stream.sink.rows import RowDecoder, RowRefused, SinkRows
from jetspark.spark.stream.sink.writer import gather

TASK = WriteTask("query", 7, 3)
SCHEMA = StructType().add("subject", "string").add("data", "string")


def _batch(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def _decode(schema: StructType, batch: pa.RecordBatch, subject: str = "") -> SinkRows:
    return RowDecoder(schema, subject).decode(batch)


def _rows(*payloads: bytes) -> SinkRows:
    count = len(payloads)
    return _messages(["s"] * count, list(payloads), [b""] * count)


def _messages(subjects: list[str], payloads: list[bytes], headers: list[bytes]) -> SinkRows:
    return SinkRows(MessageColumns.to_publish(subjects, payloads, headers))


def _ids(task: WriteTask, *chunks: SinkRows) -> list[bytes]:
    maker = IdMaker(task.id_prefix)
    return [one for rows in chunks for one in maker.ids(row_digests(rows))]


def test_text_becomes_bytes_and_null_an_empty_payload() -> None:
    rows = _decode(SCHEMA, _batch(subject=["a", "b"], data=["\u00e4", None]))

    assert rows.messages.subjects == ["a", "b"]
    assert rows.messages.data == ["\u00e4".encode(), b""]


def test_the_option_subject_is_that_of_every_row() -> None:
    rows = _decode(SCHEMA, _batch(subject=["a", "b"], data=["1", "2"]), "all")

    assert rows.messages.subjects == ["all", "all"]


@pytest.mark.parametrize("subject", [None, ""])
def test_a_row_without_subject_is_refused(subject: str | None) -> None:
    batch = _batch(subject=pa.array(["a", subject], pa.string()), data=["1", "2"])

    with pytest.raises(RowRefused, match="every message requires one, so filter such rows out"):
        _decode(SCHEMA, batch)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.map_(pa.string(), pa.string()), [("A", "1")], [("A", "1")]),
        (
            pa.map_(pa.string(), pa.list_(pa.string())),
            [("A", ["1", "2"])],
            [("A", "1"), ("A", "2")],
        ),
        (pa.binary(), b"NATS/1.0\r\nA: 1\r\n\r\n", [("A", "1")]),
    ],
)
def test_headers_may_be_maps_or_blocks(
    kind: pa.DataType, value: object, expected: list[tuple[str, str]]
) -> None:
    schema = StructType([*SCHEMA.fields]).add("headers", "binary")
    batch = _batch(subject=["a", "b"], data=["", ""], headers=pa.array([value, None], kind))

    rows = _decode(schema, batch)

    assert list(decode_headers(rows.messages.headers[0]).items()) == expected
    assert rows.messages.headers[1] == b""


def test_headers_of_another_publish_are_left_out() -> None:
    """A row copied from another stream must not be refused because of where it comes from."""
    schema = StructType([*SCHEMA.fields]).add("headers", "binary")
    block = b"NATS/1.0\r\nNats-Msg-Id: x\r\nA: 1\r\nNats-Expected-Stream: UP\r\n\r\n"

    rows = _decode(schema, _batch(subject=["a"], data=[""], headers=[block]))

    assert rows.messages.headers == [b"NATS/1.0\r\nA: 1\r\n\r\n"]


def test_a_block_that_is_none_is_refused() -> None:
    schema = StructType([*SCHEMA.fields]).add("headers", "binary")

    with pytest.raises(RowRefused, match="encode_headers"):
        _decode(schema, _batch(subject=["a"], data=[""], headers=[b"A: 1"]))


def test_columns_become_headers_of_the_publish() -> None:
    schema = (
        StructType([*SCHEMA.fields]).add("expected_last_subject_seq", "long").add("ttl", "integer")
    )
    batch = _batch(subject=["a", "b"], data=["", ""], seq=[5, None], ttl=[None, 60])

    rows = _decode(schema, batch)
    blocks = rows.finished("S", [b"id1", b"id2"]).headers

    assert blocks[0] == (
        b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-Msg-Id: id1\r\n"
        b"Nats-Expected-Last-Subject-Sequence: 5\r\n\r\n"
    )
    assert b"Nats-TTL: 60s\r\n" in blocks[1]


@pytest.mark.parametrize("ttl", ["soon", "1ms"])
def test_a_time_to_live_that_is_none_is_refused(ttl: str) -> None:
    schema = StructType([*SCHEMA.fields]).add("ttl", "string")

    with pytest.raises(RowRefused, match="ttl is"):
        _decode(schema, _batch(subject=["a"], data=[""], ttl=[ttl]))


def test_ids_by_content_do_not_depend_on_order_or_chunks() -> None:
    together = _ids(TASK, _rows(b"x", b"y", b"x"))
    apart = _ids(TASK, _rows(b"y", b"x"), _rows(b"x"))

    assert len(set(together)) == 3
    assert set(apart) == set(together)
    assert all(one.startswith(b"query.7.3.") for one in together)


def test_equal_rows_of_two_partitions_are_two_messages() -> None:
    assert _ids(WriteTask("query", 7, 4), _rows(b"x")) != _ids(TASK, _rows(b"x"))


def test_a_digest_tells_where_a_subject_ends() -> None:
    first = _messages(["ab"], [b"c"], [b""])
    second = _messages(["a"], [b"bc"], [b""])

    assert row_digests(first) != row_digests(second)


def test_the_digest_of_a_row_is_read_back_from_its_id() -> None:
    digests = row_digests(_rows(b"x", b"y", b"x"))
    made = IdMaker(TASK.id_prefix).ids(digests)

    read = [digest_in(one, TASK.epoch_prefix.encode()) for one in made]

    assert read == digests
    assert made[2].endswith(b".1")
    assert digest_in(b"query.7.3.12", b"query.7.") is None
    assert epoch_in(made[2], b"query.") == 7
    assert epoch_in(b"query.7.3.12", b"query.") == 7


def test_an_id_of_a_query_with_a_longer_name_is_none_of_this_one() -> None:
    digests = row_digests(_rows(b"x", b"x"))
    for task in (TASK, TASK._replace(partition=12)):
        longer = task._replace(prefix=f"{task.prefix}.7")
        for one in IdMaker(longer.id_prefix).ids(digests):
            assert digest_in(one, TASK.epoch_prefix.encode()) is None
            assert not has_place(one, TASK.epoch_prefix.encode())
            assert epoch_in(one, f"{TASK.prefix}.".encode()) is None
            assert epoch_in(one, f"{longer.prefix}.".encode()) == longer.epoch


def test_counts_of_rows_survive_packing_and_adding() -> None:
    digests = row_digests(_rows(b"x", b"y", b"x", b"z"))
    counts = RowCounts.of(b"".join(digests))

    twice = RowCounts.merged([counts, RowCounts.unpacked(counts.packed())])

    assert sorted(twice.items()) == sorted((one, 2 * n) for one, n in Counter(digests).items())
    assert (len(twice), twice.total, twice[b"\0" * 16]) == (3, 8, 0)
    assert len(RowCounts.merged([])) == 0


def test_a_checksum_does_not_depend_on_order_or_tasks() -> None:
    digests = row_digests(_rows(b"x", b"y", b"x", b"z"))
    apart = sum_of_sums([digest_sum(digests[3:]), digest_sum(digests[:3][::-1])])

    assert apart == digest_sum(digests) != digest_sum(digests[:3])


def test_small_batches_are_gathered() -> None:
    batches = [_batch(subject=["a"] * 4_000, data=["x"] * 4_000) for _ in range(4)]
    empty = _batch(subject=pa.array([], pa.string()), data=pa.array([], pa.string()))

    sizes = [len(rows) for rows in gather(RowDecoder(SCHEMA, ""), iter([empty, *batches]))]

    assert sizes == [12_000, 4_000]


@pytest.mark.parametrize("subjects", [["a"], ["a", "bc", "\u00e4"], [f"s{n}" for n in range(60)]])
@pytest.mark.parametrize("different", [60, 7])
@pytest.mark.parametrize("block", [b"", b"NATS/1.0\r\nA: 1\r\n\r\n"])
def test_ids_are_those_of_the_version_before_however_they_are_computed(
    subjects: list[str], different: int, block: bytes
) -> None:
    """A task of 0.1.0 may have stored the same row: the stream must recognise its id."""
    count = 60
    rows = _messages(
        [subjects[n % len(subjects)] for n in range(count)],
        [b"%d" % (n % different) for n in range(count)],
        [block] * count,
    )
    seen: Counter[bytes] = Counter()
    expected = []
    for subject, payload in zip(rows.messages.subjects, rows.messages.data, strict=True):
        start = b"%d %d 0 " % (len(subject), len(block)) + subject.encode() + block
        digest = xxh3_128_digest(start + payload)
        nth = f".{seen[digest]}" if seen[digest] else ""
        expected.append(f"{TASK.id_prefix}{digest.hex()}{nth}".encode())
        seen[digest] += 1

    halves = [rows.picked(range(at, at + 30)) for at in (0, 30)]
    assert _ids(TASK, *halves) == expected
    blocks = rows.finished("S", expected).headers
    assert all(
        one == append_lines(block, b"Nats-Expected-Stream: S\r\nNats-Msg-Id: %s\r\n" % msg_id)
        for one, msg_id in zip(blocks, expected, strict=True)
    )


@pytest.mark.parametrize("msg_id", ["a\r\nNats-Rollup: all", "a\nb", "a\r", " a", "\ta"])
def test_an_id_that_the_server_would_read_as_something_else_is_refused(msg_id: str) -> None:
    """A second line is a header of its own; blanks at the start are skipped."""
    schema = StructType([*SCHEMA.fields]).add("msg_id", "string")
    batch = _batch(subject=["s", "s"], data=["1", "2"], msg_id=["fine", msg_id])

    with pytest.raises(RowRefused, match=r"'msg_id' contains .*: an id must be one line"):
        _decode(schema, batch)


def test_any_other_text_may_be_an_id() -> None:
    ids = ["a b", "a ", "\u00e4:1", "\u2028", "x" * 300]
    schema = StructType([*SCHEMA.fields]).add("msg_id", "string")

    rows = _decode(schema, _batch(subject=["s"] * 5, data=["1"] * 5, msg_id=ids))

    assert rows.msg_ids == ids
