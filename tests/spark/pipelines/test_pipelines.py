"""A project from `init` to its results with Spark's own runner.

On the released server; Spark runs in a process of its own. The project is run, continues, and is
refreshed in part (docs/pipelines.md). In ``make torture``, which sets ``JETSPARK_WHOLE_PIPELINE``,
a run before is ended inside a micro-batch, in a process that ends with it, and all
tables are refreshed in the end. What is written is compared by the sequence it came from, never
only counted.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.warehouse import rows_of, seqs_of

pytest.importorskip("grpc", reason="needs the extra pipelines")
pytest.importorskip("yaml", reason="needs the extra pipelines")


from jetspark import sync
from jetspark.spark.pipelines.template import write_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.conftest import NatsServer

COMMON = """
import json, os, signal, sys, threading, time
from pathlib import Path
from jetspark import sync
from jetspark.cli.main import main
from tests.support.warehouse import seqs_of

root, server = Path(sys.argv[1]), sys.argv[2]
settings = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "1",
    # On a busy machine a source that takes more than 10 s to start is a failure.
    "spark.sql.pipelines.maxFlowRetryAttempts": "10",
}
confs = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]

def pipeline(command, *arguments):
    try:
        main(["pipeline", command, "--project", str(root), "--json", *arguments])
    except SystemExit as ended:
        print(json.dumps({"event": "ended", "code": ended.code or 0}), flush=True)

def run(*arguments):
    pipeline("run", "--server", server, "--master", "local[2]", *confs, *arguments)

def interrupt():
    while not (root / "begun").exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)

"""

CHECKED = """
pipeline("dry-run", "--master", "local[2]")
assert not (root / "storage").exists() and not (root / "warehouse").exists()
"""

# Ended with the process: Spark stops on its own, or is not waited for any longer.
INTERRUPTED = """
(root / "waits").touch()
threading.Thread(target=interrupt, daemon=True).start()
main(["pipeline", "run", "--project", str(root), "--json", "--server", server, "--samples",
      "--master", "local[2]", *confs])
"""

RUN = """
run()
"""

FIRST_RUN = """
run("--samples")
"""

# All commands in one process: each but the first finds the JVM running.
GOING_ON = """
pipeline("status", "--server", server)

with sync.connect(server) as client:
    for payload in (b"no order", b'{"id": 1001, "region": "south", "amount": 950.0}'):
        client.jetstream().publish("orders.south", payload)
run("--full-refresh", "refuse")  # not a name of this project
before = {name: seqs_of(root / "warehouse" / name) for name in ("orders", "refused")}
run("--full-refresh", "refused", "--refresh", "revenue")
assert seqs_of(root / "warehouse/orders") == before["orders"]
assert seqs_of(root / "warehouse/refused") == [*before["refused"], 201]
"""

# Every table again, which takes as long as all the other commands together.
FULL_REFRESH = """
run("--full-refresh-all")
"""

# Next to what `init` writes: a function that waits on request, and a setting it runs with.
SLOW = """
import time
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import functions as f
from jetspark.spark import connection_options, expect, observed

ROOT = Path({root!r})


@f.udf("long")
def slowly(seq):
    if (ROOT / "waits").exists():
        (ROOT / "begun").touch()
        while (ROOT / "waits").exists():
            time.sleep(0.05)
    return seq


@dp.table
def copies():
    orders = spark.readStream.table("orders")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    rows = orders.select(slowly("seq").alias("seq"), f.lit(partitions).alias("partitions"))
    # A function cannot find out the columns of its rows from Spark.
    return observed(expect(rows, {{"stored": "seq > 0"}}).valid, "copied")
"""


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


def end_within_a_micro_batch(root: Path, url: str) -> str:
    """Run until SIGTERM ends the process; return what it said."""
    stopped = in_process(COMMON + CHECKED + INTERRUPTED, root, url)
    assert stopped.returncode == 143, stopped.stdout + stopped.stderr
    assert "jetspark: stopped by SIGTERM; the next run continues from here" in stopped.stderr
    (root / "waits").unlink()
    return stopped.stdout


def in_process(commands: str, root: Path, url: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", commands, str(root), url],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )


@pytest.mark.timeout(1300)
def test_a_new_project_is_checked_run_and_refreshed(
    tmp_path: Path, start_nats: "Callable[..., NatsServer]"
) -> None:
    root = write_project("shop", tmp_path)
    (root / "transformations/slow.py").write_text(SLOW.format(root=str(root)))
    # A full refresh publishes alerts again, which have ids of their own: within it they are known.
    resources = root / "jetspark.yml"
    resources.write_text(
        resources.read_text().replace("duplicate_window: 2m", "duplicate_window: 1h")
    )
    server = start_nats()
    if whole := bool(os.environ.get("JETSPARK_WHOLE_PIPELINE")):
        said = end_within_a_micro_batch(root, server.url)
        commands = COMMON + RUN + GOING_ON + FULL_REFRESH
    else:
        said = ""
        commands = COMMON + CHECKED + FIRST_RUN + GOING_ON
    done = in_process(commands, root, server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    with sync.connect(server.url) as client:
        js = client.jetstream()
        samples = [bytes(one.data) for one in js.stream("ORDERS").get_batch(seq=1)]
        published = list(js.stream("ALERTS").get_batch(seq=1))
        alerts = [json.loads(one.data) for one in published]
        bucket = js.key_value("TOTALS")
        totals = {key: json.loads(bucket.get(key).value) for key in bucket.keys()}  # noqa: SIM118

    # A sequence alone would be another order's after ORDERS was created again: a lost alert.
    assert [one.headers["Nats-Msg-Id"] for one in published] == [
        f"ORDERS:{one['seq']}:{one['id']}" for one in alerts
    ]
    lines = [json.loads(line) for line in (said + done.stdout).splitlines()]
    codes = [line["code"] for line in lines if line.get("event") == "ended"]
    # The run that named a table that does not exist.
    assert codes == [0] * 3 + [1] + [0] * (2 if whole else 1)
    assert "names 'refuse', which the project does not define: expected one of" in done.stderr
    # The order that came after the first run is only in what was refreshed since.
    orders, refused = due(samples if whole else samples[:-1])
    kept = rows_of(root / "warehouse/orders", "seq", "id", "region", "amount")
    by_region: dict[str, list[float]] = {}
    for order in orders.values():
        by_region.setdefault(order["region"], []).append(order["amount"])
    assert len(samples) == 202
    assert {"event": "notice", "text": "The project is valid."} in lines
    assert {"event": "notice", "text": "The pipeline has caught up."} in lines
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
    copies = rows_of(root / "warehouse/copies", "seq", "partitions")
    assert sorted(row["seq"] for row in copies) == seqs_of(root / "warehouse/orders")
    # The option --conf wins over the spec.
    assert {row["partitions"] for row in copies} == {"1"}
    (status,) = [line for line in lines if "flows" in line]
    flows = {flow["flow"]: flow for flow in status["flows"]}
    assert flows["orders"]["sources"][0]["lag"] == 0
    assert flows["publish_alerts"]["ledger"]["epoch"] == flows["publish_alerts"]["committed_epoch"]
