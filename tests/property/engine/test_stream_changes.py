"""Streams that are made, changed, restored and removed while the disk refuses some of it.

Random requests and answers of the disk in any order, against a model in which a request happens
when it is answered: what one stream gives up no one has before that is durable, so what the disk
refuses can be taken back.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.engine.conftest import Bench, Ports

from jetspark.api.account import AccountLimits
from jetspark.engine.engine import NewStream
from jetspark.engine.operations import Finish
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.config import decode_config
from jetspark.store.committer import write
from jetspark.store.store import FileStore
from jetspark.store.threads import attempt
from jetspark.subjects.match import overlaps

NAMES = ("A", "B", "C")
SUBJECTS = ("x", "y", "z.>", "z.a", "z.b")
SIZES = (3 << 20, 5 << 20, 8 << 20)
LIMIT = 12 << 20
STEPS = 150

# What a stream has: subjects and max_bytes.
Has = tuple[frozenset[str], int]
Work = tuple[Callable[[], None], Finish]


class LatePorts(Ports):
    """Disk work waits until the walk says what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[Work] = []

    def run(self, work: Callable[[], None], finish: Finish, _now: int, _outbox: Outbox, /) -> None:
        self.works.append((work, finish))

    def is_subscribed(self, _subject: bytes, /) -> bool:
        return True  # someone takes the backup


class LateBench(Bench):
    """A bench whose disk answers in any order."""

    def make_ports(self) -> LatePorts:
        self.late = LatePorts()
        return self.late


def is_refusable(work: Callable[[], None]) -> bool:
    """Say whether it makes or removes a stream: what merely tidies up may not fail for ever."""
    assert isinstance(work, partial)
    inner = work.args[0]
    if isinstance(inner, partial):
        return inner.func.__name__ == FileStore.mark_dropped.__name__
    return getattr(inner, "__name__", "") == NewStream.make.__name__


def has(config: Any) -> Has:
    return frozenset(config.subjects), max(config.max_bytes, 0)


def overlap(some: frozenset[str], others: frozenset[str]) -> bool:
    return any(overlaps(a.encode(), b.encode()) for a in some for b in others)


