"""The scrubber: reads full segments again and verifies them, slowly.

It finds bit rot while other copies of the data still exist: a start reads only the index files of
full segments, and old messages may not be read for years. Every full segment is read once a day of
engine time, a few megabytes per second, in steps; ``scrubbed`` records when each was last read, so
that a restart does not start over. Damage is quarantined (``quarantine.py``). What can be derived
is repaired: a damaged index file is removed and created again; a damaged manifest is written from
the other copy.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from mypy_extensions import i64

from jetspark.store.format.index_file import SUFFIX, index_head
from jetspark.store.format.manifest import (
    Identity,
    frame,
    read_manifests,
    renew_manifests,
    unframe,
)
from jetspark.store.format.record import FIXED, Codec
from jetspark.store.log.columns import Columns
from jetspark.store.log.segment_files import SegmentFile, head_of
from jetspark.store.upkeep.quarantine import damaged_length, note_place, pin
from jetspark.store.upkeep.task import Task
from jetspark.store.upkeep.upkeep import DAY_NS

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog

STEP_READ: Final = 256 * 1024
# After this much other tasks of the log have their turn.
SLICE: Final = 1024 * 1024
MAGIC: Final = b"JSV1"
NAME: Final = "scrubbed"

_decoder: Final = msgspec.json.Decoder(dict[str, int])


class Scrub(Task):
    """Verifies one full segment, its index file and the manifests."""

    def __init__(self, log: "StreamLog", file: SegmentFile) -> None:
        super().__init__(log.segments.files, [file.handle], "checking a segment")
        self._log = log
        self.rate: i64 = log.upkeep.rates.scrub_rate
        self.folder: Path = log.segments.folder
        self.identity: Identity = log.identity
        self.name: str = file.name
        self.length: int = file.length
        self.seed: int = log.codec.seed
        # Its own: a codec is used by one thread.
        self.codec: Codec = Codec(self.seed)
        self.started_ns: int = int(log.upkeep.now)
        self.times: dict[str, int] = dict(log.upkeep.scrubbed) | {file.name: self.started_ns}
        self._generation = generation = int(file.rows[0].generation)
        # Known damage is skipped.
        self.known: dict[int, int] = {
            damage.offset: damage.offset + damage.length
            for key, damage in log.quarantine.known.items()
            if key[:2] == (file.name, generation)
        }
        self.at: int = -1
        self.slice_end: int = SLICE
        self.counted: int = 0
        self.finished: bool = False
        self.found: list[int] = []
        # The index file is damaged.
        self.index_bad: bool = False
        self.manifest_bad: bool = False
        # A young stream has none.
        self._expects_manifests = bool(log.segments.has_manifests)

    def step(self) -> bool:
        """Verify the next part; True when all of it, or a slice, is done.

        Raises OSError if the disk fails.
        """
        if self.moved >= self.slice_end:
            self.slice_end = int(self.moved) + SLICE
            return True
        if self.at < 0:
            head = head_of(self.files, self.handles[0])
            self.at = head[1] if head else 0
        elif self.at < self.length:
            self._check()
        else:
            self._check_derived()
            self.files.replace(self.folder / NAME, frame(MAGIC, msgspec.json.encode(self.times)))
            self.finished = True
            return True
        return False

    def reads(self, columns: Columns) -> bool:
        """Return whether these rows are of its file.

        Between slices the file may be removed, or rewritten, and its handle closed: a new file of
        the log may have the same handle by then.
        """
        same_file = columns.name == self.name and int(columns.generation) == self._generation
        return same_file and int(columns.handle) in self.handles

    def read_bytes(self) -> int:
        """Return how much it read since the last call."""
        before, self.counted = self.counted, int(self.moved)
        return self.counted - before

    def _check(self) -> None:
        """Verify the next records."""
        if self.at in self.known:
            self.at = max(self.known[self.at], self.at + 1)
            return
        # Not across known damage: the disk may fail to read that.
        end = min((at for at in self.known if at > self.at), default=self.length)
        data = self.files.read(self.handles[0], self.at, min(STEP_READ, end - self.at))
        if len(data) >= FIXED and self.codec.framed_length(data, 0) > len(data):
            length = min(int(self.codec.framed_length(data, 0)), self.length - self.at)
            data = self.files.read(self.handles[0], self.at, length)
        came = 0
        while came < len(data):
            total = int(self.codec.examine(data, came))
            if total <= 0:
                break
            came += total
        self.note_moved(len(data))
        self.at += came
        if self.at in self.known:
            self.at = max(self.known[self.at], self.at + 1)
        elif came == 0:
            bad = damaged_length(self.files, self.codec, self.handles[0], self.at)
            if bad:
                self.found.append(self.at)
            self.at += max(bad, 1) if bad or not data else len(data)

    def _check_derived(self) -> None:
        """Verify the index file and the manifests."""
        try:
            content = self.files.read_file(self.folder / (self.name + SUFFIX))
        except OSError:
            content = b""
        self.note_moved(len(content))
        self.index_bad = bool(content) and index_head(content, self.seed) is None
        if self.index_bad:
            with suppress(OSError):
                self.files.remove(self.folder / (self.name + SUFFIX))
        if not self._expects_manifests:
            return
        manifest, damaged = read_manifests(self.files, self.folder, self.identity.stream_id)
        self.manifest_bad = bool(damaged)
        if damaged:
            identity = manifest.identity if manifest else self.identity
            renew_manifests(self.files, self.folder, identity)

    def finish(self, failed: bool) -> None:
        """Record that the segment was read, as far as possible: not again before tomorrow.

        After a slice the rest follows when nothing else is due.
        """
        log = self._log
        found = len(self.found) if self.finished or failed else 0
        log.upkeep.counts.scrubbed(self.read_bytes(), found, finished=self.finished, failed=failed)
        if not self.finished and not failed and not log.closed:
            log.upkeep.scrub_later(self)
            return
        log.upkeep.note_scrubbed(self.name, self.started_ns)
        if log.closed:
            return
        if not failed and self.index_bad:
            log.upkeep.index_file_is_bad(self.name)
        for offset in self.found:
            for columns in log.index.segments:
                if self.reads(columns):
                    note_place(log, columns, offset, "wrong checksum, found when it was verified")
                    break
        pin(log)


def next_scrub(log: "StreamLog") -> Task | None:
    """Return the task for the next segment that was not read for a day; None if none."""
    now = int(log.upkeep.now)
    if now == 0:
        return None
    started = log.upkeep.take_scrubbing()
    if isinstance(started, Scrub) and any(map(started.reads, log.index.segments)):
        return started
    files = log.segments.list_files()[:-1]
    # A time in the future is from before the clock was set back: it counts as unknown.
    times = {
        file.name: time if time <= now else 0
        for file in files
        for time in [log.upkeep.scrubbed.get(file.name, 0)]
    }
    files = [file for file in files if times[file.name] <= now - DAY_NS]
    if not files:
        return None
    return Scrub(log, min(files, key=lambda file: times[file.name]))


def read_scrubbed(log: "StreamLog") -> dict[str, int]:
    """Return when segments were last read, as recorded by earlier starts."""
    try:
        document = unframe(MAGIC, log.segments.files.read_file(log.segments.folder / NAME))
        return _decoder.decode(document) if document else {}
    except (OSError, ValueError):
        return {}
