"""Random lives of streaming reads, compared with what the streams hold. No JVM.

Reads of one or several streams, by name or by a pattern, with offsets and times by stream, limits
of micro-batches by sequences and bytes, delays, a consumer that shows the position; change feeds
with and without previous revisions. Messages come and go, micro-batches are run twice, processes
end between plan and commit and return with other options. Every message is read once, as it is
stored, and never one that was deleted before.

    python -m tests.campaigns.spark.lives --seconds 60 --seed 7 [--url nats://...]
"""

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.campaigns.spark.orders_steps import Load
from tests.campaigns.spark.orders_world import BUCKETS, STREAMS, Message, World, loads_of
from tests.support.checkpointed_query import CheckpointedQuery

from jetspark import sync
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.stream import streaming_reader
from jetspark.spark.stream.source import JetStreamDataSource

ACTIONS: Final = 25
LIMITS: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "batchSize",
)
# Micro-batches to the end of what is available.
DRAIN_MAX: Final = 2000


@dataclass
class Counts:
    """What was done."""

    queries: int = 0
    actions: int = 0
    batches: int = 0
    replays: int = 0
    restarts: int = 0
    rows: int = 0

    def __str__(self) -> str:
        return (
            f"{self.queries} queries, {self.actions} actions, {self.restarts} restarts, "
            f"{self.batches} micro-batches, {self.replays} of them run again, "
            f"{self.rows} rows compared, wrong: 0"
        )


class Wrong(AssertionError):
    """Rows that are not those of the streams; the text has the seed."""


