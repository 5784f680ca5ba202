"""An engine on a store in memory, with a committer that answers when the test says so.

What real files and disks do is for the tests of the store: here every commit would wait for one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.disk.paths import KeptPath

from jetspark.api.stream import StreamConfig
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Entry, Outbox, Outlet
from jetspark.engine.ports import Standalone
from jetspark.engine.replicate.adoption import copies_first
from jetspark.engine.replicate.upstream import Upstreams
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.frame import Frame
from jetspark.store.committer import write
from jetspark.store.files import Files
from jetspark.store.log.stream_log import Group
from jetspark.store.memory import MemoryFiles
from jetspark.store.store import FileStore

START = 1_763_190_000_000_000_000


class RecordingOutlet(Outlet):
    """Keeps what a run of messages wrote."""

    def __init__(self, full_after: int = 1_000_000) -> None:
        self.written: list[tuple[bytes, bytes, bytes, bytes]] = []
        self.full_after = full_after
        self.is_gone = False

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.written.append((subject, reply, headers, payload))

    def full(self) -> bool:
        return len(self.written) >= self.full_after

    def gone(self) -> bool:
        return self.is_gone


class Ports(Standalone):
    """What is around an engine, as a test wants it: each answer can be replaced."""

    def __init__(self) -> None:
        self.listening: Callable[[bytes], bool] = lambda _subject: False
        self.subscribed: Callable[[bytes], bool] = lambda _subject: False
        self.outlet: Callable[[bytes], Outlet | None] = lambda _subject: None

    def reply_outlet(self, subject: bytes, /) -> Outlet | None:
        return self.outlet(subject)

    def listens(self, subject: bytes, /) -> bool:
        return self.listening(subject)

    def is_subscribed(self, subject: bytes, /) -> bool:
        return self.subscribed(subject)


class Bench:
    """The engine and the world around it, driven by hand."""

    def __init__(self, folder: Path, files: Files | None = None, **options: Any) -> None:
        self.files = files or MemoryFiles()
        self.folder = folder
        self.store_options = {"reserve_size": 0} | options
        self.outbox = Outbox()
        self.now = START
        self.outlet = RecordingOutlet()
        self.on_the_way: list[tuple[Stream, Group]] = []
        self._ids = itertools.count(1)
        # For tests of small limits: set it and restart.
        self.batch_limits: BatchLimits | None = None
        self.upstreams: Upstreams | None = None
        self.engine = self._open()

    def _open(self) -> Engine:
        self.file_store = FileStore(self.files, self.folder, **self.store_options)
        self.ports = self.make_ports()
        self.ports.outlet = lambda _subject: self.outlet
        engine = Engine(
            self.file_store,
            account="$G",
            random_id=lambda: next(self._ids),
            ports=self.ports,
            batch_limits=self.batch_limits,
            upstreams=self.upstreams,
        )
        for log in copies_first(self.file_store.open(lambda _identity, _recovery: None)):
            engine.adopt(log, self.now)
        return engine

    def make_ports(self) -> Ports:
        return Ports()

    def restart(self) -> None:
        """Close and recover: what was not committed is lost."""
        self.close()
        self.on_the_way.clear()
        self.engine = self._open()

    def close(self) -> None:
        self.engine.close()
        self.file_store.close()

    def create(self, name: str = "S", *subjects: str) -> Stream:
        config = StreamConfig(name=name, subjects=subjects or ("s.>",), allow_direct=True)
        return self.engine.create_stream(prepared(config), self.now)

    def remove(self, stream: Stream) -> None:
        """Delete a stream; nothing of it may be in flight."""
        errors: list[OSError | None] = []
        self.engine.start_removal(
            stream, self.now, self.outbox, lambda error, _now, _outbox: errors.append(error)
        )
        assert errors == [None]

    def publish(
        self,
        stream: Stream,
        subject: bytes,
        payload: bytes,
        reply: bytes = b"",
        headers: bytes = b"",
    ) -> None:
        """Hand in a message as the parser would: a chunk and offsets."""
        data = subject + reply + headers + payload + b"\r\n"
        rs = len(subject)
        hs = rs + len(reply)
        ps = hs + len(headers)
        frame = Frame(data, 0, rs, rs, hs, hs, ps, ps + len(payload))
        if stream.publish(subject, frame, self.now, self.outbox):
            self.engine.mark_dirty(stream)

    def submit(self) -> None:
        """What the driver does once per turn."""
        for stream, group in self.engine.take_groups(self.now):
            assert isinstance(group, Group)
            self.on_the_way.append((stream, group))

    def land(self) -> None:
        """The disk answers for the oldest group."""
        stream, group = self.on_the_way.pop(0)
        assert write(stream.log.segments.files, group) is None
        others = [stream]
        if not stream.log.segments.in_memory:
            # As for a group that shared its write with others.
            others, _ = self.engine.committed_together(others, self.outbox, self.now)
        for other in others:
            while not self.engine.committed(other, self.outbox, self.now):
                pass

    def wait(self, seconds: float) -> None:
        """Let time pass, and do what a driver does when it has."""
        end = self.now + int(seconds * 1e9)
        deadline = self.engine.next_deadline()
        while deadline is not None and deadline <= end:
            self.now = max(self.now, deadline)
            for stream in self.engine.expire(self.now, self.outbox):
                self._keep_house(stream)
            deadline = self.engine.next_deadline()
        self.now = end

    def _keep_house(self, stream: Stream) -> None:
        was_failed = stream.log.access.failed
        if was_failed:
            if stream.log.upkeep.reopen_due and stream.log.reopen():
                self.engine.reopened(stream)
            return
        while stream.log.maintain():
            pass
        if stream.log.durability.sync_error is not None:
            self.engine.failed(stream, stream.log.durability.sync_error, self.outbox)

    def fail(self, error: OSError) -> None:
        """The disk refuses the oldest group."""
        stream, _ = self.on_the_way.pop(0)
        self.engine.failed(stream, error, self.outbox)

    def store(self, stream: Stream, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        self.publish(stream, subject, payload, headers=headers)
        self.submit()
        self.land()

    def get(self, stream: Stream, body: bytes, appended: bytes = b"") -> list[Entry]:
        self.engine.direct.get(stream, appended, body, b"_INBOX.1", self.now, self.outbox)
        return self.sent()

    def request(self, verb: bytes, body: bytes = b"") -> bytes:
        """The answer to a request; one that waits for the disk gets it."""
        handle(self.engine, verb, body, b"_INBOX.1", self.now, self.outbox)
        if not self.outbox.now:
            self.submit()
            self.land()
        (reply,) = self.sent()
        return reply[4]

    def replies(self) -> list[bytes]:
        """The bodies of what was sent, acknowledgements in runs too."""
        return [entry[4] for entry in self.sent()]

    def sent(self) -> list[Entry]:
        entries, self.outbox.now = self.outbox.now, []
        return entries


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(KeptPath("/store"))
    yield made
    made.close()