class Walk:
    """An engine, the model, and the requests that are not answered."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.bench = LateBench(folder)
        self._limit()
        self.model: dict[str, Has] = {}
        # By reply subject: what becomes of the model when it succeeds.
        self.asked: dict[bytes, Callable[[dict[str, Any]], None]] = {}
        self.answered = 0
        self.failures = 0
        self.archive, self.state = self._backup()

    def _limit(self) -> None:
        self.bench.engine.change_limits(AccountLimits(max_storage=LIMIT))

    # Requests ----------------------------------------------------------------------------------

    def request(self) -> None:
        verb = self.random.choice(("CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "RESTORE"))
        name = self.random.choice(NAMES)
        chosen = self.random.sample(SUBJECTS[:3] if name == "A" else SUBJECTS, 2)
        if "z.>" in chosen:
            chosen = ["z.>"]
        config = {"name": name, "subjects": chosen, "max_bytes": self.random.choice(SIZES)}
        wanted = frozenset(chosen), int(str(config["max_bytes"]))
        body: dict[str, Any] = config
        if verb == "DELETE":
            self.ask(f"STREAM.DELETE.{name}", {}, lambda _answer: self.deleted(name))
        elif verb == "RESTORE":
            body = {"config": config, "state": self.state}
            self.ask(f"STREAM.RESTORE.{name}", body, partial(self.send, name, wanted))
        else:
            done = self.created if verb == "CREATE" else self.updated
            self.ask(f"STREAM.{verb}.{name}", body, lambda _answer: done(name, wanted))

    def ask(self, verb: str, body: object, done: Callable[[dict[str, Any]], None]) -> None:
        reply = b"r.%d" % (self.answered + len(self.asked))
        assert reply not in self.asked
        self.asked[reply] = done
        raw = json.dumps(body).encode()
        handle(self.bench.engine, verb.encode(), raw, reply, self.bench.now, self.bench.outbox)

    def send(self, name: str, wanted: Has, answer: dict[str, Any]) -> None:
        """Send the whole backup, and its end."""
        to = answer["deliver_subject"].encode()
        reply = b"r.%d" % (self.answered + len(self.asked))
        self.asked[reply] = lambda _answer: self.created(name, wanted)
        transfers = self.bench.engine.transfers
        transfers.handle(to, self.archive, b"", self.bench.now, self.bench.outbox)
        transfers.handle(to, b"", reply, self.bench.now, self.bench.outbox)

    # The model ---------------------------------------------------------------------------------

    def created(self, name: str, wanted: Has) -> None:
        assert self.model.get(name, wanted) == wanted, "a stream of this name exists"
        self.updated(name, wanted, is_new=True)

    def updated(self, name: str, wanted: Has, *, is_new: bool = False) -> None:
        assert is_new or name in self.model, "no such stream"
        self.model[name] = wanted
        self.check(self.model)

    def deleted(self, name: str) -> None:
        del self.model[name]

    def check(self, streams: dict[str, Has]) -> None:
        for (one, first), (other, second) in combinations(streams.items(), 2):
            assert not overlap(first[0], second[0]), (one, first, other, second)
        assert sum(size for _, size in streams.values()) <= LIMIT

    def read_answers(self) -> None:
        entries = self.bench.sent()
        while entries:
            for route, _, _, _, body in entries:
                if route not in self.asked:
                    continue
                done = self.asked.pop(route)
                self.answered += 1
                answer = json.loads(body)
                if "error" not in answer:
                    done(answer)
            entries = self.bench.sent()

    # The disk ----------------------------------------------------------------------------------

    def submit(self) -> None:
        self.bench.submit()

    def land(self) -> None:
        if self.bench.on_the_way:
            number = self.random.randrange(len(self.bench.on_the_way))
            stream, group = self.bench.on_the_way.pop(number)
            assert write(stream.log.segments.files, group) is None
            while not self.bench.engine.committed(stream, self.bench.outbox, self.bench.now):
                pass

    def fail(self) -> None:
        if self.bench.on_the_way:
            number = self.random.randrange(len(self.bench.on_the_way))
            stream, _ = self.bench.on_the_way.pop(number)
            error = OSError(self.random.choice((errno.ENOSPC, errno.EIO)), "refused")
            self.bench.engine.failed(stream, error, self.bench.outbox)
            self.failures += 1

    def work(self, *, may_fail: bool = True) -> None:
        works = self.bench.late.works
        if works:
            work, finish = works.pop(self.random.randrange(len(works)))
            refused = may_fail and self.random.random() < 0.3 and is_refusable(work)
            error = OSError(errno.EIO, "refused") if refused else attempt(work)
            finish(error, self.bench.now, self.bench.outbox)

    def turn(self) -> None:
        engine, bench = self.bench.engine, self.bench
        engine.operations.handle_ready(bench.now, bench.outbox)
        engine.transfers.advance(bench.now, bench.outbox)

    def wait(self) -> None:
        self.bench.wait(1.1)

    # The walk ----------------------------------------------------------------------------------

    def step(self) -> None:
        steps = (self.request, self.submit, self.land, self.fail, self.work, self.turn, self.wait)
        self.random.choices(steps, (8, 4, 4, 2, 6, 4, 1))[0]()
        self.read_answers()
        # What is in force and what would be if the disk refused, both count.
        self.check(
            {
                name: (in_force[0] | durable[0], max(in_force[1], durable[1]))
                for name, stream in self.bench.engine.streams.items()
                for in_force in [has(stream.config)]
                for durable in [has(decode_config(bytes(stream.log.identity.config)))]
            }
        )

    def settle(self) -> None:
        """Let everything that was asked be answered."""
        for _ in range(2000):
            operations = self.bench.engine.operations
            self.submit()
            self.land()
            self.work(may_fail=False)
            self.turn()
            self.read_answers()
            waits = self.bench.on_the_way or self.bench.late.works or self.bench.engine.dirty
            if not (waits or self.asked or operations.has_ready()):
                return
        raise AssertionError(f"{len(self.asked)} requests were never answered")

    def compare(self) -> None:
        streams = self.bench.engine.streams.items()
        assert {name: has(stream.config) for name, stream in streams} == self.model

    def _backup(self) -> tuple[bytes, dict[str, Any]]:
        """The backup of a stream that is removed again."""
        got: list[dict[str, Any]] = []
        self.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}, got.append)
        self.settle()
        self.bench.publish(self.bench.engine.streams["S"], b"s", b"one")
        self.settle()
        self.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d"}, got.append)
        archive = b""
        while not archive.endswith(b"END"):
            self.turn()
            for route, _, reply, headers, body in self.bench.sent():
                if route == b"d":
                    archive += b"END" if headers else body
                    engine = self.bench.engine
                    engine.transfers.handle(reply, b"", b"", self.bench.now, self.bench.outbox)
                elif route in self.asked:
                    self.asked.pop(route)(json.loads(body))
                    self.answered += 1
        self.ask("STREAM.DELETE.S", {}, got.append)
        self.settle()
        return archive.removesuffix(b"END"), got[1]["state"]


@pytest.mark.parametrize("seed", range(24))
def test_no_two_streams_have_a_subject_whatever_the_disk_refuses(
    tmp_path: Path, seed: int
) -> None:
    walk = Walk(tmp_path / "store", seed)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.settle()
        walk.compare()
        walk.bench.restart()
        walk.compare()
    finally:
        walk.bench.close()
