"""What identifies a user at the server does not show where Spark shows or keeps a query.

Plans, the pages of Spark's UI, the description of jobs, progress, errors, and the files of a
checkpoint. Credentials given as options are part of the plan; these are the places that show it.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jetspark.spark import register_tables

if TYPE_CHECKING:
    from tests.spark.conftest import Streams

PASSWORD = "hidden-7f3a"


def _plans(frame: DataFrame) -> str:
    """Return every form of a plan that Spark prints."""
    execution = cast("Any", frame)._jdf.queryExecution()
    modes = cast("Any", frame.sparkSession)._jvm.org.apache.spark.sql.execution.ExplainMode
    names = ("simple", "extended", "codegen", "cost", "formatted")
    return "\n".join(execution.explainString(modes.fromString(name)) for name in names)


def _pages(spark: SparkSession) -> str:
    """Return what the UI shows of all queries and jobs, and what an event log would have."""
    session = cast("Any", spark)._jsparkSession
    store = session.sharedState().statusStore()
    executions = store.executionsList()
    shown = [
        f"{one.description()} {one.details()} {one.physicalPlanDescription()} "
        f"{one.modifiedConfigs()}"
        for one in (executions.apply(index) for index in range(executions.size()))
    ]
    jobs = cast("Any", spark.sparkContext)._jsc.sc().statusStore().jobsList(None)
    shown += [str(jobs.apply(index).description()) for index in range(jobs.size())]
    return "\n".join(shown)


def _files(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file())


@pytest.mark.parametrize(
    "identity",
    [
        {"nats.user": "ann", "nats.password": PASSWORD},
        {"nats.token": PASSWORD},
        {"servers": f"nats://ann:{PASSWORD}@"},
    ],
    ids=["password", "token", "url"],
)
def test_credentials_show_in_no_plan_page_error_or_checkpoint(
    spark: SparkSession, streams: "Streams", tmp_path: Path, identity: dict[str, str]
) -> None:
    name = f"SECRETS{len(identity)}{'servers' in identity}"
    streams.fill(name, 5)
    address = streams.url.removeprefix("nats://")
    options = {**identity, "servers": identity.get("servers", "nats://") + address}
    options |= {"stream": name}
    read = spark.read.format("jetstream").options(**options).load()

    shown = [_plans(read.where("seq > 1")), str(read.count())]
    write = read.select("subject", "data").write.format("jetstream").options(**options)
    write.option("delivery", "at-least-once").mode("append").save()
    rows = spark.readStream.format("jetstream").options(**options)
    query = (
        rows.option("startingOffsets", "earliest")
        .load()
        .select("subject", "data")
        .writeStream.format("jetstream")
        .options(**options)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    shown.append(_of(query))
    if "servers" in identity:
        register_tables(spark, servers=options["servers"], like=name)
        shown.append(_plans(spark.table(name)))
    read.createOrReplaceTempView(f"own_{name}")
    told = ", ".join(f"'{one}' '{text}'" for one, text in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW told_{name} USING jetstream OPTIONS ({told})")
    for view in (f"own_{name}", f"told_{name}"):
        spark.sql(f"CACHE TABLE {view}")
        shown.append(_plans(spark.table(view)))
        spark.sql(f"DROP VIEW {view}")
    shown.append(_pages(spark))
    wrong = spark.read.format("jetstream").options(**options | {"stream": "NONE"}).load()
    with pytest.raises(Exception, match="NONE") as refused:
        wrong.count()
    shown.append(str(refused.value))

    assert query.exception() is None
    for text in shown:
        assert PASSWORD not in text
    assert PASSWORD.encode() not in _files(tmp_path)


def _of(query: StreamingQuery) -> str:
    plan = cast("Any", query)._jsq.explainInternal(True)
    return f"{plan} {[json.dumps(one, default=str) for one in query.recentProgress]}"
