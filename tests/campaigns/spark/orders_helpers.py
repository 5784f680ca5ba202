"""Steps that call functions of ``jetspark.spark``: what they did, and what a model says.

Each method returns triples of a name, what was found, and what is due. The models are naive: a
dictionary for a bucket, plain SQL over the Parquet copy for expectations and lookups.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.campaigns.spark.orders_steps import (
    Expect,
    LookUp,
    Merge,
    Route,
    Schedule,
    Tables,
)
from tests.campaigns.spark.orders_world import (
    BUCKETS,
    KEYS,
    MERGED,
    OTHER,
    STORE,
    STREAMS,
    TARGET,
    TIMED,
    Message,
    World,
)

from jetspark.headers.block import decode_headers
from jetspark.spark import (
    expect,
    kv_lookup,
    kv_merge,
    progress_view,
    publish_progress,
    register_tables,
)

Result = tuple[str, Any, Any]


class Helpers:
    """The functions, over one world."""

    def __init__(self, spark: SparkSession, world: World, folder: Path) -> None:
        self._spark = spark
        self._world = world
        self._folder = folder

    def over_frame(
        self, step: LookUp | Expect | Route, ours: DataFrame, copy: DataFrame
    ) -> list[Result]:
        """Run a step over a DataFrame of ours, and over its copy."""
        match step:
            case LookUp():
                return list(self._look_up(step, ours, copy))
            case Expect():
                return list(self._expect(step, ours, copy))
            case Route():
                return list(self._route(step, ours, copy))

    def _look_up(self, step: LookUp, ours: DataFrame, copy: DataFrame) -> Iterator[Result]:
        key = f.expr(step.key)
        found = kv_lookup(key, step.bucket, max_staleness=step.staleness, servers=self._world.url)
        rows = ours.select(key.alias("k"), found.alias("found"))
        got = Counter(
            (row.k, None if row.found is None else (bytes(row.found.value), row.found.revision))
            for row in rows.collect()
        )
        values = self._world.values(step.bucket)
        due: Counter[Any] = Counter()
        for row in copy.select(key.alias("k")).collect():
            value = values.get(row.k)
            due[row.k, None if value is None else (value.data, value.seq)] += 1
        yield "kv_lookup", got, due

    def _expect(self, step: Expect, ours: DataFrame, copy: DataFrame) -> Iterator[Result]:
        rules = {name: self._world.resolve(rule) for name, rule in step.rules.items()}
        parts = expect(ours, rules, name="orders")
        holds = {name: f"coalesce(({rule}), false)" for name, rule in rules.items()}
        bad = [f"IF({test}, NULL, '{name}')" for name, test in holds.items()]
        listed = f.expr(f"filter(array({', '.join(bad)}), one -> one IS NOT NULL)")
        marked = copy.withColumn("_violations", listed)
        everything = " AND ".join(holds.values())
        for name, got, due in (
            ("valid", parts.valid, copy.where(everything)),
            ("quarantined", parts.quarantined, marked.where(f"NOT ({everything})")),
            ("marked", parts.marked, marked),
        ):
            yield f"expect, {name}", _counted(got), _counted(due)
        violated = copy.where(f"NOT ({everything})").count()
        try:
            got_rows: Any = _counted(parts.required)
        except Exception as error:  # noqa: BLE001 - compared below
            got_rows = "is violated by" in str(error)
        yield "expect, required", got_rows, True if violated else _counted(copy)

    def _route(self, step: Route, ours: DataFrame, copy: DataFrame) -> Iterator[Result]:
        """Write the rows twice as one transaction."""
        due: Counter[Any] = Counter()
        for row in _routed(step, copy).collect():
            ttl = row.ttl if step.ttl else None
            due[row.stream, row.subject, row.data.encode(), ttl] += 1
        app = f"{step.app}-{time.time_ns()}"
        for _ in range(2):
            writer = _routed(step, ours).write.format("jetstream").mode("append")
            writer = writer.options(servers=self._world.url, streams=f"{TARGET},{OTHER}")
            writer.options(txnAppId=app, txnVersion="1").save()
        got: Counter[Any] = Counter()
        for target in (TARGET, OTHER):
            for one in self._world.absorb(target):
                got[target, one.subject, one.data, _ttl(one)] += 1
        yield "rows for several streams", got, due

    def merge(self, step: Merge) -> list[Result]:
        """Merge rows into a bucket, as the model does."""
        rows, due, counts, conflicts = modelled(self._world.values(step.bucket), step)
        frame = self._spark.createDataFrame(
            rows, "key string, value string, operation string, expected_revision long"
        )
        report = kv_merge(
            frame,
            step.bucket,
            when_matched=step.matched,
            when_not_matched=step.not_matched,
            servers=self._world.url,
        )
        refused = {row.key: row.revision for row in report.conflicts.collect()}
        self._world.absorb(step.bucket)
        values = self._world.values(step.bucket)
        return [
            (
                "kv_merge, counts",
                {"written": report.written, "deleted": report.deleted, "ignored": report.ignored},
                counts,
            ),
            ("kv_merge, conflicts", refused, conflicts),
            ("kv_merge, values", {key: one.data for key, one in values.items()}, due),
            ("kv_merge, read back", self._world.contents(step.bucket), due),
        ]

    def tables(self, step: Tables) -> list[Result]:
        """Count every view that was registered."""
        world = self._world
        for target in (TARGET, OTHER):
            world.absorb(target)
        made = register_tables(
            self._spark, servers=world.url, like="*[oO][rR][dD]*", prefix=step.prefix
        )
        names = [*STREAMS, TARGET, OTHER, TIMED, f"obj_{STORE}", f"kv_{MERGED}"]
        names += [f"kv_{bucket}" for bucket in BUCKETS]
        # Other programs may use the same server.
        due_names = sorted(step.prefix + name for name in names)
        found_names = sorted(name for name in made if name in due_names)
        results: list[Result] = [("register_tables", found_names, due_names)]
        due = {name: len(world.logs[name].stored) for name in (*STREAMS, TARGET, OTHER)}
        due |= {f"kv_{bucket}": len(world.values(bucket)) for bucket in BUCKETS}
        due[f"obj_{STORE}"] = len(world.objects)
        for name, count in due.items():
            found = self._spark.sql(f"SELECT count(*) FROM `{step.prefix}{name}`").collect()
            results.append((f"view {name}", found[0][0], count))
        for name in made:
            self._spark.catalog.dropTempView(name)
        return results

    def schedule(self, step: Schedule) -> list[Result]:
        """Write rows that are due in a second, and wait for what they publish."""
        due_at = datetime.now(UTC) + timedelta(seconds=1)
        rows = [
            (f"{TIMED}.plan.{step.flow}.{n}", str(n), f"{TIMED}.out.{step.flow}.{n % 2}", due_at)
            for n in range(step.count)
        ]
        columns = "subject string, data string, schedule_target string, schedule timestamp"
        frame = self._spark.createDataFrame(rows, columns)
        writer = frame.write.format("jetstream").mode("append")
        writer.options(servers=self._world.url, stream=TIMED).save()
        got = self._world.wait_for(TIMED, f"{TIMED}.out.{step.flow}", step.count, 30.0)
        early = datetime.now(UTC) < due_at
        due = Counter((target, data.encode()) for _, data, target, _ in rows)
        return [("schedules", got, due), ("published before its time", early, False)]


class Watched:
    """The reports of one run of a query: published, received and added up."""

    def __init__(self, spark: SparkSession, world: World, name: str) -> None:
        subject = f"ordprogress.{name}"
        self._world = world
        self._received = world.subscribe(subject)
        self._publisher = publish_progress(spark, subject, servers=world.url)

    def problem(self, query: Any) -> str:
        """Return what is wrong with the reports of an ended query; empty: nothing."""
        wanted = sum(one["numInputRows"] for one in query.recentProgress)
        deadline = time.monotonic() + 60
        reports: list[dict[str, Any]] = []
        while time.monotonic() < deadline:
            reports += [json.loads(one) for one in self._more()]
            ours = [one for one in reports if one["runId"] == str(query.runId)]
            if any(one["event"] == "terminated" for one in ours):
                break
        self.close()
        rows = sum(one["rows"] for one in ours if one["event"] == "progress")
        if rows != wanted or ours[0]["event"] != "started" or ours[-1]["event"] != "terminated":
            return f"published progress has {rows} rows instead of {wanted}: {ours}"
        shown = repr(progress_view(query)), progress_view(query)._repr_html_()
        if query.recentProgress and not all("micro-batch" in one for one in shown):
            return f"progress_view shows {shown}"
        return ""

    def close(self) -> None:
        """Stop publishing and receiving."""
        self._publisher.close()
        self._received.unsubscribe()

    def _more(self) -> list[bytes]:
        from jetspark.errors import Error

        found: list[bytes] = []
        try:
            while True:
                found.append(self._received.next(timeout=0.3).data)
        except Error:
            return found


def modelled(
    values: dict[str, Message], step: Merge
) -> tuple[list[Any], dict[str, bytes], dict[str, int], dict[str, int | None]]:
    """Make rows from a seed; what the bucket, the counts and the conflicts must then be."""
    dice = random.Random(step.seed)
    rows: list[Any] = []
    due = {key: message.data for key, message in values.items()}
    counts = dict.fromkeys(("written", "deleted", "ignored"), 0)
    conflicts: dict[str, int | None] = {}
    for key in dice.sample((*KEYS, "new.1", "new.2"), dice.randrange(1, 8)):
        operation = dice.choice((None, None, None, "PUT", "DEL", "PURGE"))
        has = values[key].seq if key in values else 0
        expected = dice.choice((None, None, None, has, has + 1, 0))
        value = f"m{dice.randrange(1000)}"
        rows.append((key, value, operation, expected))
        if expected is not None and expected != has:
            conflicts[key] = has or None
            continue
        action = step.matched if has else step.not_matched
        action = {"PUT": "update", "DEL": "delete", "PURGE": "delete"}.get(operation or "", action)
        if action == "ignore" or (action == "delete" and not has):
            counts["ignored"] += 1
        elif action == "delete":
            counts["deleted"] += 1
            del due[key]
        else:
            counts["written"] += 1
            due[key] = value.encode()
    return rows, due, counts, conflicts


def merger(url: str, flow: str) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that keeps the highest number of each key."""

    def merge(batch: DataFrame, _number: int) -> None:
        rows = batch.groupBy("key").agg(f.max("number").cast("string").alias("value"))
        report = kv_merge(
            rows.select(f.concat(f.lit(f"{flow}."), "key").alias("key"), "value"),
            "ordmerged",
            servers=url,
        )
        assert report.conflicts.count() == 0, report

    return merge


