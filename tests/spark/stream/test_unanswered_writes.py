"""A write whose rows are not acknowledged: what its options limit, seen by who receives them."""

from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.types import StructType

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.errors import RequestTimeout
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.sync import retry

ROWS = 20


class Target(NamedTuple):
    """Where rows are written: a stream or a bucket."""

    stream: str
    subject: str
    columns: tuple[str, str]
    source: Any


def _target(jetstream: sync.JetStream, kind: str, url: str, options: dict[str, str]) -> Target:
    if kind == "stream":
        jetstream.create_stream(StreamConfig(name="MUTE", subjects=("MUTE.>",)))
        given = {"servers": url, "stream": "MUTE", "delivery": "at-least-once", **options}
        source: Any = JetStreamDataSource(options=given)
        return Target("MUTE", "MUTE.>", ("subject", "data"), source)
    jetstream.create_key_value(KeyValueConfig(bucket="MUTE"))
    source = KvDataSource(options={"servers": url, "bucket": "MUTE", **options})
    return Target("KV_MUTE", "$KV.MUTE.>", ("key", "value"), source)


@pytest.mark.usefixtures("task")
@pytest.mark.parametrize("streaming", [False, True], ids=["write", "writeStream"])
@pytest.mark.parametrize("kind", ["stream", "bucket"])
def test_rows_in_flight_attempts_and_the_wait_for_an_answer_are_limited(
    url: str,
    jetstream: sync.JetStream,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    streaming: bool,
) -> None:
    monkeypatch.setattr(retry, "RETRY_DELAY_S", 0.0)
    options = {"maxInFlight": "4", "retries": "2", "ackTimeoutMs": "150"}
    target = _target(jetstream, kind, url, options)
    schema = StructType().add(target.columns[0], "string").add(target.columns[1], "string")
    make = target.source.streamWriter if streaming else target.source.writer
    writer = make(schema, False)
    # From now on the rows have a receiver that does not answer.
    jetstream.delete_stream(target.stream)
    names = [f"MUTE.{number}" for number in range(ROWS)]
    rows = pa.RecordBatch.from_pydict({target.columns[0]: names, target.columns[1]: ["x"] * ROWS})

    with sync.connect(url) as client:
        received = client.subscribe(target.subject)
        client.flush()
        with pytest.raises(RequestTimeout, match=r"within 0\.15 s|in time") as refused:
            writer.write(iter([rows]))
        client.publish(target.subject.replace(">", "end"), b"")
        seen = 0
        while not received.next(timeout=20).subject.endswith(".end"):
            seen += 1

    # A row that has waited long enough may make room for another before the attempt ends; if the
    # machine is busy, twice. Without a limit there are 3 * ROWS.
    assert 3 * 4 <= seen <= 3 * 12 < 3 * ROWS
    advice = refused.value.__notes__[-1]  # the last line that Spark shows
    assert f"stream {target.stream!r} did not acknowledge rows within ackTimeoutMs=150" in advice
    assert "retries=2" in advice
