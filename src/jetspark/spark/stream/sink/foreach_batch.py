"""Exactly-once writes from ``foreachBatch``."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from jetspark.spark.stream.options import FORMAT_NAME
from jetspark.spark.stream.sink.options import parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def foreach_batch_writer(app_id: str, **options: str) -> "Callable[[DataFrame, int], None]":
    """Return a function for ``DataStreamWriter.foreachBatch`` that stores each batch exactly once.

    ``app_id`` names the query in the ledger: keep it as long as the checkpoint, and choose another
    with a new checkpoint, whose batches are counted from 0 again. ``options`` are those of a batch
    write of format ``jetstream``. Inside your own function call it for each stream:

        store = foreach_batch_writer("orders", servers=url, stream="ORDERS")

        def each(rows, batch_id):
            rows = rows.persist()
            store(rows.select("subject", "data"), batch_id)
            ...

    A batch that Spark runs again, with the rows in any partitions, stores nothing twice; with
    other rows it is refused. Two writes to the same stream need two ``app_id``.
    """
    for name in ("txnAppId", "txnVersion"):
        if name.lower() in {given.lower() for given in options}:
            raise ValueError(f"{name} is set for each batch: leave it out, and give app_id")
    # What is wrong is said here, not by the first micro-batch.
    given = {name: str(value) for name, value in options.items()}
    parse_sink_options({**given, "txnAppId": app_id, "txnVersion": "0"}, streaming=False)

    def write(rows: "DataFrame", batch_id: int) -> None:
        writer = rows.write.format(FORMAT_NAME).mode("append").options(**options)
        writer.options(txnAppId=app_id, txnVersion=str(batch_id)).save()

    return write
