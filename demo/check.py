"""The third part of the demo: every event is accounted for by its sequence.

The stream itself is the reference. Spark reads back what it wrote; every row names its origin, and
origins are compared one by one, not only counted.
"""

import json
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from demo.events import ALERT_CENTS, Event
from jetspark import sync

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass
class Account:
    """The events in the stream, and what became of them."""

    events: int = 0
    kept: int = 0
    refused: int = 0
    copies: int = 0
    alerts: int = 0
    areas: int = 0
    problems: list[str] = field(default_factory=list)
    totals_now: dict[str, dict[str, int]] = field(default_factory=dict)
    totals_then: dict[str, dict[str, int]] = field(default_factory=dict)


def account_for(
    spark: "SparkSession", url: str, warehouse: Path, revision: int, then: dict[str, bytes]
) -> Account:
    """Compare the stream with the table, the bucket and the alerts, row by row."""
    account = Account()
    rows = (
        # Not the files of the folder but those in its log: a killed task leaves files.
        spark.read.parquet(str(warehouse / "events"))
        .select("seq", "id", "kind", "region", "cents")
        .toArrow()
    )
    with sync.connect(url, name="jetspark demo check") as client:
        js = client.jetstream()
        ids, alerts_due = _truth(js, account)
        totals_due = _check_rows(rows, ids, alerts_due, account)
        _check_alerts(js, alerts_due, account)
    _check_totals(spark, url, totals_due, account)
    _check_past(spark, url, revision, then, account)
    account.copies = account.events - account.kept - account.refused
    return account


def _truth(js: sync.JetStream, account: Account) -> tuple["array[int]", set[int]]:
    """Read the stream: the id of the event at each sequence (-1: none), and the alerts."""
    decode = msgspec.json.Decoder(Event).decode
    ids = array("q", [-1])  # sequences start at 1
    alerts: set[int] = set()
    for chunk in js.stream("EVENTS").scan(columns=("data",)):
        for seq, payload in zip(chunk.sequences, chunk.data, strict=True):
            if seq != len(ids):
                account.problems.append(f"the stream has no sequence {len(ids)}")
                ids.extend([-1] * (seq - len(ids)))
            try:
                event = decode(payload)
            except msgspec.DecodeError:
                ids.append(-1)
                continue
            ids.append(event.id)
            if event.cents >= ALERT_CENTS and event.kind == "order":
                alerts.add(seq)
    account.events = len(ids) - 1
    return ids, alerts


def _check_rows(
    rows: "pa.Table", ids: "array[int]", alerts: set[int], account: Account
) -> dict[str, list[int]]:
    """Compare the table with the stream; return the totals that follow from it.

    ``alerts`` loses the sequences of dropped duplicates: of equal events any one may be kept.
    """
    times_seen = bytearray(len(ids))
    ids_seen: set[int] = set()
    totals: dict[str, list[int]] = {}
    wrong = twice = 0
    columns = [rows.column(name).to_pylist() for name in ("seq", "id", "kind", "region", "cents")]
    for seq, number, kind, region, cents in zip(*columns, strict=True):
        if not 0 < seq < len(ids) or times_seen[seq]:
            wrong += 1
            continue
        times_seen[seq] = 1
        if kind == "refused":
            wrong += ids[seq] != -1
            account.refused += 1
            continue
        wrong += ids[seq] != number
        twice += number in ids_seen
        ids_seen.add(number)
        account.kept += 1
        total = totals.setdefault(f"{region}.{kind}", [0, 0])
        total[0] += 1
        total[1] += cents
    lost = 0
    for seq in range(1, len(ids)):
        if not times_seen[seq]:
            # Dropped: correct only for a duplicate of an event that was kept.
            lost += ids[seq] not in ids_seen
            alerts.discard(seq)
    for count, what in (
        (wrong, "rows name a duplicate sequence, or not its event"),
        (twice, "events are duplicated in the table"),
        (lost, "events are lost"),
    ):
        if count:
            account.problems.append(f"{count} {what}")
    return totals


def _check_alerts(js: sync.JetStream, due: set[int], account: Account) -> None:
    found: Counter[int] = Counter()
    for chunk in js.stream("ALERTS").scan(columns=("data",)):
        found.update(int(json.loads(payload)["seq"]) for payload in chunk.data)
    account.alerts = found.total()
    if found != Counter(due):
        lost = len(due - found.keys())
        extra = (found - Counter(due)).total()
        account.problems.append(f"of {len(due)} alerts {lost} are lost, {extra} are unexpected")


def _check_totals(
    spark: "SparkSession", url: str, due: dict[str, list[int]], account: Account
) -> None:
    account.totals_now = _read_totals(spark, {"servers": url, "bucket": "TOTALS"})
    account.areas = len(account.totals_now)
    wanted = {
        key: {"events": events, "cents": cents} for key, (events, cents) in sorted(due.items())
    }
    if account.totals_now != wanted:
        account.problems.append("the totals in the bucket do not match the table")


def _check_past(
    spark: "SparkSession", url: str, revision: int, then: dict[str, bytes], account: Account
) -> None:
    """Read the bucket as it was while the driver was dead."""
    options = {"servers": url, "bucket": "TOTALS", "versionAsOf": str(revision)}
    account.totals_then = _read_totals(spark, options) if revision else {}
    if account.totals_then != {key: json.loads(value) for key, value in then.items()}:
        account.problems.append(f"the bucket as of revision {revision} has changed")


def _read_totals(spark: "SparkSession", options: dict[str, str]) -> dict[str, Any]:
    rows = spark.read.format("nats_kv").options(**options).load().select("key", "value").collect()
    return {row.key: json.loads(bytes(row.value)) for row in sorted(rows)}
