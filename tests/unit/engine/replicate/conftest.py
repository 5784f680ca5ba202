"""Streams that copy others, driven by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.disk.paths import KeptPath
from tests.unit.engine.conftest import Bench

from jetspark.engine.stream.stream import Stream
from jetspark.store.format.record import FIXED, body_end, headers_end, subject_end

Row = tuple[int, bytes, bytes, bytes]


class CopyBench(Bench):
    """A bench that gives copies their turns."""

    def make(self, name: str, **config: Any) -> Stream:
        """Make a stream as a client does."""
        answer = self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        assert "error" not in answer, answer
        self.settle()
        return self.engine.streams[name]

    def ask(self, verb: str, body: object = None) -> dict[str, Any]:
        """The answer to a request."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads(self.request(verb.encode(), payload))
        return answer

    def info(self, name: str) -> dict[str, Any]:
        return self.ask(f"STREAM.INFO.{name}")

    def turn(self) -> bool:
        """One turn of the driver, without the disk's answer."""
        self.submit()
        return self.engine.advance(self.now, self.outbox)

    def settle(self) -> None:
        """Turns and commits until nothing moves."""
        more = True
        operations = self.engine.operations
        while more or self.engine.dirty or self.on_the_way or operations.has_ready():
            operations.handle_ready(self.now, self.outbox)
            more = self.turn()
            self.submit()
            while self.on_the_way:
                self.land()
                more = True

    def put_only(self, stream: Stream, subject: bytes, payload: bytes = b"x") -> None:
        """Publish to a stream, durably, and give no copy a turn."""
        self.publish(stream, subject, payload)
        self.submit()
        self.land()

    def put(self, name: str, subject: bytes, payload: bytes = b"x", headers: bytes = b"") -> None:
        """Publish to a stream and let everyone copy it."""
        self.publish(self.engine.streams[name], subject, payload, headers=headers)
        self.settle()


def rows(stream: Stream) -> list[Row]:
    """What a stream holds: sequence, subject, headers, payload."""
    found = []
    for seq in range(1, int(stream.log.index.last_seq) + 1):
        data, at = stream.log.reader.locate(seq)
        if data:
            start, head = subject_end(data, at), headers_end(data, at)
            row = data[at + FIXED : start], data[start:head], data[head : body_end(data, at)]
            found.append((seq, *row))
    return found


def times(stream: Stream) -> list[int]:
    """When the messages of a stream were stored."""
    return [int(stream.log.reader.time_of(row[0])) for row in rows(stream)]


@pytest.fixture
def open_bench() -> Iterator[Callable[..., CopyBench]]:
    made: list[CopyBench] = []

    def build(**options: Any) -> CopyBench:
        made.append(CopyBench(KeptPath("/store"), **options))
        return made[-1]

    yield build
    for bench in made:
        bench.close()


@pytest.fixture
def bench(open_bench: Callable[..., CopyBench]) -> CopyBench:
    return open_bench()
