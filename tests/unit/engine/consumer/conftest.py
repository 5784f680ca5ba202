"""A consumer and the world around it, driven by hand on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import SimulatedDisk

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import AckPolicy
from jetspark.api.stream import StreamConfig
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Entry, Outbox, Outlet
from jetspark.engine.ports import Standalone
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.store.committer import write
from jetspark.store.log.stream_log import Group
from jetspark.store.store import FileStore

START = 1_763_190_000_000_000_000
MS = 1_000_000
SECOND = 1_000 * MS

# (subject, reply, headers, payload), as an outlet gets them.
Written = tuple[bytes, bytes, bytes, bytes]


class Inbox(Outlet):
    """A listener on one subject."""

    def __init__(self) -> None:
        self.got: list[Written] = []
        self.is_full = False
        self.is_gone = False

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.got.append((subject, reply, headers, payload))

    def full(self) -> bool:
        return self.is_full

    def gone(self) -> bool:
        return self.is_gone

    def take(self) -> list[Written]:
        taken, self.got = self.got, []
        return taken


class WorldPorts(Standalone):
    """Everyone listens who has an inbox in a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def reply_outlet(self, subject: bytes, /) -> Outlet | None:
        return self._world.inbox(subject)

    def push_outlet(self, subject: bytes, group: bytes, /) -> Outlet | None:
        return self._world.bound.get((subject, group))

    def listens(self, _subject: bytes, /) -> bool:
        return True


