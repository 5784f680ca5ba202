"""Power failures around the commits of batches: never half an atomic batch (ADR-50).

``run_batch_crashes`` lives random lives of an engine on the simulated disk: atomic batches of all
sizes, fast batches of both gap modes and plain messages, several of them in one group. Before
every step of the disk it takes images that a power failure may leave, starts an engine on each,
and judges what exists. The life itself continues from some of them. A failure names its seed.

Many images are equal to one of the same write: an engine is not started on those again.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.support.store.model import Violation, sequences

from jetspark.api.stream import StreamConfig
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.store.format.record import body_end, headers_end
from jetspark.store.log.stream_log import Group
from jetspark.store.store import FileStore

ROOT: Final = KeptPath("/store")
SEGMENT_SIZE: Final = 4000  # a few batches each, so that lives have several segments
CACHE_BUDGET: Final = 2000
TURNS: Final = 7
SIZES: Final = (0, 3, 40, 40, 300, 700)
ROLLED: Final = b"s.rolled"
START_NS: Final = 1_763_190_000_000_000_000


@dataclass
class BatchCrashes:
    """What a run did."""

    states: int = 0
    # Of these, equal to one of the same write.
    repeated: int = 0
    lives: int = 0
    batches: int = 0
    whole: int = 0
    absent: int = 0
    fast: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} crash states ({self.repeated} of them again) of {self.lives} lives: "
            f"{self.batches} atomic batches acknowledged, found whole {self.whole} and absent "
            f"{self.absent} times, never half"
        )


@dataclass
class _Sent:
    """What was sent, by what is written in the bodies, and what of it was acknowledged."""

    # Atomic batches: how many messages each has; those that were acknowledged.
    atomic: dict[str, int] = field(default_factory=dict)
    acked: set[str] = field(default_factory=set)
    # Fast batches: highest number sent, highest one acknowledged.
    fast: dict[str, int] = field(default_factory=dict)
    fast_acked: dict[str, int] = field(default_factory=dict)
    # What every sequence was given to.
    given: dict[int, bytes] = field(default_factory=dict)


def run_batch_crashes(
    states: int, *, seed: int = 0, go_on: Callable[[BatchCrashes], bool] = lambda _: True
) -> BatchCrashes:
    """Check at least this many crash states; raises Violation with the seed of the life.

    ``go_on`` is asked after each life and may end the run early, for runs by the clock.
    """
    done = BatchCrashes()
    while done.states < states and go_on(done):
        life = BatchLife(seed + done.lives, done)
        try:
            life.live()
        except Exception as error:
            raise Violation(f"seed {life.seed}: {error!r}") from error
        done.lives += 1
    return done


class _Started:
    """An engine that was started on a disk."""

    def __init__(self, disk: SimulatedDisk, random: Random) -> None:
        self.disk = disk
        self.store: FileStore = FileStore(
            disk, ROOT, segment_size=SEGMENT_SIZE, cache_budget=CACHE_BUDGET
        )
        self.engine: Engine = Engine(
            self.store, account="A", random_id=lambda: random.getrandbits(64)
        )
        for log in self.store.open(lambda _identity, _recovery: None):
            self.engine.adopt(log, START_NS)

    def close(self, *, in_time: bool = True) -> None:
        self.engine.close(lambda: in_time)
        self.store.close()


class BatchLife:
    """One engine from its first start on."""

    def __init__(self, seed: int, done: BatchCrashes) -> None:
        self.seed = seed
        self._random = Random(seed)
        self._done = done
        self.sent: _Sent = _Sent()
        self._outbox = Outbox()
        self._now = START_NS
        self._last_id = 0
        # Images of the write in progress that were judged.
        self._judged: set[object] = set()
        self.started: _Started = _Started(SimulatedDisk(), self._random)
        config = StreamConfig(
            name="S", subjects=("s.>",), allow_atomic=True, allow_batched=True,
            allow_rollup_hdrs=True,
        )  # fmt: skip
        self.started.engine.create_stream(prepared(config), self._now)

    @property
    def stream(self) -> Stream:
        """The one stream of the engine."""
        return self.started.engine.streams["S"]

    def live(self) -> None:
        """Live it to its end."""
        for _ in range(TURNS):
            for _ in range(self._random.randint(1, 4)):
                self._act()
            self._commit()
            chance = self._random.random()
            if chance < 0.1:
                self._restart(self.started.disk.survivor())
            elif chance < 0.2:
                self._restart(self.started.disk.image(self._random))
        self.started.close()

    def judge_again(self) -> None:
        """Start again on the files that the life left, and judge the result."""
        started = _Started(self.started.disk.survivor(), self._random)
        self._judge(started)
        started.close(in_time=False)

    # What is sent ------------------------------------------------------------------------------

    def _act(self) -> None:
        self._now += self._random.randrange(5_000_000)
        chance = self._random.random()
        if chance < 0.55:
            self._send_atomic()
        elif chance < 0.85:
            self._send_fast()
        else:
            self._publish(b"s.plain", b"plain", b"")

    def _send_atomic(self) -> None:
        self._last_id += 1
        name = f"a{self._last_id}"
        count = self._random.choice((1, 2, 3, 5, 12))
        self.sent.atomic[name] = count
        marked = self._random.random() < 0.3
        rolled = self._random.random() < 0.3
        for number in range(1, count + 1):
            commit = number == count and not marked
            if number == 1 and rolled:
                self._member(name, number, ROLLED, "Nats-Rollup: sub\r\n", commit=commit)
            else:
                self._member(name, number, b"s.%d" % self._random.randrange(4), commit=commit)
            if self._random.random() < 0.1:
                self._publish(b"s.plain", b"between", b"")
        if marked:
            block = _block(f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: {count + 1}\r\n"
                           "Nats-Batch-Commit: eob\r\n")  # fmt: skip
            self._publish(b"s.1", b"", b"ack." + name.encode(), block)

    def _member(
        self, name: str, number: int, subject: bytes, more: str = "", *, commit: bool
    ) -> None:
        lines = f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: {number}\r\n{more}"
        if commit:
            lines += "Nats-Batch-Commit: 1\r\n"
        body = f"atomic {name} {number} ".encode()
        self._publish(subject, body, b"ack." + name.encode() if commit else b"", _block(lines))

    def _send_fast(self) -> None:
        if not self.stream.batches.fast.open or self._random.random() < 0.3:
            self._last_id += 1
            name = f"f{self._last_id}"
            self.sent.fast[name] = 0
        else:
            name = self._random.choice(list(self.stream.batches.fast.open)).decode()
            if name not in self.sent.fast:
                return
        gap = "ok" if int(name[1:]) % 2 else "fail"
        for _ in range(self._random.randint(1, 6)):
            number = self.sent.fast[name] + 1
            op = 0 if number == 1 else self._random.choice((1, 1, 1, 1, 1, 1, 2))
            self.sent.fast[name] = number
            body = f"fast {name} {number} ".encode()
            reply = f"_F.{name}.2.{gap}.{number}.{op}.$FI".encode()
            self._publish(b"s.fast", body, reply)
            if op == 2:
                break

    def _publish(self, subject: bytes, body: bytes, reply: bytes, block: bytes = b"") -> None:
        body += bytes(self._random.choice(SIZES))
        log = self.stream.log
        before = int(log.staged.seq)
        if self.stream.publish_checked(
            subject, reply, block, body + b"\r\n", self._now, self._outbox
        ):
            self.started.engine.mark_dirty(self.stream)
        if log.staged.seq == before + 1 and not block:
            self._give(before + 1, body)
        elif log.staged.seq > before:
            # A whole batch: what each of its sequences holds stands in the staged records.
            for seq in range(before + 1, int(log.staged.seq) + 1):
                self._give(seq, b"")

    def _give(self, seq: int, body: bytes) -> None:
        if seq in self.sent.given:
            raise Violation(f"sequence {seq} was given out twice")
        self.sent.given[seq] = body

    # The disk ----------------------------------------------------------------------------------

    def _commit(self) -> None:
        started = self.started
        for stream, group in started.engine.take_groups(self._now):
            assert isinstance(group, Group)
            started.disk.before_step = self._before_step
            self._judged.clear()
            group.prepare()
            started.disk.write_synced(
                int(group.handle), [group.blob, group.filler], int(group.offset)
            )
            started.disk.before_step = None
            while not started.engine.committed(stream, self._outbox, self._now):
                pass
        self._hear()

    def _hear(self) -> None:
        """What was acknowledged; only durable things may be."""
        entries, self._outbox.now = self._outbox.now, []
        for to, _, _, _, payload in entries:
            answer = json.loads(payload) if payload else {}
            if to.startswith(b"ack.") and "count" in answer:
                self.sent.acked.add(answer["batch"])
                self._done.batches += 1
            elif to.startswith(b"_F."):
                name = to.split(b".")[1].decode()
                if "gap" not in answer.get("type", ""):
                    number = answer.get("count", answer.get("seq", 0))
                    if "error" not in answer:
                        acked = self.sent.fast_acked
                        acked[name] = max(acked.get(name, 0), number)
                        self._done.fast += 1

    def _restart(self, disk: SimulatedDisk) -> None:
        self.started.disk.before_step = None
        self.started = _Started(disk, self._random)
        self._judge(self.started)
        # Batches are in flight no more, and what was lost will not come again.
        for name in list(self.sent.atomic):
            if name not in self.sent.acked:
                del self.sent.atomic[name]
        for name in list(self.sent.fast):
            if name.encode() not in self.stream.batches.fast.open:
                del self.sent.fast[name]
        self._outbox = Outbox()

    def _before_step(self, operation: Operation) -> None:
        if operation.kind not in CHANGING:
            return
        for _ in range(12 if operation.kind == "sync" else 4):
            image = self.started.disk.image(self._random)
            self._done.states += 1
            content = image.content()
            if content in self._judged:
                self._done.repeated += 1
                continue
            self._judged.add(content)
            started = _Started(image, self._random)
            self._judge(started)
            started.close(in_time=False)

    # The judgement -----------------------------------------------------------------------------

    def _judge(self, started: _Started) -> None:
        stream = started.engine.streams["S"]
        atomic: dict[str, list[tuple[int, int]]] = {}
        fast: dict[str, set[int]] = {}
        for seq in sequences(stream.log):
            data, at = stream.log.reader.locate(seq)
            body = data[headers_end(data, at) : body_end(data, at)]
            expected = self.sent.given.get(seq)
            if expected is None or (expected and body != expected):
                raise Violation(f"sequence {seq} holds what was never given it")
            words = body.rstrip(b"\0").decode().split()
            if words and words[0] == "atomic":
                atomic.setdefault(words[1], []).append((seq, int(words[2])))
            elif words and words[0] == "fast":
                fast.setdefault(words[1], set()).add(int(words[2]))
        self._judge_atomic(atomic, stream)
        self._judge_fast(fast, stream)

    def _judge_atomic(self, found: dict[str, list[tuple[int, int]]], stream: Stream) -> None:
        for name, count in self.sent.atomic.items():
            there = found.get(name, [])
            numbers = [number for _, number in there]
            # The first message may be gone: a later batch rolled its subject up.
            if numbers not in ([], list(range(1, count + 1)), list(range(2, count + 1))):
                raise Violation(f"half of batch {name}: {numbers} of {count}")
            if there and there[-1][0] - there[0][0] != len(there) - 1:
                raise Violation(f"batch {name} is not one run: {there}")
            if name in self.sent.acked and not there and count > 1:
                raise Violation(f"batch {name} was acknowledged and is not there")
            self._done.whole += bool(there)
            self._done.absent += not there
        if stream.batches.atomic.open:
            raise Violation("an atomic batch is open after a start")

    def _judge_fast(self, found: dict[str, set[int]], stream: Stream) -> None:
        for name, acked in self.sent.fast_acked.items():
            missing = set(range(1, acked + 1)) - found.get(name, set())
            if missing and int(name[1:]) % 2 == 0:
                raise Violation(f"fast batch {name}: {missing} acknowledged and not there")
        for batch_id, batch in stream.batches.fast.open.items():
            name = batch_id.decode()
            if batch.last > max(found.get(name, {0})):
                raise Violation(f"fast batch {name}: the log says more than it holds")
            if batch.last < self.sent.fast_acked.get(name, 0):
                raise Violation(f"fast batch {name}: the log says less than was acknowledged")


def _block(lines: str) -> bytes:
    return f"NATS/1.0\r\n{lines}\r\n".encode()
