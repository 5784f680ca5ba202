"""Spark's driver is killed in the middle of three queries, one for each strength (spark.md 6.4).

``python -m tests.campaigns.spark_kills`` fills a stream and copies it into three others: by
message ids (A), with a ledger (B), with markers (C). The process group of driver and JVM is killed
with SIGKILL while they write, several times, and started again from the checkpoints. In the end
the multiset of (origin, payload) in each copy must be that of the stream.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from jetspark import sync
from jetspark.api.stream import StreamConfig
from jetspark.client.jetstream.kv.config import KeyValueConfig

ROWS: Final = 40_000
PER_TRIGGER: Final = 2_000
LEDGER: Final = "LEDGER"
WRITES: Final = {
    "IDS": {},
    "LEDGERED": {"ledgerBucket": LEDGER},
    "MARKED": {"publishMode": "atomic", "ledgerSubject": "MARKED.ledger"},
}


def copy(url: str, folder: Path) -> None:
    """The job: three queries from their checkpoints to the end of the stream."""
    from pyspark.sql import functions as f

    from jetspark.spark import session

    spark = session("kills", master="local[2]", config={"spark.ui.enabled": "false"})
    source = spark.readStream.format("jetstream").options(servers=url, stream="ORIGIN")
    source = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(PER_TRIGGER))
    queries = []
    for target, options in WRITES.items():
        subject = f.concat(f.lit(f"{target}.row."), f.col("seq")).alias("subject")
        writer = source.load().select(subject, "data").writeStream.format("jetstream")
        writer = writer.options(servers=url, stream=target, **options)
        writer = writer.option("checkpointLocation", str(folder / target))
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
    spark.stop()


def campaign(url: str, folder: Path, kills: int) -> bool:
    """Run the job with ``kills`` kills; say what is stored and whether it is right."""
    with sync.connect(url) as client:
        jetstream = client.jetstream()
        _fill(jetstream)
        for number in range(1, kills + 2):
            last = number == kills + 1
            goal = ROWS * len(WRITES) * number // (kills + 2)
            code = _run(jetstream, url, folder, None if last else goal)
            _say(f"run {number}: {'ended' if last else 'killed'}, {_count(jetstream)} stored")
            if last and code:
                _say(f"the last run failed with {code}")
                return False
        verdicts = [_verdict(jetstream, target) for target in WRITES]
        return all(verdicts)


def _fill(jetstream: sync.JetStream) -> None:
    jetstream.create_key_value(KeyValueConfig(bucket=LEDGER))
    for name in ("ORIGIN", *WRITES):
        jetstream.create_stream(
            StreamConfig(
                name=name,
                subjects=(f"{name}.>",),
                allow_direct=True,
                allow_batched=True,
                allow_atomic=True,
            )
        )
    # Payloads repeat, so that an id made of the payload alone would lose rows.
    payloads = [b"%d" % (number % 1000) for number in range(ROWS)]
    with jetstream.fast_publisher() as publisher:
        publisher.extend(["ORIGIN.row"] * ROWS, payloads)


def _run(jetstream: sync.JetStream, url: str, folder: Path, goal: int | None) -> int:
    """Start the job; kill it when so much is stored, or let it end."""
    command = [sys.executable, "-m", "tests.campaigns.spark_kills", "--job", url, str(folder)]
    job = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while goal is not None and job.poll() is None:
        if _count(jetstream) >= goal:
            os.killpg(job.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    return job.wait()


def _count(jetstream: sync.JetStream) -> int:
    return sum(jetstream.stream(name).cached_info.state.messages for name in WRITES)


def _verdict(jetstream: sync.JetStream, target: str) -> bool:
    stored: Counter[tuple[int, bytes]] = Counter()
    for chunk in jetstream.stream(target).scan(filters=(f"{target}.row.*",)):
        for subject, payload in zip(chunk.subjects, chunk.payloads, strict=True):
            stored[int(subject.rpartition(".")[2]), payload] += 1
    due = Counter((number + 1, b"%d" % (number % 1000)) for number in range(ROWS))
    lost, extra = (due - stored).total(), (stored - due).total()
    _say(f"{target}: {stored.total()} of {ROWS} rows, {lost} lost, {extra} too many")
    return not lost and not extra


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the campaign on a server of its own, or on the one that ``--url`` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--url", default="")
    parser.add_argument("--job", nargs=2, metavar=("URL", "FOLDER"))
    arguments = parser.parse_args()
    if arguments.job:
        copy(arguments.job[0], Path(arguments.job[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if arguments.url:
            return 0 if campaign(arguments.url, Path(folder), arguments.kills) else 1
        with sync.Server(store_dir=f"{folder}/store") as server:
            return 0 if campaign(server.client_url, Path(folder), arguments.kills) else 1


if __name__ == "__main__":
    sys.exit(main())