def newest_of(flow: str, rows: "Counter[Any]") -> "Counter[Any]":
    """Return what such merges leave of all rows (key, number)."""
    newest: dict[str, int] = {}
    for key, number in rows:
        newest[key] = max(number, newest.get(key, 0))
    return Counter({(f"{flow}.{key}", str(n).encode()): 1 for key, n in newest.items()})


def _routed(step: Route, frame: DataFrame) -> DataFrame:
    number = f"coalesce(CAST({step.number} AS BIGINT), 0)"
    stream = f"IF({number} % 3 = 0, '{TARGET}', '{OTHER}')"
    columns = [
        f"{stream} AS stream",
        f"concat({stream}, '.r.{step.app}.', {number} % 5) AS subject",
        f"CAST({number} AS STRING) AS data",
    ]
    if step.ttl:
        columns.append(f"IF({number} % 2 = 0, '1h', NULL) AS ttl")
    return frame.selectExpr(*columns)


def _ttl(message: Message) -> str | None:
    if not message.block:
        return None
    return dict(decode_headers(message.block).items()).get("Nats-TTL")


def _counted(frame: DataFrame) -> "Counter[Any]":
    return Counter(_plain(tuple(row)) for row in frame.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(one)) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    return bytes(value) if isinstance(value, bytearray) else value
