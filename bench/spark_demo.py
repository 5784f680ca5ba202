"""The pipeline of `make demo` over a filled stream: how many events it cleans per second.

    python -m bench.spark_demo [--events N]

The stream is filled first; then all three flows of the demo run (Parquet without duplicates,
totals in a bucket, alerts), in one driver with local[2], next to the server on the same cores.
Printed are the events per second of the first flow's micro-batches, as `make demo` prints them,
without the first micro-batch, in which the JVM loads its classes; and the CPU time per event of
the driver, the JVM and the Python workers.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.servers import OURS
from bench.spark import ProcessTree, served
from demo.driver import Driver
from demo.events import messages
from demo.pipeline import CHUNK, FLOWS, Story

from jetspark import sync
from jetspark.spark.pipelines.project import load_project
from jetspark.spark.pipelines.resources import ensure_resources
from jetspark.spark.pipelines.template import write_files

DEADLINE_S = 220.0


class Batches:
    """The micro-batches of the first flow."""

    def __init__(self) -> None:
        self.story = Story()
        self.first: list[tuple[int, float]] = []
        self.others: dict[str, float] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Record an event of the pipeline."""
        self.story.take(event)
        if event.get("event") == "progress" and event["rows"]:
            if event["flow"] == FLOWS[0]:
                self.first.append((event["rows"], event["batch_seconds"]))
            else:
                spent = self.others.get(event["flow"], 0.0)
                self.others[event["flow"]] = spent + event["batch_seconds"]


def demo_case(events: int) -> None:
    """Run the pipeline once and print its rates."""
    batches = Batches()
    with tempfile.TemporaryDirectory() as folder, served(OURS) as url:
        root = Path(folder) / "pipeline"
        project = load_project(write_files("demo", "project", root, "demo"))
        with sync.connect(url) as client:
            js = client.jetstream()
            ensure_resources(js, project)
            for first in range(0, events, CHUNK):
                subjects, payloads = messages(first, min(first + CHUNK, events))
                with js.fast_publisher() as publisher:
                    publisher.extend(subjects, payloads)
        errors = Path(folder) / "driver.log"
        with Driver(root, url, errors, events, batches.take) as driver:
            tree = ProcessTree(driver.pid)
            driver.await_flows(len(FLOWS), lambda _started: None)
            begun, cpu = time.monotonic(), tree.cpu_s()
            while batches.story.next_seq <= events:
                if driver.ended or time.monotonic() - begun > DEADLINE_S:
                    raise driver.failure()
                time.sleep(0.1)
            seconds, spent = time.monotonic() - begun, tree.cpu_s() - cpu
    rows, busy = map(sum, zip(*batches.first, strict=True))
    warm, warm_s = map(sum, zip(*batches.first[1:], strict=True))
    print(
        f"{'demo, events of micro-batches':<34} {rows / busy:>10,.0f}/s, without the first "
        f"{warm / warm_s:,.0f}/s; all of them after {seconds:.1f} s: {events / seconds:,.0f}/s, "
        f"{spent / events * 1e6:.1f} us of CPU per event"
    )
    print("  seconds per micro-batch:", *(f"{one:.1f}" for _, one in batches.first))
    print(
        "  seconds of the others:", {name: round(one, 1) for name, one in batches.others.items()}
    )


def main() -> None:
    """Measure and print."""
    parser: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    demo_case(parser.parse_args().events)


if __name__ == "__main__":
    main()
