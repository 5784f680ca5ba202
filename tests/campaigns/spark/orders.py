"""Random sequences of actions over the same objects of Spark, each result compared with Parquet.

DataFrames, views, joins, caches, checkpoints, writes and streaming queries over streams, buckets
and stores are used again and again in any order, by SQL and by the DataFrame API, while messages
come and go. The same transformations over a Parquet copy of the rows must give the same result.

    python -m tests.campaigns.spark.orders --seconds 300 --seed 7 --master 'local[3]'
    python -m tests.campaigns.spark.orders --steps failed.jsonl

``--master`` may be ``local[n]``, ``local-cluster[2,1,1024]``, ``standalone`` or ``connect``. A
failure prints the seed and the shortest sequence of steps found that still fails;
``--steps`` plays such a sequence again. ``tests/spark/campaigns/test_orders.py`` is the short
form, ``make torture`` the long one.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.campaigns.spark.orders_generator import Generator
from tests.campaigns.spark.orders_steps import (
    AnyStep,
    Derive,
    Load,
    names_of,
    print_steps,
    read_steps,
)

from jetspark import sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.campaigns.spark.orders_player import Counts, Wrong

ROOT: Final = Path(__file__).resolve().parents[3]
LENGTH: Final = 40
SHRINK_S: Final = 120.0
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "60s",
}


class OrdersFailed(AssertionError):
    """A sequence gave a wrong result; the text has its seed and its shortest form."""


class Orders:
    """Sequences on one session and one server."""

    def __init__(
        self, spark: "SparkSession", url: str, folder: Path, *, connect: bool = False
    ) -> None:
        from tests.campaigns.spark.orders_player import Counts
        from tests.campaigns.spark.orders_world import World

        self._spark = spark
        self._folder = folder
        self._connect = connect
        self._world = World(url)
        self._plays = 0
        self.counts: Counts = Counts()
        if not connect:
            spark.sparkContext.setCheckpointDir(str(folder / "checkpoints"))

    def close(self) -> None:
        """Close the connection to the server."""
        self._world.close()

    def sequence(
        self, seed: int, *, length: int = LENGTH, flows: float = 0.06, functions: bool = False
    ) -> None:
        """Make a sequence and play it; raises ``OrdersFailed`` with a short form of it."""
        made = Generator(seed, length=length, flows=flows, functions=functions)
        self.play(made.make(), seed=seed)

    def play(self, steps: Sequence[AnyStep], *, seed: int = 0) -> None:
        """Play steps; raises ``OrdersFailed`` when a result is wrong."""
        problem = self._problem(steps, self.counts)
        self.counts.sequences += 1
        if problem is not None:
            # What comes after the step that failed has no part in it.
            long = steps[: problem.step + 1]
            short = shrink(long, lambda some: self._problem(some) is not None)
            raise OrdersFailed(
                f"seed {seed}, step {problem.step} of {len(steps)}: {problem}\n\n"
                f"{len(short)} steps that fail as well:\n{print_steps(short)}\n\n"
                f"{self._problem(short) or 'but not always'}"
            )

    def _problem(self, steps: Sequence[AnyStep], counts: "Counts | None" = None) -> "Wrong | None":
        from tests.campaigns.spark.orders_player import Counts, Player, Wrong

        self._plays += 1
        folder = self._folder / f"play{self._plays}"
        folder.mkdir()
        player = Player(
            self._spark, self._world, folder, counts or Counts(), connect=self._connect
        )
        try:
            player.play(steps)
        except Wrong as wrong:
            return wrong
        return None


def shrink(
    steps: Sequence[AnyStep],
    fails: Callable[[Sequence[AnyStep]], bool],
    *,
    seconds: float = SHRINK_S,
) -> list[AnyStep]:
    """Leave out steps as long as the sequence still fails: large parts first, then single ones."""
    deadline = time.monotonic() + seconds
    kept = related(steps)
    if len(kept) == len(steps) or not fails(kept):
        kept = list(steps)
    size = max(1, len(kept) // 2)
    while True:
        at = len(kept)
        shorter = False
        while at > 0 and time.monotonic() < deadline:
            at = max(0, at - size)
            some = kept[:at] + kept[at + size :]
            if some and fails(some):
                kept, shorter = some, True
        if time.monotonic() >= deadline or (size == 1 and not shorter):
            return kept
        size = max(1, size // 2)


def related(steps: Sequence[AnyStep]) -> list[AnyStep]:
    """Return the steps that share a DataFrame, a query or a source with the last one."""
    named = names_of(steps[-1])
    while True:
        kept = [step for step in steps if names_of(step) & named]
        wider = named.union(*(names_of(step) for step in kept if isinstance(step, Load | Derive)))
        if wider == named:
            return kept
        named = wider


@contextlib.contextmanager
def started(master: str, folder: Path) -> Iterator["SparkSession"]:
    """Start Spark on a master, or a client of a Connect server."""
    from tests.campaigns.spark.connect import connect_server, standalone
    from tests.support.spark_home import find_spark_home

    from jetspark.spark import session

    home = find_spark_home(train=True)
    os.environ.update(home.environment if home else {})
    # Executors of other processes import the functions of the steps from here.
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    config = SETTINGS | {"spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, path))}
    with contextlib.ExitStack() as stack:
        if master == "connect":
            remote = stack.enter_context(connect_server(folder, "local[2]"))
            spark = session("orders", remote=remote)
        else:
            if master == "standalone":
                master = stack.enter_context(standalone(folder))
            spark = session("orders", master=master, config=config, log_level="OFF")
        stack.callback(spark.stop)
        yield spark


def campaign(
    url: str,
    folder: Path,
    *,
    master: str,
    seed: int,
    deadline: float,
    report: Callable[[str], object] | None = None,
) -> str:
    """Play sequences until the deadline, at least one; what was done, in one line."""
    with started(master, folder) as spark:
        orders = Orders(spark, url, folder, connect=master == "connect")
        try:
            number = 0
            while number == 0 or time.monotonic() < deadline:
                orders.sequence(seed + number, functions=True)
                number += 1
                if report is not None:
                    report(f"seed {seed + number - 1}: {orders.counts}")
        finally:
            orders.close()
        return f"{master}: {orders.counts}"


def main() -> None:
    """Run the campaign on a server of its own, or on the one that ``--url`` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--url", default="")
    parser.add_argument("--steps", type=Path, help="play the steps of this file instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        url = given.url
        if not url:
            server = sync.Server(store_dir=f"{name}/store")
            url = stack.enter_context(server).client_url
        if given.steps is not None:
            spark = stack.enter_context(started(given.master, folder))
            orders = Orders(spark, url, folder, connect=given.master == "connect")
            orders.play(read_steps(given.steps.read_text()))
            sys.stdout.write(f"{orders.counts}\n")
            orders.close()
            return
        deadline = time.monotonic() + given.seconds
        said = campaign(
            url,
            folder,
            master=given.master,
            seed=given.seed,
            deadline=deadline,
            report=lambda line: sys.stderr.write(f"{line}\n"),
        )
        sys.stdout.write(f"seed {given.seed}: {said}\n")


if __name__ == "__main__":
    main()
