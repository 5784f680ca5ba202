"""The ledger of ``exactly_once``, against both servers and without Spark."""

import pytest

pytest.importorskip("pyspark")

from jetspark import KeyValueConfig, sync
from jetspark.spark.batches.ledger import BatchLedger, Query
from jetspark.spark.connection_settings import Connection
from jetspark.spark.stream.sink.epoch_ledger import Superseded
from jetspark.spark.stream.sink.plan import WriteRefused

FIRST = Query("q1", "r1")
RESTARTED = Query("q1", "r2")


def _ledger(url: str, name: str, bucket: str = "") -> BatchLedger:
    return BatchLedger(Connection(servers=(url,)), bucket, name)


def test_a_micro_batch_is_written_until_it_is_committed(url: str) -> None:
    ledger = _ledger(url, "plain")
    assert ledger.committed() is None

    begun = ledger.begin(0, FIRST, committed_here=False)
    again = _ledger(url, "plain").begin(0, RESTARTED, committed_here=False)

    assert begun is not None
    assert again is not None
    assert (begun.entry.runs, again.entry.runs) == (1, 2)
    _ledger(url, "plain").commit(again, RESTARTED)
    assert _ledger(url, "plain").begin(0, Query("q1", "r3"), committed_here=False) is None
    assert ledger.committed() == 0


def test_a_driver_that_was_replaced_neither_passes_a_check_nor_commits(url: str) -> None:
    old, new = _ledger(url, "zombie"), _ledger(url, "zombie")
    paused = old.begin(4, FIRST, committed_here=False)
    taken = new.begin(4, RESTARTED, committed_here=False)
    assert paused is not None
    assert taken is not None

    with pytest.raises(Superseded, match="another run of the same query has taken over"):
        old.check(paused)
    with pytest.raises(Superseded):
        old.commit(paused, FIRST)
    new.check(taken)
    new.commit(taken, RESTARTED)
    with pytest.raises(Superseded):
        old.commit(paused, FIRST)


def test_a_commit_that_is_sent_twice_counts_once(url: str) -> None:
    ledger = _ledger(url, "twice")
    begun = ledger.begin(0, FIRST, committed_here=False)
    assert begun is not None

    ledger.commit(begun, FIRST)
    ledger.commit(begun, FIRST)

    assert ledger.committed() == 0


def test_what_would_lose_rows_silently_is_refused(url: str, jetstream: sync.JetStream) -> None:
    ledger = _ledger(url, "refused")
    begun = ledger.begin(2, FIRST, committed_here=False)
    assert begun is not None
    # Without an entry, an earlier run may have written anything but micro-batch 0.
    assert begun.entry.runs == 2

    with pytest.raises(WriteRefused, match="was started and never committed"):
        ledger.begin(3, FIRST, committed_here=False)
    ledger.commit(begun, FIRST)
    with pytest.raises(WriteRefused, match=r"micro-batch 1 .* comes after micro-batch 2"):
        ledger.begin(1, FIRST, committed_here=False)
    with pytest.raises(WriteRefused, match="another checkpoint"):
        ledger.begin(3, Query("q2", "r9"), committed_here=False)
    with pytest.raises(WriteRefused, match="give each sink a name of its own"):
        ledger.begin(2, FIRST, committed_here=False)
    assert ledger.begin(2, FIRST, committed_here=True) is None
    jetstream.key_value("jetspark_ledger").put("batches/refused", b"mine")
    with pytest.raises(WriteRefused, match="is not an entry of exactly_once"):
        ledger.committed()


def test_a_bucket_that_forgets_is_no_ledger(url: str, jetstream: sync.JetStream) -> None:
    jetstream.create_key_value(KeyValueConfig(bucket="FORGETFUL", ttl=60))

    with pytest.raises(WriteRefused, match=r"has a ttl of 1m.*ledgerBucket"):
        _ledger(url, "x", "FORGETFUL").begin(0, FIRST, committed_here=False)
    with pytest.raises(WriteRefused, match="'MISSING' for the ledger does not exist"):
        _ledger(url, "x", "MISSING").committed()
