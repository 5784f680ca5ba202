"""Stores with a bit of everything on a simulated disk, and the knowledge of what is where.

Kinds of samples, each with all kinds of files that such a store has:

- ``plain``: a start reads every segment;
- ``condensed``: full segments have an index, and a start reads only that;
- ``rewritten``: most messages were deleted and their segments rewritten;
- ``packed``: the same, and compressed;
- ``quarantined``: condensed, with damage that was found and copied aside before.
"""

import errno
from pathlib import Path
from random import Random
from typing import Final

from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import ROOT, Message, Opened, messages
from tests.support.store.reading import consumers
from tests.support.store.state import Consumer

from jetspark.store.format.index_file import SUFFIX as CONDENSED
from jetspark.store.format.index_file import index_head
from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import (
    DELETE_RANGE,
    GROUP_FIRST,
    MESSAGE,
    PURGE,
    SEGMENT_DROP,
    record_flags,
    record_kind,
    record_length,
    record_sequence,
)
from jetspark.store.format.segment import SUFFIX, read_head
from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.upkeep.upkeep import DAY_NS

SEGMENT_SIZE: Final = 1500
CACHE_BUDGET: Final = 600
GROUPS: Final = (1, 3, 2, 1, 4, 3)
KINDS: Final = ("plain", "condensed", "rewritten", "packed", "quarantined")
STREAMS: Final = (0x1234567890ABCDEF, 7)
TIME: Final = 100 * DAY_NS


class Place:
    """Where a record lies; ``seq`` is 0 when it is not a message."""

    def __init__(self, kind: int, seq: int, begin: int, end: int, *, begins_group: bool) -> None:
        self.kind = kind
        self.begins_group = begins_group
        self.seq = seq
        self.begin = begin
        self.end = end

    def meets(self, begin: int, end: int) -> bool:
        """Tell whether a range of bytes touches the record."""
        return self.begin < end and begin < self.end

    @property
    def removes(self) -> bool:
        """Say whether it takes messages out."""
        return self.kind in {DELETE_RANGE, PURGE, SEGMENT_DROP}


