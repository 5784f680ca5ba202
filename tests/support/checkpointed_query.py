"""A streaming query without a JVM: its reader, driven as Spark's micro-batch execution does.

Offsets go through JSON text, as in a checkpoint; a query has several lives with other options.
"""

import json
import pickle
from typing import Any

from jetspark.spark.stream.source import JetStreamDataSource

Parts = list[list[int]]


class CheckpointedQuery:
    """The checkpoint of a query, and one life of it at a time."""

    def __init__(self, url: str, format_class: Any = JetStreamDataSource, **options: str) -> None:
        self._format = format_class
        self._options = {"servers": url, **options}
        self.ends: list[str] = []
        self.committed = 0
        self.restart()

    def restart(self, **options: str) -> None:
        """A new process with other options; what was planned and not committed is run again."""
        self._options |= options
        source = self._format(options=self._options)
        self.reader: Any = source.streamReader(source.schema())
        if self.ends:
            # Spark asks so for nothing before it continues.
            last = json.loads(self.ends[-1])
            assert self.reader.partitions(last, last) == []

    def available_now(self) -> None:
        self.reader.prepareForTriggerAvailableNow()

    @property
    def start(self) -> str:
        if self.committed:
            return self.ends[self.committed - 1]
        return json.dumps(self.reader.initialOffset())

    def plan(self) -> bool:
        """Write the end of the next micro-batch; false when it would be empty."""
        assert len(self.ends) == self.committed
        start = self.start
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if end == start and self.committed:
            return False
        self.ends.append(end)
        return end != start

    def run(self) -> Parts:
        """Run the micro-batch that was planned, in this life or before."""
        start, end = json.loads(self.start), json.loads(self.ends[self.committed])
        return [self._read(part) for part in self.reader.partitions(start, end)]

    def commit(self) -> None:
        self.committed += 1

    def step(self) -> Parts:
        """Plan, run and commit a micro-batch; none when nothing is new."""
        if not self.plan() and len(self.ends) == self.committed:
            return []
        rows = self.run()
        self.commit()
        return rows

    def rows(self) -> list[list[tuple[str, int]]]:
        """Run the planned micro-batch; stream and sequence of its rows, by partition."""
        start, end = json.loads(self.start), json.loads(self.ends[self.committed])
        return [
            [(row["stream"], row["seq"]) for row in self._rows(part)]
            for part in self.reader.partitions(start, end)
        ]

    def places(self) -> dict[str, Any]:
        """Return the last end offset, by stream."""
        return dict(json.loads(self.ends[-1])["streams"])

    def place(self) -> dict[str, Any]:
        (place,) = json.loads(self.ends[-1])["streams"].values()
        return dict(place)

    def _read(self, part: Any) -> list[int]:
        return [row["seq"] if "seq" in row else row["revision"] for row in self._rows(part)]

    def _rows(self, part: Any) -> list[dict[str, Any]]:
        # A task has a copy of the reader.
        copy = pickle.loads(pickle.dumps(self.reader))
        return [row for batch in copy.read(part) for row in batch.to_pylist()]