class World:
    """An engine on a simulated disk; time passes and the disk answers when the test says so."""

    def __init__(self) -> None:
        self.files = SimulatedDisk()
        self.outbox = Outbox()
        self.now = START
        self.inboxes: dict[bytes, Inbox] = {}
        self.bound: dict[tuple[bytes, bytes], Inbox] = {}
        self.refuse: OSError | None = None
        self._id = 0
        self.engine = self._open()

    def _open(self) -> Engine:
        self.store = FileStore(self.files, KeptPath("/store"))
        engine = Engine(
            self.store,
            account="$G",
            random_id=self._next_number,
            next_id=self._next_id,
            ports=self.make_ports(),
        )
        for log in self.store.open(lambda _identity, _recovery: None):
            engine.adopt(log, self.now)
        return engine

    def make_ports(self) -> WorldPorts:
        return WorldPorts(self)

    def _next_number(self) -> int:
        self._id += 1
        return self._id

    def _next_id(self) -> str:
        return f"id{self._next_number():08d}"

    def inbox(self, subject: bytes) -> Inbox | None:
        """A listener on a reply subject; everyone listens by default."""
        if subject.startswith(b"nobody"):
            return None
        return self.inboxes.setdefault(subject, Inbox())

    def close(self) -> None:
        self.engine.close()
        self.store.close()

    def crash(self) -> None:
        """The process ends silently; what was committed exists."""
        self.close()
        self.outbox = Outbox()
        self.inboxes.clear()
        self.bound.clear()
        self.engine = self._open()

    # Streams and messages ----------------------------------------------------------------------

    def stream(self, name: str = "S", **config: object) -> Stream:
        wanted = StreamConfig(name=name, subjects=("s.>",))
        for key, value in config.items():
            setattr_frozen(wanted, key, value)
        return self.engine.create_stream(prepared(wanted), self.now)

    def remove(self, stream: Stream) -> None:
        """Delete a stream; nothing of it may be in flight."""
        errors: list[OSError | None] = []
        self.engine.start_removal(
            stream, self.now, self.outbox, lambda error, _now, _outbox: errors.append(error)
        )
        assert errors == [None]

    def publish(self, stream: Stream, *subjects: bytes, payload: bytes = b"x") -> None:
        """Store a message on each subject."""
        for subject in subjects:
            self.now += 1
            if stream.publish_checked(subject, b"", b"", payload + b"\r\n", self.now, self.outbox):
                self.engine.mark_dirty(stream)
        self.commit()

    def commit(self) -> None:
        """Let the disk answer until nothing is in flight."""
        while True:
            groups = self.engine.take_groups()
            if not groups:
                return
            for stream, group in groups:
                assert isinstance(group, Group)
                error = self.refuse or write(stream.log.segments.files, group)
                if error is None:
                    while not self.engine.committed(stream, self.outbox, self.now):
                        self.between_steps()
                else:
                    self.engine.failed(stream, error, self.outbox)

    def between_steps(self) -> None:
        """Do what a test wants to happen while a large group is being applied."""

    # Consumers ---------------------------------------------------------------------------------

    def consumer(self, stream: Stream, name: str = "c", /, **config: object) -> Consumer:
        """Make a consumer; explicit acknowledgements by default."""
        values: dict[str, object] = {
            "name": name,
            "ack_policy": AckPolicy.EXPLICIT,
            "ack_wait": 30 * SECOND,
            "max_ack_pending": 1000,
            "max_waiting": 512,
        }
        values.update(config)
        made = self.engine.consumers.add(
            stream,
            name,
            ConsumerConfig(**values),  # type: ignore[arg-type]
            self.now,
            self.outbox,
        )
        self.commit()
        self.turn()
        return made

    def pull(self, body: bytes = b"", reply: bytes = b"_R.1", key: bytes = b"S.c") -> None:
        """Ask for messages, and let the engine have its turn."""
        assert self.engine.deliveries.pull(key, b"", body, reply, self.now, self.outbox)
        self.turn()

    def ack(self, reply: bytes, body: bytes = b"", answer_to: bytes = b"") -> bool:
        """Acknowledge by the reply subject of a message."""
        key = b".".join(reply.split(b".")[2:4])
        known = self.engine.deliveries.on_ack(key, reply, body, answer_to, self.now)
        self.turn()
        return known

    def turn(self) -> None:
        """Turns of the loop until nothing is left to do; the disk answers at once."""
        for _ in range(1000):
            self.commit()
            more = self.engine.advance(self.now, self.outbox) or bool(self.engine.dirty)
            if not more and not (self.engine.is_stalled() and self.engine.unstall()):
                return
        raise AssertionError("the engine does not come to rest")

    def pass_time(self, nanoseconds: int) -> None:
        """Let time pass; every deadline on the way is kept."""
        end = self.now + nanoseconds
        for _ in range(10_000):
            due = self.engine.next_deadline()
            if due is None or due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            self.engine.expire(self.now, self.outbox)
            self.turn()
        raise AssertionError("deadlines never end")

    def got(self, reply: bytes = b"_R.1") -> list[Written]:
        """Take what was delivered to a reply subject, with the statuses sent otherwise."""
        found = self.inboxes.setdefault(reply, Inbox()).take()
        found += [(e[1], e[2], e[3], e[4]) for e in self.outbox.now if e[0] == reply]
        self.outbox.now = [e for e in self.outbox.now if e[0] != reply]
        return found

    def bind(self, subject: bytes, group: bytes = b"") -> Inbox:
        """Subscribe to a deliver subject."""
        inbox = self.bound[subject, group] = Inbox()
        self.engine.deliveries.interest_changed(subject, self.now)
        self.turn()
        return inbox

    def unbind(self, subject: bytes, group: bytes = b"") -> None:
        self.bound.pop((subject, group)).is_gone = True
        self.engine.deliveries.interest_changed(subject, self.now)
        self.turn()

    def events(self, kind: bytes) -> list[Entry]:
        """Take the advisories whose subjects have a word in them."""
        found = [e for e in self.outbox.now if e[0].startswith(b"$JS.EVENT") and kind in e[0]]
        self.outbox.now = [e for e in self.outbox.now if e not in found]
        return found

    def info(self, consumer: Consumer) -> ConsumerInfo:
        return consumer.info(self.now)


def setattr_frozen(config: StreamConfig, key: str, value: object) -> None:
    """Set a field of a frozen struct before anybody has seen it."""
    import msgspec

    msgspec.structs.force_setattr(config, key, value)


def sequences(messages: list[Written]) -> list[int]:
    """The stream sequences of messages, by their reply subjects."""
    return [int(reply.split(b".")[5]) for _, reply, _, _ in messages if reply]


def status(message: Written) -> bytes:
    """The status line of a message that is none."""
    return message[2].split(b"\r\n")[0].removeprefix(b"NATS/1.0 ")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()
