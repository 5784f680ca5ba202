"""Headers and digests of rows in marked batches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from jetspark.client.jetstream.message_columns import MessageColumns
from jetspark.errors import AuthorizationFailed, Error, RequestTimeout
from jetspark.headers.block import append_lines
from jetspark.spark.stream.sink import sending
from jetspark.spark.stream.sink.epoch_ledger import Totals
from jetspark.spark.stream.sink.ledger import Found, LedgerEntry
from jetspark.spark.stream.sink.markers import (
    EpochWriter,
    MarkedRows,
    MarkedWriter,
    Marker,
    StoredMarker,
    fenced,
    split_headers,
)
from jetspark.spark.stream.sink.message_ids import WriteTask
from jetspark.spark.stream.sink.row_counts import RowCounts
from jetspark.sync import retry

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

    assert list(rows.places_of(digests).values()) == [10, 11, 18, 19]


class FailingLedger:
    """A ledger that answers everything but one question, which it counts."""

    def __init__(self, error: Error) -> None:
        self.error = error
        self.asked = 0
        self.run = "r"
        self.subject = "ledger.q"
        self.epochs = self

    def begin(self, _jetstream: Any) -> Found:
        return Found(LedgerEntry(0, 0, "q"), 1, 0)

    def is_committed(self, _found: Found) -> bool:
        return False

    is_replay = is_committed

    def own_rows(self, _jetstream: Any, _found: Found, _part: str) -> tuple[RowCounts, int]:
        return RowCounts.of(b""), 0

    def fence(self, _revision: int) -> bytes:
        return FENCE

    def check(self, *_: Any) -> None:
        self.asked += 1
        raise self.error

    committed_entry = check


RETRIES = 3


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A plan that needs no server."""

    @contextmanager
    def borrow(_connection: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(sending, "CONNECTIONS", SimpleNamespace(borrow=borrow))
    monkeypatch.setattr(sending, "jetstream_of", lambda *_: None)
    monkeypatch.setattr(retry, "retry_delay", lambda _failures: 0.0)
    options = SimpleNamespace(retries=RETRIES, connection=None, ack_timeout_s=1.0)
    return SimpleNamespace(options=options, stream="S")


@pytest.mark.parametrize(
    ("error", "times"), [(RequestTimeout("late"), RETRIES + 1), (AuthorizationFailed("no"), 1)]
)
@pytest.mark.parametrize("scope", ["epoch", "chunk"])
def test_a_question_with_retries_of_its_own_is_not_tried_again_as_a_whole(
    plan: Any, scope: str, error: Error, times: int
) -> None:
    ledger = FailingLedger(error)
    expects = append_lines(b"", b"Nats-Expected-Last-Subject-Sequence: 3\r\n")
    messages, digests = MessageColumns.to_publish(["a"], [b"1"], [expects]), [b"d" * 16]
    epoch = EpochWriter(plan, cast("Any", ledger))
    task = cast("WriteTask", SimpleNamespace(epoch=1))
    chunk = MarkedWriter(plan, cast("Any", ledger), task, "0")
    writes: dict[str, Callable[[], object]] = {
        "epoch": lambda: epoch.write(messages, digests, Totals(1, 1)),
        "chunk": lambda: chunk.write(ledger.begin(None), messages, digests),
    }
    with pytest.raises(type(error)):
        writes[scope]()

    assert ledger.asked == times
