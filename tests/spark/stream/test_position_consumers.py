"""The consumer of ``progressConsumer`` shows what a query has committed, not more. No JVM."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.support.checkpointed_query import CheckpointedQuery

from jetspark import Retention, Storage, StreamConfig, sync
from jetspark.errors import ConsumerNotFound, RequestTimeout
from jetspark.spark.stream import streaming_reader
from jetspark.spark.stream.view import PlanningFailed


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_reader, "POLL_S", 0.0)


@pytest.fixture
def stream(jetstream: sync.JetStream, request: pytest.FixtureRequest) -> Iterator[sync.Stream]:
    made = _stream(jetstream, f"P{abs(hash(request.node.nodeid)) % 10**9}")
    yield made
    jetstream.delete_stream(made.name)


def _stream(jetstream: sync.JetStream, name: str, **settings: Any) -> sync.Stream:
    config = StreamConfig(
        name=name,
        subjects=(f"{name}.>",),
        allow_direct=True,
        storage=Storage.MEMORY,
        **settings,
    )
    made = jetstream.create_stream(config)
    for number in range(10):
        jetstream.publish(f"{name}.{number % 2}", b"x")
    return made


def _query(url: str, *names: str, **options: str) -> CheckpointedQuery:
    settings = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    return CheckpointedQuery(
        url, streams=",".join(names), progressConsumer="spark", **{**settings, **options}
    )


def _shown(stream: sync.Stream) -> tuple[int, int]:
    """Return the last message that the consumer has passed, and how many are left."""
    info = stream.consumer("spark").info()
    assert info.ack_floor.stream_seq == info.delivered.stream_seq
    return info.ack_floor.stream_seq, info.num_pending


def test_the_consumer_follows_commits_and_is_never_ahead_of_one(
    url: str, stream: sync.Stream
) -> None:
    query = _query(url, stream.name)

    query.plan()
    planned = _shown(stream)
    query.rows()
    query.commit()
    committed = _shown(stream)
    query.plan()
    following = _shown(stream)
    query.restart()
    query.rows()
    restarted = _shown(stream)
    query.commit()
    query.step()
    # Spark asks once more, also at the end of an AvailableNow query.
    assert not query.plan()

    assert (planned, committed, following, restarted) == ((0, 10), (0, 10), (4, 6), (4, 6))
    assert _shown(stream) == (10, 0)


def test_the_lag_counts_the_messages_of_the_filter(url: str, stream: sync.Stream) -> None:
    query = _query(url, stream.name, subject=f"{stream.name}.1")
    query.step()
    query.plan()
    first = _shown(stream)
    query.rows()
    query.commit()
    query.restart(subject=f"{stream.name}.0")
    query.plan()

    # From the first match, four sequences: 2 to 5, then 6 to 9.
    assert first == (5, 3)
    assert _shown(stream) == (9, 0)
    assert stream.consumer("spark").info().config.filter_subjects == (f"{stream.name}.0",)


def test_a_server_without_resets_has_the_consumer_created_again(
    url: str, stream: sync.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_consumer: sync.Consumer, _seq: int) -> int:
        raise RequestTimeout("no answer")

    monkeypatch.setattr(sync.Consumer, "reset", unknown)
    query = _query(url, stream.name)
    query.step()
    query.step()
    query.plan()

    assert _shown(stream) == (8, 2)


def test_each_stream_has_its_consumer(
    url: str, jetstream: sync.JetStream, stream: sync.Stream
) -> None:
    other = _stream(jetstream, f"{stream.name}_B")
    query = _query(url, stream.name, other.name)
    query.step()
    query.plan()

    assert [_shown(one) for one in (stream, other)] == [(2, 8), (2, 8)]
    jetstream.delete_stream(other.name)


def test_a_consumer_of_another_program_is_left_alone(url: str, stream: sync.Stream) -> None:
    stream.create_consumer(durable="spark")

    query = _query(url, stream.name)

    with pytest.raises(PlanningFailed, match=r"'spark' of stream .* belongs to another program"):
        query.plan()
    assert _shown(stream) == (0, 10)


def test_a_queue_is_refused_because_the_consumer_would_count_as_a_reader(
    url: str, jetstream: sync.JetStream, stream: sync.Stream
) -> None:
    queue = _stream(jetstream, f"{stream.name}_Q", retention=Retention.WORKQUEUE)
    query = _query(url, queue.name)

    with pytest.raises(PlanningFailed, match="whose retention is workqueue"):
        query.plan()
    with pytest.raises(ConsumerNotFound):
        queue.consumer("spark")
    jetstream.delete_stream(queue.name)


def test_a_stream_created_again_does_not_get_the_position_of_the_old_one(
    url: str, jetstream: sync.JetStream, stream: sync.Stream
) -> None:
    query = _query(url, stream.name, onRecreate="earliest")
    query.step()
    jetstream.delete_stream(stream.name)
    again = _stream(jetstream, stream.name)

    query.plan()
    with pytest.raises(ConsumerNotFound):
        again.consumer("spark")
    query.rows()
    query.commit()
    query.plan()

    assert json.loads(query.ends[-1])["streams"][stream.name]["next"] == 9
    assert _shown(again) == (4, 6)
