"""Headers and digests of rows in marked batches."""

import pytest

pytest.importorskip("pyspark")

from jetspark.headers.block import append_lines
from jetspark.spark.markers import MarkedRows, Marker, StoredMarker, fenced, split_headers
from jetspark.spark.row_counts import RowCounts

FENCE = b"Nats-Expected-Last-Subject-Sequence: 7\r\n"


def test_the_fence_goes_into_the_first_row_that_expects_nothing() -> None:
    expects = append_lines(b"", b"Nats-Expected-Last-Subject-Sequence: 3\r\n")

    assert fenced([expects, b"", b""], FENCE) == [expects, append_lines(b"", FENCE), b""]
    assert fenced([expects, expects], FENCE) is None


def test_headers_of_a_stored_row_are_taken_apart_as_they_were_put_together() -> None:
    block = append_lines(b"", b"A: 1\r\n")
    stored = append_lines(
        block,
        b"Nats-Expected-Stream: S\r\nNats-Expected-Last-Subject-Sequence: 5\r\n"
        b"Nats-TTL: 60s\r\nNats-Batch-Id: x\r\nNats-Batch-Sequence: 1\r\n",
    )

    lines = b"Nats-Expected-Last-Subject-Sequence: 5\r\nNats-TTL: 60s\r\n"
    assert split_headers(stored) == (block, lines)
    assert split_headers(append_lines(b"", b"Nats-Batch-Id: x\r\n")) == (b"", b"")


def test_the_place_of_a_row_follows_from_its_marker() -> None:
    digests = [bytes([number]) * 16 for number in range(4)]
    batches = [
        StoredMarker(12, "0", Marker(0, "r", 2), b"".join(digests[:2])),
        StoredMarker(20, "1", Marker(0, "r", 2), b"".join(digests[2:])),
    ]
    rows = MarkedRows(RowCounts.of(b"".join(digests)), batches)

    assert [rows.place_of(one) for one in digests] == [10, 11, 18, 19]
