"""The Spark job of ``restarts``: several streaming queries from their checkpoints.

It runs in a process of its own, which is killed, and under any version of jetspark and Spark whose
checkpoints are to be continued: it imports nothing of this repository but ``jetspark.spark``.

``python -m tests.campaigns.spark.restart_job SPEC`` reads what to run from a JSON file and writes
into the same folder ``all-held``, once every query waits inside an epoch, or ``results.json``:
for each query null, or the error it ended with.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Flow = dict[str, Any]
"""One query: name, source (format and options), kind of sink and options, layout, hold."""

# A query that neither ends nor reaches its held epoch for so long is stuck.
PATIENCE_S = 240.0
# Spark waits ten seconds for the process of a source and has no setting for it. On a busy machine
# that is too short; the query has read and written nothing then.
START_FAILED = "Python worker failed to connect back"


def run(folder: Path, spec: dict[str, Any]) -> None:
    """Start all queries; wait for their ends, or to be killed."""
    from jetspark.spark import session, wait_for_source

    spark = session("restarts", master=spec["master"], config=spec["config"])
    queries: list[tuple[Flow, Any]] = []
    errors: dict[str, str | None] = {}
    for flow in spec["flows"]:
        try:
            query = start(spark, folder, flow)
            wait_for_source(query)
            while START_FAILED in str(query.exception()):
                query = start(spark, folder, flow)
                wait_for_source(query)
        except Exception as error:  # noqa: BLE001 - the text is the result
            errors[flow["name"]] = str(error)
            continue
        queries.append((flow, query))
        if flow["hold"]:
            wait_until_held(folder, flow, query)
    if any(flow["hold"] for flow in spec["flows"]):
        (folder / "all-held").touch()
    for flow, query in queries:
        try:
            query.awaitTermination()
            errors[flow["name"]] = None
        except Exception as error:  # noqa: BLE001 - the text is the result
            errors[flow["name"]] = str(error)
    unfinished = folder / "results.part"
    unfinished.write_text(json.dumps(errors))
    unfinished.rename(folder / "results.json")
    spark.stop()


def start(spark: Any, folder: Path, flow: Flow) -> Any:
    """Start one query to the end of what its source has now."""
    source = spark.readStream.format(flow["format"]).options(**flow["source"])
    frame = laid_out(rows_of(flow, source), flow["layout"])
    if flow["kind"] in {"batch", "parquet", "once", "merge"}:
        writer = frame.writeStream.foreachBatch(batch_function(folder, flow))
    else:
        held = with_hold(folder, flow, frame, None)
        writer = held.writeStream.format("nats_kv" if flow["kind"] == "kv" else "jetstream")
        writer = writer.options(**flow["sink"])
    writer = writer.option("checkpointLocation", flow["checkpoint"])
    return writer.trigger(availableNow=True).start()


def rows_of(flow: Flow, source: Any) -> Any:
    """Return the rows to write; their text is all that they are made of."""
    from pyspark.sql import functions as f

    column = {"jetstream": "data", "nats_kv": "value", "text": "value"}[flow["format"]]
    text = f.col(column).cast("string")
    if flow["kind"] in {"kv", "merge"}:
        return source.load().select(text.alias("key"), text.alias("value"))
    if flow["kind"] == "routed":
        names = [f.lit(name) for name in flow["sink"]["streams"].split(",")]
        # By the content, not by where the row is: a replay finds the same stream.
        stream = f.element_at(f.array(*names), f.length(text) % len(names) + 1)
        return source.load().select(
            stream.alias("stream"), f.concat(stream, f.lit(".row."), text).alias("subject"),
            text.alias("data"),
        )  # fmt: skip
    columns = [f.concat(f.lit(f"{flow['name']}.row."), text).alias("subject"), text.alias("data")]
    if flow["kind"] == "ids":
        # As with_msg_id, whose digest is another in each version: stream, sequence and content.
        columns.append(f.concat_ws(":", "stream", "seq", text).alias("msg_id"))
    return source.load().select(*columns)


def laid_out(frame: Any, layout: dict[str, int]) -> Any:
    """Spread rows over partitions as the user of this life wants them."""
    if "repartition" in layout:
        return frame.repartition(layout["repartition"])
    if "coalesce" in layout:
        return frame.coalesce(layout["coalesce"])
    if "shuffle" in layout:
        return frame.repartition("subject" if "subject" in frame.columns else "key")
    return frame


def batch_function(folder: Path, flow: Flow) -> Callable[[Any, int], None]:
    """Return what ``foreachBatch`` calls: a batch write that a second run replaces or repeats."""
    if flow["kind"] == "once":
        from jetspark.spark import exactly_once, file_table

        options = dict(flow["sink"])
        table = file_table(options.pop("path"))
        return exactly_once(
            f"restarts.{flow['name']}",
            lambda batch, run: table(with_hold(folder, flow, batch, run.id), run),
            **options,
        )

    def write(batch: Any, epoch: int) -> None:
        if flow["kind"] == "merge":
            merge_in_two_parts(folder, flow, batch, epoch)
            return
        held = with_hold(folder, flow, batch, epoch)
        if flow["kind"] == "parquet":
            held.write.mode("overwrite").parquet(f"{flow['sink']['path']}/epoch={epoch}")
            return
        writer = held.write.format("jetstream").options(**flow["sink"])
        writer = writer.option("txnAppId", flow["name"]).option("txnVersion", str(epoch))
        writer.mode("append").save()

    return write


def merge_in_two_parts(folder: Path, flow: Flow, batch: Any, epoch: int) -> None:
    """Merge the rows of an epoch into a bucket; only the second part waits to be killed."""
    from jetspark.spark import kv_merge

    # A key occurs once in a merge.
    rows = batch.dropDuplicates(["key"]).repartition(4)
    first = rows.where("length(key) % 2 = 0")
    for part in (first, with_hold(folder, flow, rows.where("length(key) % 2 = 1"), epoch)):
        report = kv_merge(part, **flow["sink"])
        assert report.conflicts.count() == 0, report


def with_hold(folder: Path, flow: Flow, frame: Any, epoch: int | None) -> Any:
    """Let one partition wait for ever in the epoch in which the job is to be killed."""
    if not flow["hold"]:
        return frame
    sign, first, partitions = str(held_file(folder, flow)), flow["hold_epoch"], flow["hold"]

    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path
        from time import sleep

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        asked = context.getLocalProperty("streaming.sql.batchId")
        now = epoch if epoch is not None else int(asked or 0)
        if now >= first and context.partitionId() in partitions:
            Path(sign).touch()
            while True:
                sleep(0.1)
        yield from batches

    return frame.mapInArrow(hold, frame.schema)


def wait_until_held(folder: Path, flow: Flow, query: Any) -> None:
    """Return when a task of the query waits; each has its slot before the next one starts."""
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive and not held_file(folder, flow).exists():
        assert time.monotonic() < deadline, f"{flow['name']} does not reach its held epoch"
        time.sleep(0.05)


def held_file(folder: Path, flow: Flow) -> Path:
    """Name the file by which a waiting task says so."""
    return folder / f"held-{flow['name']}"


if __name__ == "__main__":
    given = Path(sys.argv[1])
    run(given.parent, json.loads(given.read_text()))