class Sample:
    """One store, of one of the kinds."""

    def __init__(self, kind: str = "plain") -> None:
        self.kind = kind
        self.disk: SimulatedDisk = SimulatedDisk()
        opened = Opened(self.disk, SEGMENT_SIZE, CACHE_BUDGET)
        # Every message ever acknowledged: what a damaged record removed may be back.
        self.published: dict[int, dict[int, Message]] = {}
        for number in STREAMS:
            log = opened.store.create(stream_identity(number))
            opened.logs.append(log)
            log.upkeep.pack(kind == "packed")
            self._fill(log, Random(number))
            if kind in {"rewritten", "packed"}:
                self._thin(log, Random(number))
            while kind != "plain" and log.maintain():
                pass
        if kind == "quarantined":
            opened = self._damaged(opened)
        self.identities: dict[int, Identity] = {
            log.identity.stream_id: log.identity for log in opened.logs
        }
        self.messages: dict[int, dict[int, Message]] = {
            log.identity.stream_id: messages(log) for log in opened.logs
        }
        self.consumers: dict[int, dict[int, Consumer]] = {
            log.identity.stream_id: consumers(log) for log in opened.logs
        }
        self.lost: dict[int, list[tuple[int, int]]] = {
            log.identity.stream_id: log.quarantine.lost for log in opened.logs
        }
        self.lost_bytes: dict[int, int] = {
            log.identity.stream_id: log.quarantine.lost_bytes for log in opened.logs
        }
        self.folders: dict[int, Path] = {
            log.identity.stream_id: log.segments.folder for log in opened.logs
        }
        opened.close()
        # Only a store of its own size makes one; what is in it means nothing.
        self.disk.put(ROOT / "reserve", bytes(100))
        self._look()

    def _look(self) -> None:
        """Find out what is where."""
        self.files: dict[Path, int] = self.disk.paths()
        self.places: dict[Path, list[Place]] = {
            path: self._places(path) for path in self.files if path.suffix == SUFFIX
        }
        # Up to where a start reads the index file instead.
        self.covered: dict[Path, int] = {path: self._covered(path) for path in self.places}
        # The newest segments, where damage may look like a torn write.
        self.newest: set[Path] = {
            max(path for path in self.places if path.parent == folder)
            for folder in self.folders.values()
        }

    def _fill(self, log: StreamLog, random: Random) -> None:
        log.staged.set_consumer(1, b"consumer one")
        log.staged.set_consumer(2, b"consumer two")
        for turn, size in enumerate(GROUPS):
            if turn == 3:
                # Some sequences are skipped: their group met a full disk.
                self.disk.fail(1, errno.ENOSPC)
                self._publish(log, random, 2)
            if turn == 4:
                log.staged.delete(2)
                log.staged.purge(0, b"s.1", 1)
                log.staged.set_consumer(2, b"")
                log.staged.set_consumer_state(1, True, b"state")
                log.staged.configure(b'{"n":2}', Limits(40, 0, 6))
            self._publish(log, random, size)

    def _thin(self, log: StreamLog, random: Random) -> None:
        """Publish more and delete most, so that segments are rewritten."""
        for turn in range(12):
            self._publish(log, random, 3)
            seqs = list(messages(log))
            for seq in seqs[: -(turn + 4)]:
                if random.random() < 0.7:
                    log.staged.delete(seq)
            self._publish(log, random, 1)
            while log.maintain():
                pass

    def _publish(self, log: StreamLog, random: Random, count: int) -> None:
        published = self.published.setdefault(log.identity.stream_id, {})
        for _ in range(count):
            headers = random.choice((b"", b"NATS/1.0\r\nA: b\r\n\r\n"))
            body = random.randbytes(random.randrange(150))
            if self.kind == "packed" and random.random() < 0.7:
                body = bytes([random.randrange(256)]) * random.randrange(250)
            subject = b"s.%d" % random.randrange(4)
            seq = log.staged.add_message(subject, len(headers), headers + body + b"\r\n", 1)
            published[int(seq)] = Message(subject, headers, body)
        try:
            group = log.take_group()
            assert group is not None
            self.disk.write_synced(int(group.handle), [group.blob], int(group.offset))
        except OSError:
            log.fail(no_space=True)
        else:
            log.commit()

    def _damaged(self, opened: Opened) -> Opened:
        """Flip a bit in the first message of each stream, and let the scrubber find it."""
        places = {}
        for log in opened.logs:
            seq = int(log.index.first_seq)
            columns = log.index.segment_of(seq)
            assert columns is not None
            offset = int(columns.offset_at(seq - columns.base))
            places[log.segments.folder / columns.name] = (offset + 44) * 8
        opened.close()
        for path, bit in places.items():
            self.disk.flip(path, bit)
        opened = Opened(self.disk, SEGMENT_SIZE, CACHE_BUDGET)
        for log in opened.logs:
            while log.maintain(TIME):
                pass
            assert log.quarantine.lost_messages == 1
        return opened

    def _places(self, path: Path) -> list[Place]:
        data = self.disk.read_file(path)
        head = read_head(data)
        assert head is not None
        at = head[1]
        found = []
        while at < len(data):
            length = int(record_length(data, at))
            kind = int(record_kind(data, at))
            seq = int(record_sequence(data, at)) if kind == MESSAGE else 0
            first = bool(record_flags(data, at) & GROUP_FIRST)
            found.append(Place(kind, seq, at, at + length, begins_group=first))
            at += length
        return found

    def _covered(self, path: Path) -> int:
        index_file = path.with_name(path.name + CONDENSED)
        if index_file not in self.files:
            return 0
        number = next(n for n, folder in self.folders.items() if folder == path.parent)
        head = index_head(self.disk.read_file(index_file), number)
        return head.covered if head else 0


def stream_identity(number: int) -> Identity:
    """The identity of a stream of a sample."""
    return Identity(stream_id=number, account="A", name=f"S{number}", created_ns=5)
