"""A project from `init` to its results with Spark's own runner (issue 8, "Pipelines").

Spark runs in a process of its own. What is written is compared by the sequence it came from, never
only counted.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="needs the extra pipelines")
pytest.importorskip("yaml", reason="needs the extra pipelines")

import pyarrow.dataset

from jetspark import sync
from jetspark.spark.pipelines.template import write_project

# Both commands in one process: the second finds the JVM of the first running.
CHECK_AND_RUN = """
import sys
from jetspark.cli.main import main
project, server = sys.argv[1:]
common = ["--project", project, "--master", "local[2]", "--json"]
fast = ["--conf", "spark.sql.catalogImplementation=in-memory"]
fast += ["--conf", "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1"]
main(["pipeline", "dry-run", *common], standalone_mode=False)
main(["pipeline", "run", "--server", server, "--samples", *common, *fast], standalone_mode=False)
main(["pipeline", "status", "--server", server, "--json", "--project", project],
     standalone_mode=False)
"""


def rows_of(table: Path, *columns: str) -> list[dict[str, Any]]:
    found = pyarrow.dataset.dataset(table, format="parquet").to_table(columns=list(columns))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def due(samples: list[bytes]) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """Orders by the first sequence that has them, and the sequences of what is none."""
    orders: dict[int, dict[str, Any]] = {}
    refused: set[int] = set()
    ids: set[int] = set()
    for seq, payload in enumerate(samples, start=1):
        try:
            order = json.loads(payload)
        except ValueError:
            refused.add(seq)
            continue
        if order["amount"] < 0:
            refused.add(seq)
        elif order["id"] not in ids:
            ids.add(order["id"])
            orders[seq] = order
    return orders, refused


def test_a_new_project_is_checked_run_and_has_caught_up(tmp_path: Path) -> None:
    root = write_project("shop", tmp_path)
    with sync.Server() as server, sync.connect(server.client_url) as client:
        done = subprocess.run(
            [sys.executable, "-c", CHECK_AND_RUN, str(root), server.client_url],
            stdout=subprocess.PIPE,
            text=True,
            timeout=170,
            check=True,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
        js = client.jetstream()
        samples = [bytes(one.data) for one in js.stream("ORDERS").get_batch(seq=1)]
        alerts = [json.loads(one.data) for one in js.stream("ALERTS").get_batch(seq=1)]
        bucket = js.key_value("TOTALS")
        totals = {key: json.loads(bucket.get(key).value) for key in bucket.keys()}  # noqa: SIM118

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    orders, refused = due(samples)
    kept = rows_of(root / "warehouse/orders", "seq", "id", "region", "amount")
    by_region: dict[str, list[float]] = {}
    for order in orders.values():
        by_region.setdefault(order["region"], []).append(order["amount"])
    assert {"event": "told", "text": "The project is valid."} in lines
    assert {"event": "told", "text": "The pipeline has caught up."} in lines
    # Of an order that was published twice either copy may stay: compared by its content.
    assert Counter((row["id"], row["region"], row["amount"]) for row in kept) == Counter(
        (order["id"], order["region"], order["amount"]) for order in orders.values()
    )
    for row in kept:
        assert json.loads(samples[row["seq"] - 1])["id"] == row["id"]
    assert Counter(row["seq"] for row in rows_of(root / "warehouse/refused", "seq")) == Counter(
        refused
    )
    assert totals == {
        region: {"orders": len(amounts), "amount": round(sum(amounts), 2)}
        for region, amounts in by_region.items()
    }
    assert Counter((one["seq"], one["id"]) for one in alerts) == Counter(
        (row["seq"], row["id"]) for row in kept if row["amount"] >= 900
    )
    revenue = rows_of(root / "warehouse/revenue", "region", "orders", "amount")
    assert {row.pop("region"): row for row in revenue} == totals
    flows = {flow["flow"]: flow for flow in lines[-1]["flows"]}
    assert flows["orders"]["sources"][0]["lag"] == 0
    assert flows["publish_alerts"]["ledger"]["epoch"] == flows["publish_alerts"]["committed_epoch"]
