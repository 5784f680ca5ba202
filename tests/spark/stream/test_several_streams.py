"""Reads of several streams: by names or a pattern, over several lives of a query. No JVM.

The truth is what was published: every message of every selected stream once, in its own order.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.support.checkpointed_query import CheckpointedQuery

from jetspark import Storage, StreamConfig, sync
from jetspark.spark import lag
from jetspark.spark.stream import followed_stream, streaming_reader
from jetspark.spark.stream.offsets import OffsetRefused
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed

Row = tuple[str, int]


@pytest.fixture(autouse=True)
def no_idling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_reader, "POLL_S", 0.0)
    monkeypatch.setattr(streaming_reader, "DISCOVERY_S", 0.0)


class Shop:
    """Streams with a common prefix, which the test deletes at its end."""

    def __init__(self, url: str, jetstream: sync.JetStream, prefix: str) -> None:
        self.url = url
        self.prefix = prefix
        self._jetstream = jetstream

    def create(self, name: str, **settings: Any) -> sync.Stream:
        full = self.prefix + name
        return self._jetstream.create_stream(
            StreamConfig(
                name=full,
                subjects=(f"{full}.>",),
                allow_direct=True,
                storage=Storage.MEMORY,
                **settings,
            )
        )

    def publish(self, name: str, *subjects: str) -> list[Row]:
        return [
            (self.prefix + name, self._jetstream.publish(f"{self.prefix}{name}.{one}", b"x").seq)
            for one in subjects
        ]

    def fill(self, name: str, count: int) -> list[Row]:
        self.create(name)
        return self.publish(name, *(str(number % 3) for number in range(count)))

    def delete(self, name: str) -> None:
        self._jetstream.delete_stream(self.prefix + name)

    def names(self, *names: str) -> str:
        return ",".join(self.prefix + name for name in names)

    def by_name(self, **values: int | str) -> str:
        return json.dumps({self.prefix + name: value for name, value in values.items()})

    def query(self, *names: str, **options: str) -> CheckpointedQuery:
        chosen = {"streams": self.names(*names)} if names else {}
        return CheckpointedQuery(
            self.url, **{"startingOffsets": "earliest", "minPartitions": "4", **chosen, **options}
        )

    def batch(self, **options: str) -> list[list[Row]]:
        source = JetStreamDataSource(options={"servers": self.url, **options})
        reader: Any = source.reader(source.schema())
        return [
            [(row["stream"], row["seq"]) for one in reader.read(part) for row in one.to_pylist()]
            for part in reader.partitions()
        ]

    def close(self) -> None:
        for name in [*self._jetstream.stream_names()]:
            if name.startswith(self.prefix):
                self._jetstream.delete_stream(name)


@pytest.fixture
def shop(url: str, jetstream: sync.JetStream, request: pytest.FixtureRequest) -> Iterator[Shop]:
    made = Shop(url, jetstream, f"M{abs(hash(request.node.nodeid)) % 10**9}_")
    yield made
    made.close()


def _flat(parts: list[list[Row]]) -> list[Row]:
    return sorted(row for part in parts for row in part)


def _step(query: CheckpointedQuery) -> list[Row]:
    """Plan, run and commit a micro-batch; its rows."""
    if not query.plan() and len(query.ends) == query.committed:
        return []
    rows = _flat(query.rows())
    query.commit()
    return rows


def test_a_batch_read_of_several_streams_has_every_row_once(shop: Shop) -> None:
    rows = [*shop.fill("A", 30), *shop.fill("B", 7), *shop.fill("C", 1)]
    shop.create("EMPTY")

    parts = shop.batch(streams=shop.names("C", "A", "B", "EMPTY"), minPartitions="4")
    by_pattern = shop.batch(streamPattern=f"{shop.prefix}(A|B|C)")
    filtered = shop.batch(streams=shop.names("A", "B"), subject="*.1")

    assert _flat(parts) == sorted(rows)
    # One partition each, the rest by length.
    assert [len(part) for part in parts] == [15, 15, 7, 1]
    assert _flat(by_pattern) == sorted(rows)
    assert _flat(filtered) == sorted(row for row in rows if row[0][-1] in "AB" and row[1] % 3 == 2)


def test_each_stream_has_its_own_start_and_end(shop: Shop, jetstream: sync.JetStream) -> None:
    rows = [*shop.fill("A", 10), *shop.fill("B", 10)]
    names = {"streams": shop.names("A", "B")}
    third = jetstream.stream(f"{shop.prefix}B").get_msg(seq=3).time

    by_number = shop.batch(
        **names,
        startingOffsets=shop.by_name(A=9, B="earliest"),
        endingOffsets=shop.by_name(A="latest", B=4),
        minLastSeq=shop.by_name(A=10, B=1),
    )
    by_time = shop.batch(
        **names,
        startingOffsetsByTimestamp=shop.by_name(A="2200-01-01T00:00:00Z", B=third.isoformat()),
        endingOffsets=shop.by_name(A="latest", B=9),
    )
    until = shop.batch(
        **names,
        startingOffsets="earliest",
        endingOffsetsByTimestamp=shop.by_name(A="1970-01-01T00:00:00Z", B=third.isoformat()),
    )

    assert _flat(by_number) == [*rows[8:10], *rows[10:13]]
    assert _flat(by_time) == rows[12:18]
    assert _flat(until) == rows[10:12]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"streamPattern": "NOTHING.*"}, "matches streamPattern 'NOTHING.*' .it must match the"),
        ({"streamPattern": ".*ABSENT", "startingOffsets": '{"ABSENT": 1}'}, "matches stream"),
        ({"streams": "ABSENT1,ABSENT2"}, "stream 'ABSENT1' does not exist"),
        ({"stream": "ABSENT1,ABSENT2"}, "for several streams use the option streams"),
    ],
)
def test_a_batch_read_of_streams_that_do_not_exist_is_refused(
    shop: Shop, options: dict[str, str], text: str
) -> None:
    with pytest.raises(PlanningFailed, match=text):
        shop.batch(**options)


def test_a_pattern_reads_buckets_only_if_it_names_them(
    shop: Shop, jetstream: sync.JetStream
) -> None:
    bucket = jetstream.create_key_value(f"{shop.prefix}K")
    bucket.put("a", b"1")
    rows = shop.fill("A", 2)

    assert _flat(shop.batch(streamPattern=f".*{shop.prefix}.*")) == rows
    assert _flat(shop.batch(streamPattern=f"KV_{shop.prefix}.*")) == [(f"KV_{shop.prefix}K", 1)]
    jetstream.delete_key_value(f"{shop.prefix}K")


def test_a_query_reads_several_streams_and_its_replay_has_the_same_partitions(shop: Shop) -> None:
    rows = [*shop.fill("A", 20), *shop.fill("B", 10)]
    query = shop.query("A", "B")
    query.plan()
    first = query.rows()
    shop.publish("A", "late")

    query.restart(minPartitions="9", streams=shop.names("B", "A"), maxOffsetsPerTrigger="1")

    assert query.rows() == first
    assert _flat(first) == sorted(rows)
    assert [len(part) for part in first] == [6, 7, 7, 10]
    query.commit()
    assert _step(query) == [(f"{shop.prefix}A", 21)]


def test_a_stream_without_news_is_not_read_again(shop: Shop) -> None:
    shop.fill("A", 5)
    shop.fill("B", 5)
    query = shop.query("A", "B")
    query.step()
    late = shop.publish("B", "1")
    query.plan()
    rows = query.rows()

    query.restart()

    assert rows == query.rows() == [late]
    query.commit()
    assert not query.plan()
    assert query.places()[f"{shop.prefix}A"]["next"] == 6


def test_new_streams_of_a_pattern_are_read_from_their_first_message(shop: Shop) -> None:
    query = shop.query(streamPattern=f"{shop.prefix}.*", startingOffsets="latest")
    assert _step(query) == []
    rows = shop.fill("A", 3)
    assert _step(query) == rows
    more = [*shop.publish("A", "1"), *shop.fill("B", 4)]

    query.restart()

    assert _step(query) == sorted(more)
    shop.create("EMPTY")
    assert _step(query) == []
    assert query.places()[f"{shop.prefix}EMPTY"]["next"] == 1


def test_a_stream_added_to_the_list_is_read_whole_and_one_removed_keeps_its_place(
    shop: Shop,
) -> None:
    rows = [*shop.fill("A", 3), *shop.fill("B", 3)]
    query = CheckpointedQuery(
        shop.url, stream=f"{shop.prefix}A", startingOffsets="earliest", minPartitions="1"
    )
    assert _step(query) == rows[:3]
    first_life = {"streams": shop.names("A", "B")}
    del query._options["stream"]
    query.restart(**first_life)
    query.plan()
    shop.publish("A", "1")

    query.restart(streams=shop.names("A"))

    # What was planned is finished, with the stream that is no longer selected.
    assert _flat(query.rows()) == rows[3:]
    query.commit()
    shop.publish("B", "1")
    assert _step(query) == [(f"{shop.prefix}A", 4)]
    query.restart(**first_life)
    assert _step(query) == [(f"{shop.prefix}B", 4)]


def test_a_read_by_subject_continues_with_its_stream_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_stream, "PASS_S", 0.0)
    shop.fill("A", 3)
    shop.fill("B", 3)
    query = shop.query("A", "B")
    query.step()
    shop.publish("B", "1")
    late = shop.publish("A", "1")
    del query._options["streams"]

    query.restart(subject=f"{shop.prefix}A.>")

    assert _step(query) == late
    # Not passed either, although its new message does not match.
    assert query.places()[f"{shop.prefix}B"]["next"] == 4


def test_a_checkpoint_of_other_streams_is_refused(shop: Shop) -> None:
    shop.fill("A", 3)
    shop.fill("B", 3)
    query = shop.query("A")
    query.step()

    query.restart(streams=shop.names("B"))

    with pytest.raises(OffsetRefused, match=r"offsets of \w+A, this query reads '\w+B'"):
        query.plan()


def test_a_stream_that_is_deleted_stops_the_query_by_default(shop: Shop) -> None:
    shop.fill("A", 3)
    shop.fill("B", 3)
    query = shop.query("A", "B", maxOffsetsPerTrigger="4")
    query.step()
    query.plan()
    shop.delete("B")

    with pytest.raises(DataLoss, match=r"stream '\w+B' was deleted: the messages of it that"):
        query.rows()
    query.restart(failOnDataLoss="false")
    # The partitions of the others keep their index.
    assert query.rows() == [[(f"{shop.prefix}A", 3)], []]
    query.commit()
    query.restart(failOnDataLoss="true")
    with pytest.raises(DataLoss, match=r"stream '\w+B' was deleted; the query has read it up to"):
        query.plan()
    query.restart(failOnDataLoss="false")
    assert _step(query) == []
    assert set(query.places()) == {f"{shop.prefix}A"}
    assert _step(query) == []
    again = shop.fill("B", 2)
    assert _step(query) == again


@pytest.mark.parametrize("chosen", ["streams", "streamPattern"])
def test_a_stream_that_is_created_again_follows_the_option(shop: Shop, chosen: str) -> None:
    shop.fill("A", 3)
    shop.fill("B", 3)
    selected = shop.names("A", "B") if chosen == "streams" else f"{shop.prefix}[AB]"
    query = shop.query(**{chosen: selected})
    query.step()
    shop.delete("B")
    rows = [*shop.publish("A", "1"), *shop.fill("B", 5)]

    query.restart()
    with pytest.raises(DataLoss, match=r"'\w+B' was created again"):
        query.plan()
    query.restart(onRecreate="earliest")

    assert _step(query) == rows


def test_limits_are_shared_and_no_stream_waits_for_the_backlog_of_another(shop: Shop) -> None:
    rows = [*shop.fill("A", 50), *shop.fill("B", 5)]
    query = shop.query("A", "B", maxOffsetsPerTrigger="11")

    first = _step(query)
    rest = [_step(query) for _ in range(5)]

    assert Counter(name[-1] for name, _ in first) == {"A": 10, "B": 1}
    assert all(len(one) <= 11 for one in rest)
    assert sorted([*first, *(row for one in rest for row in one)]) == sorted(rows)


def test_available_now_ends_where_all_streams_were(shop: Shop) -> None:
    rows = [*shop.fill("A", 10), *shop.fill("B", 3)]
    query = shop.query(streamPattern=f"{shop.prefix}.*", maxOffsetsPerTrigger="6")
    query.available_now()
    shop.publish("A", "late")
    shop.fill("LATE", 3)

    read = [_step(query) for _ in range(5)]

    assert [len(one) for one in read] == [6, 6, 1, 0, 0]
    assert sorted(row for one in read for row in one) == sorted(rows)
    query.restart()
    query.available_now()
    assert len(_step(query)) == 4


def test_the_lag_is_shown_for_each_stream(shop: Shop) -> None:
    shop.fill("A", 10)
    shop.fill("B", 3)
    query = shop.query("A", "B", maxOffsetsPerTrigger="4")
    query.step()
    progress = {
        "sources": [
            {
                "endOffset": json.loads(query.ends[-1]),
                "latestOffset": query.reader.reportLatestOffset(),
            }
        ]
    }

    shown = {one.stream[-1]: (one.next, one.behind) for one in lag(progress)}

    assert shown == {"A": (4, 7), "B": (2, 2)}


def test_committed_messages_of_each_stream_are_purged_on_request(shop: Shop) -> None:
    shop.fill("A", 4)
    shop.fill("B", 4)
    query = shop.query("A", "B", onCommit="purge", maxOffsetsPerTrigger="4")
    query.plan()
    query.rows()
    query.commit()
    query.plan()

    query.reader.commit(json.loads(query.ends[0]))
    left = shop.batch(streams=shop.names("A", "B"))
    query.rows()
    query.commit()
    # Spark does not report the last commit of a run; the next run releases it.
    query.restart()
    assert not query.plan()

    assert _flat(left) == [(f"{shop.prefix}{name}", seq) for name in "AB" for seq in (3, 4)]
    assert _flat(shop.batch(streams=shop.names("A", "B"))) == []


@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_between_lives_each_message_is_read_once(shop: Shop, seed: int) -> None:
    """Streams come, grow and are left out for a while; limits, cores and kills at random."""
    rng = random.Random(seed)
    truth: list[Row] = []
    read: list[Row] = []
    alive: list[str] = []
    query = shop.query(streamPattern=f"{shop.prefix}.*")
    for _ in range(40):
        match rng.randrange(5):
            case 0 if len(alive) < 5:
                alive.append(f"S{len(alive)}")
                truth += shop.fill(alive[-1], rng.randrange(6))
            case 1 | 2 if alive:
                truth += shop.publish(rng.choice(alive), *("abc"[: rng.randint(1, 3)]))
            case 3:
                chosen = rng.choice([".*", ".*", "S[0-9]", "S[02]", "S[1-9]"])
                query.restart(
                    streamPattern=shop.prefix + chosen,
                    minPartitions=str(rng.randint(1, 6)),
                    maxOffsetsPerTrigger=str(rng.randint(1, 9)),
                )
            case _:
                pass
        try:
            if len(query.ends) == query.committed:
                query.plan()
        except OffsetRefused:
            # The pattern selects nothing of what was read so far.
            query.restart(streamPattern=shop.prefix + ".*")
            continue
        if len(query.ends) == query.committed:
            continue
        first = query.rows()
        if rng.random() < 0.3:
            query.restart(minPartitions=str(rng.randint(1, 6)))
            assert query.rows() == first
        read += _flat(first)
        query.commit()
    query.restart(streamPattern=shop.prefix + ".*", maxOffsetsPerTrigger="1000")
    while rows := _step(query):
        read += rows

    assert sorted(read) == sorted(truth)