class Lives:
    """One query from its first start to the end of its streams."""

    def __init__(self, world: World, seed: int, counts: Counts) -> None:
        self._world = world
        self._dice = random.Random(seed)
        self._counts = counts
        self._feed = self._dice.random() < 0.35
        self._options: dict[str, str] = {}
        self._read: Counter[tuple[str, int]] = Counter()
        self._after: dict[str, int] = {}
        self._said: list[str] = []

    def play(self) -> None:
        """Play it; raises ``Wrong``."""
        dice, world = self._dice, self._world
        world.reset()
        for stream in STREAMS:
            world.publish(stream, dice.randrange(10**6), dice.randrange(5, 120))
        for bucket in BUCKETS:
            world.change_keys(bucket, dice.randrange(10**6), dice.randrange(5, 60))
        load = self._begin()
        self._after = {
            part.source: world.flow_start(part)
            for part in (loads_of(load) if not self._feed else [load])
        }
        self._said.append(f"started with {self._options}")
        query = self._start()
        # Until then a start at the latest message is not fixed.
        query.plan()
        for _ in range(ACTIONS):
            self._counts.actions += 1
            self._act(query)
        self._drain(query)
        self._check_all()
        self._check_consumer()
        self._counts.queries += 1

    def _begin(self) -> Load:
        """Choose the options of the first life; the load says where each stream starts."""
        dice, world = self._dice, self._world
        if self._feed:
            source = dice.choice(tuple(BUCKETS))
            self._options = {"bucket": source}
            start = {"startingOffsets": dice.choice(("earliest", "latest", "3"))}
            if dice.random() < 0.6:
                self._options["includePrevious"] = "true"
            if dice.random() < 0.3:
                self._options["keys"] = dice.choice(("c.*", "a", "d.>,b"))
            self._options |= start | self._limits()
            return Load(frame="x", format="nats_kv", source=source, options=dict(self._options))
        names = dice.sample(STREAMS, dice.choice((1, 2, 2)))
        self._options = self._named(names)
        pick = dice.random()
        start = {}
        if pick < 0.4:
            start = {"startingOffsets": "earliest"}
        elif pick < 0.6:
            chosen = {
                name: dice.choice(("earliest", "latest", dice.randrange(1, world.logs[name].last)))
                for name in names
            }
            start = {"startingOffsets": json.dumps(chosen)}
        elif pick < 0.8:
            times = {
                name: f"@time({name},{dice.randrange(1, world.logs[name].last + 2)})"
                for name in names
            }
            start = {"startingOffsetsByTimestamp": json.dumps(times)}
        if dice.random() < 0.3:
            self._options["subject"] = dice.choice(("*.1", "*.*", "*.0.>", "*.0,*.2"))
        if dice.random() < 0.3:
            self._options["progressConsumer"] = "lives"
        self._options |= self._limits()
        load = Load(
            frame="x",
            format="jetstream",
            source=",".join(names),
            options={**self._options, **start},
        )
        self._options |= {name: world.resolve(text) for name, text in start.items()}
        return load

    def _named(self, names: list[str]) -> dict[str, str]:
        if len(names) == 1 and self._dice.random() < 0.5:
            return {"stream": names[0]}
        if self._dice.random() < 0.4:
            return {"streamPattern": "|".join(names)}
        return {"streams": ",".join(names)}

    def _limits(self) -> dict[str, str]:
        dice = self._dice
        limits: dict[str, str] = {}
        if dice.random() < 0.6:
            limits["maxOffsetsPerTrigger"] = str(dice.choice((1, 2, 7, 30, 1000)))
        if dice.random() < 0.3:
            limits["maxBytesPerTrigger"] = str(dice.choice((1, 100, 1000)))
        if dice.random() < 0.3:
            least = int(limits.get("maxOffsetsPerTrigger", "20"))
            limits["minOffsetsPerTrigger"] = str(dice.randrange(1, min(least, 20) + 1))
            limits["maxTriggerDelay"] = dice.choice(("0s", "50ms", "1h"))
        if dice.random() < 0.5:
            limits["minPartitions"] = str(dice.choice((1, 2, 5, 9)))
        if dice.random() < 0.3:
            limits["batchSize"] = str(dice.choice((1, 3, 50)))
        if self._feed:
            limits.pop("batchSize", None)
        return limits

    def _start(self) -> CheckpointedQuery:
        kind = KvDataSource if self._feed else JetStreamDataSource
        return CheckpointedQuery(self._world.url, kind, **self._options)

    # Actions.

    def _act(self, query: CheckpointedQuery) -> None:
        dice, world = self._dice, self._world
        pick = dice.random()
        if pick < 0.25:
            self._more()
        elif pick < 0.35 and not self._feed:
            stream = dice.choice(STREAMS)
            last = world.logs[stream].last
            world.delete(stream, [dice.randrange(1, last + 1) for _ in range(3)])
            self._said.append(f"deleted of {stream}")
        elif pick < 0.5:
            self._restart(query)
        elif len(query.ends) > query.committed:
            self._run(query)
        elif query.plan():
            self._said.append(f"planned {query.ends[-1]}")
            if dice.random() < 0.6:
                self._run(query)

    def _more(self) -> None:
        dice, world = self._dice, self._world
        if self._feed:
            bucket = self._options["bucket"]
            # A plan must not lose what it has not read: a history keeps five.
            world.change_keys(bucket, dice.randrange(10**6), dice.randrange(1, 4))
            self._said.append(f"changed {bucket}")
            return
        stream = dice.choice(STREAMS)
        world.publish(stream, dice.randrange(10**6), dice.randrange(1, 20))
        self._said.append(f"published to {stream}")

    def _restart(self, query: CheckpointedQuery) -> None:
        """Another process with other limits, and the streams named in another way."""
        for name in LIMITS:
            query._options.pop(name, None)
        options = self._limits()
        if not self._feed:
            for name in ("stream", "streams", "streamPattern"):
                query._options.pop(name, None)
            # Offsets by stream would have to name the streams; the checkpoint has them.
            for name in ("startingOffsets", "startingOffsetsByTimestamp"):
                query._options.pop(name, None)
            options |= self._named(list(self._after))
        query.restart(**options)
        self._counts.restarts += 1
        self._said.append(f"restarted with {options}")

    def _run(self, query: CheckpointedQuery) -> None:
        """Run the planned micro-batch, perhaps again, and commit it."""
        rows = self._rows(query)
        if self._dice.random() < 0.3:
            self._restart(query)
        if self._dice.random() < 0.4:
            again = self._rows(query)
            self._counts.replays += 1
            if again != rows:
                raise self._wrong("a replay has other rows or partitions")
        for part in rows:
            for row in part:
                self._check(row)
        query.commit()
        self._counts.batches += 1
        self._said.append(f"ran {sum(map(len, rows))} rows")

    def _rows(self, query: CheckpointedQuery) -> list[list[dict[str, Any]]]:
        start = json.loads(query.start)
        end = json.loads(query.ends[query.committed])
        return [query._rows(part) for part in query.reader.partitions(start, end)]

    def _drain(self, query: CheckpointedQuery) -> None:
        if len(query.ends) > query.committed:
            self._run(query)
        query.available_now()
        for _ in range(DRAIN_MAX):
            if not query.plan():
                return
            self._run_last(query)
        raise self._wrong(f"it has not ended after {DRAIN_MAX} micro-batches")

    def _run_last(self, query: CheckpointedQuery) -> None:
        for part in self._rows(query):
            for row in part:
                self._check(row)
        query.commit()
        self._counts.batches += 1

    # The truth.

    def _check(self, row: dict[str, Any]) -> None:
        """Compare a row with the message that is stored under its sequence."""
        self._counts.rows += 1
        source = row["bucket"] if self._feed else row["stream"]
        seq = row["revision"] if self._feed else row["seq"]
        log = self._world.logs[source]
        message = log.messages.get(seq)
        if message is None or seq not in log.stored:
            raise self._wrong(f"row {seq} of {source} is not stored")
        self._read[source, seq] += 1
        if self._read[source, seq] > 1:
            raise self._wrong(f"row {seq} of {source} was read twice")
        due = self._due(source, message)
        found = {name: row[name] for name in due}
        if found != due:
            raise self._wrong(f"row {seq} of {source} is {found} instead of {due}")

    def _due(self, source: str, message: Message) -> dict[str, Any]:
        if not self._feed:
            return {"subject": message.subject, "data": message.data}
        load = Load(frame="x", format="nats_kv", source=source, options=dict(self._options))
        row = self._world.row(load, message)
        names = ["key", "value", "operation"]
        if self._options.get("includePrevious") == "true":
            names += ["previous_value", "previous_revision"]
        return {name: row[name] for name in names}

    def _check_all(self) -> None:
        """Every message after the start that is stored was read, and none before it."""
        option = "keys" if self._feed else "subject"
        for source, after in self._after.items():
            load = Load(
                frame="x",
                format="nats_kv" if self._feed else "jetstream",
                source=source,
                options={option: self._options[option]} if option in self._options else {},
            )
            due = {message.seq for message in self._world.flow_rows(load, after)[0]}
            read = {seq for name, seq in self._read if name == source}
            stored = self._world.logs[source].stored
            if due - read or (read & stored) - due:
                raise self._wrong(
                    f"{source}: {sorted(due - read)[:5]} of {len(due)} not read, "
                    f"{sorted((read & stored) - due)[:5]} too many"
                )
        others = {name for name, _ in self._read} - set(self._after)
        if others:
            raise self._wrong(f"read of {others}, which were not selected")

    def _check_consumer(self) -> None:
        if "progressConsumer" not in self._options:
            return
        for source in self._after:
            load = Load(frame="x", format="jetstream", source=source, options=dict(self._options))
            at, pending = self._world.shown(source, "lives")
            left = self._world.flow_rows(load, at)[0]
            if at > self._world.logs[source].last or pending != len(left):
                raise self._wrong(f"the consumer of {source} shows {at} and {pending} left")

    def _wrong(self, text: str) -> Wrong:
        return Wrong("\n".join([text, *self._said]))


def campaign(
    url: str, *, seed: int, deadline: float, say: Callable[[str], object] = lambda _line: None
) -> str:
    """Play queries until the deadline, at least one; what was done, in one line."""
    counts = Counts()
    world = World(url)
    before = streaming_reader.POLL_S
    # Nothing is gained by waiting between two looks at a stream.
    streaming_reader.POLL_S = 0.0  # type: ignore[misc]
    try:
        number = 0
        while number == 0 or time.monotonic() < deadline:
            try:
                Lives(world, seed + number, counts).play()
            except Exception as error:
                raise Wrong(f"seed {seed + number}: {type(error).__name__}: {error}") from error
            number += 1
            say(f"seed {seed + number - 1}: {counts}")
    finally:
        streaming_reader.POLL_S = before  # type: ignore[misc]
        world.close()
    return str(counts)


def main() -> None:
    """Run it on a server of its own, or on the one that ``--url`` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        url = given.url
        if not url:
            url = stack.enter_context(sync.Server(store_dir=f"{name}/store")).client_url
        done = campaign(url, seed=given.seed, deadline=time.monotonic() + given.seconds)
    sys.stdout.write(f"seed {given.seed}: {done}\n")


if __name__ == "__main__":
    main()
