"""Quarantine: damaged bytes are copied to files of their own, and their messages are lost.

Damage is found when a stream is opened, when a record is read, when a segment is rewritten and by
the scrubber. Nothing is ever removed from the middle of a file because of it: neighbours are
served from where they are. A task copies the bytes to ``quarantine/<segment>-<offset>.bin`` and
adds a line to ``quarantine/found.jsonl`` that says what, where, why and when. Only then may the
segment be rewritten without them, or removed if nothing else is left in it.

A message whose record is certainly damaged is no longer in the stream: it is counted as lost
instead (``state.lost``), now and, from its line, after restarts. A line that is itself damaged
loses that information and nothing else.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_64_hexdigest

from jetspark.store.files import Files
from jetspark.store.format.record import Codec
from jetspark.store.recovery.findings import MAGIC_BYTES
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.columns import Columns
    from jetspark.store.log.stream_log import StreamLog
    from jetspark.store.recovery.replay import Recovery

FOLDER: Final = "quarantine"
LINES: Final = "found.jsonl"
# How much is read at a time when searching for the end of a damaged range.
SEARCH_READ: Final = 1024 * 1024


class Damage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A damaged range of bytes; negative offset: files, or parts of them, are missing."""

    segment: str
    offset: int
    length: int
    reason: str
    # The messages that were in it, or may have been; 0: none.
    first_seq: int = 0
    last_seq: int = 0
    # At most this many of them.
    messages: int = 0
    # It may as well be the rest of a write that was never acknowledged.
    doubtful: bool = False
    # The disk failed to read it. It is forgotten when a start can read it.
    unread: bool = False
    # The generation of the file: a rewritten one has other bytes there.
    generation: int = 0
    time_ns: int = 0

    @property
    def key(self) -> tuple[str, int, int]:
        """Equal for the same place."""
        return (self.segment, self.generation, self.offset)

    def exceeds(self, known: "Damage") -> bool:
        """Return whether it is larger than what was known of the same place."""
        return self.length > known.length or self.last_seq > known.last_seq


class Quarantine:
    """The damage of one stream, copied to quarantine or not yet."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int, int], Damage] = {}
        # Not copied yet, and not reported to the engine yet.
        self.waiting: list[Damage] = []
        self.news: list[Damage] = []
        # Copying failed.
        self.refused: bool = False
        # A start found files, or parts of them, missing, and could not record that.
        self.unrecorded: bool = False

    def note(self, damage: Damage) -> None:
        """Add damage; a known place is added once, unless it has grown."""
        known = self.known.get(damage.key)
        if known is None or damage.exceeds(known):
            self.known[damage.key] = damage
            self.waiting = [each for each in self.waiting if each.key != damage.key]
            self.waiting.append(damage)
            self.news.append(damage)
            self.refused = False

    def note_copied(self, damages: list[Damage]) -> None:
        """Note that damaged ranges were copied; some may have grown meanwhile."""
        for damage in damages:
            if not self.known[damage.key].exceeds(damage):
                self.known[damage.key] = damage
                self.waiting = [each for each in self.waiting if each.key != damage.key]

    def first_unread(self) -> int:
        """Return the lowest sequence that the disk failed to read; 0: none. It may recover."""
        unread = (damage.first_seq for damage in self.known.values() if damage.unread)
        return min((seq for seq in unread if seq > 0), default=0)

    def forget_unread(self) -> None:
        """Forget what the disk failed to read: it is tried again."""
        self.known = {key: damage for key, damage in self.known.items() if not damage.unread}

    def refuse(self) -> None:
        """Note that copying failed: no retry before the next segment is started."""
        self.refused = True

    def note_unrecorded(self, unrecorded: bool) -> None:
        """Note whether only the other files tell that some are missing."""
        self.unrecorded = unrecorded

    def retry(self) -> None:
        """Note that a segment was started: copying is worth another try."""
        self.refused = False

    def take_news(self) -> list[Damage]:
        """Return what was found since the last call: for advisories, metrics and logs."""
        news, self.news = self.news, []
        return news

    def lost_ranges(self, name: str, generation: int) -> list[tuple[int, int]]:
        """Return where the lost messages of a file were: from which offset to which, ascending."""
        return sorted(
            (damage.offset, damage.offset + damage.length)
            for damage in self.known.values()
            if (damage.segment, damage.generation) == (name, generation)
            and damage.first_seq > 0
            and damage.length > 0
        )

    def copied(self, files: set[tuple[str, int]]) -> list[Damage]:
        """Return what was copied from files, given by name and generation."""
        waiting = {damage.key for damage in self.waiting}
        return [
            damage for key, damage in self.known.items() if key[:2] in files and key not in waiting
        ]

    @property
    def proven(self) -> list[Damage]:
        """Return the damage of acknowledged bytes, without the rest of an interrupted write.

        Unreadable bytes may be intact, and count until they can be read.
        """
        return [damage for damage in self.known.values() if damage.unread or not damage.doubtful]

    @property
    def lost(self) -> list[tuple[int, int]]:
        """Return the lost ranges of acknowledged sequences (first, last), ascending."""
        merged: list[tuple[int, int]] = []
        spans = sorted((d.first_seq, d.last_seq) for d in self.proven if d.first_seq)
        for first, last in spans:
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return merged

    @property
    def lost_messages(self) -> int:
        """Return how many messages are lost, at most."""
        return sum(damage.messages for damage in self.proven)

    @property
    def uncounted_places(self) -> int:
        """Return in how many places parts of files are missing: messages cannot be counted."""
        return sum(1 for damage in self.proven if not damage.length and not damage.messages)

    @property
    def lost_bytes(self) -> int:
        """Return how many acknowledged bytes are damaged."""
        return sum(damage.length for damage in self.proven)

    @property
    def doubtful_bytes(self) -> int:
        """Return how many damaged bytes may never have been acknowledged."""
        return sum(damage.length for damage in self.known.values()) - self.lost_bytes

    def load(self, files: Files, folder: Path) -> int:
        """Read the findings of earlier starts; return how many lines are damaged."""
        try:
            lines = files.read_file(folder / FOLDER / LINES).splitlines()
        except OSError:
            return 0
        bad = 0
        for line in lines:
            damage = parse_line(line)
            if damage is None:
                bad += 1
            else:
                self.known[damage.key] = damage
        return bad


def format_line(damage: Damage) -> bytes:
    """Return a line: JSON, a blank, and its checksum."""
    document = msgspec.json.encode(damage)
    return document + b" " + xxh3_64_hexdigest(document).encode() + b"\n"


def parse_line(line: bytes) -> Damage | None:
    """Parse a line; None if its checksum is wrong."""
    document, _, check = line.rpartition(b" ")
    if xxh3_64_hexdigest(document).encode() != check:
        return None
    try:
        return msgspec.json.decode(document, type=Damage)
    except ValueError:
        return None


def load_quarantine(log: "StreamLog", recovery: "Recovery") -> None:
    """Load the findings of earlier starts, before the replay."""
    bad_lines = log.quarantine.load(log.segments.files, log.segments.folder)
    if bad_lines:
        recovery.note(
            f"{bad_lines} lines of {FOLDER}/{LINES} are damaged: what they said about damage "
            "found earlier is lost"
        )
    log.quarantine.forget_unread()


def open_quarantine(log: "StreamLog", recovery: "Recovery") -> None:
    """Add the findings of opening the stream."""
    note_recovery(log, recovery)
    record_missing(log)
    forget_lost(log)
    pin(log)


def record_missing(log: "StreamLog") -> None:
    """Write lines for what is missing, before anything else changes.

    There are no bytes to copy, and nothing but a gap between other files, or an older manifest,
    says the same to the next start: files with nothing left in them are removed, and manifests
    written, right after this. If it fails, both wait until the lines are written.
    """
    quarantine = log.quarantine
    missing = [damage for damage in quarantine.waiting if damage.offset < 0 and not damage.unread]
    if not missing:
        return
    waiting = {damage.key for damage in quarantine.waiting}
    before = [damage for key, damage in quarantine.known.items() if key not in waiting]
    files, folder = log.segments.files, log.segments.folder / FOLDER
    try:
        files.make_folder(folder)
        files.replace(folder / LINES, b"".join(map(format_line, before + missing)))
    except OSError:
        quarantine.note_unrecorded(True)


def reason_of(unread: bool, doubtful: bool) -> str:
    """Describe what is wrong with a range."""
    if unread:
        return "cannot be read"
    return "doubtful: damaged, or never written completely" if doubtful else "wrong checksum"


def note_recovery(log: "StreamLog", recovery: "Recovery") -> None:
    """Add the findings of opening the stream."""
    for bad, doubtful in recovery.judged:
        unread = recovery.is_unread(int(bad.where), int(bad.length))
        for columns in reversed(log.index.segments):
            if columns.start <= bad.where:
                log.quarantine.note(
                    Damage(
                        segment=columns.name,
                        offset=int(bad.where - columns.start),
                        length=int(bad.length),
                        reason=reason_of(unread, doubtful),
                        first_seq=int(bad.first_seq),
                        last_seq=int(bad.last_seq),
                        messages=bad.messages,
                        doubtful=doubtful,
                        unread=unread,
                        generation=int(columns.generation),
                    )
                )
                break
    for name, first, last, unread in recovery.missing:
        log.quarantine.note(
            Damage(
                segment=name,
                offset=-1,
                length=0,
                reason="cannot be read" if unread else "a segment before this one is missing",
                first_seq=first,
                last_seq=last,
                messages=last - first + 1,
                unread=unread,
            )
        )
    for name, first, last in recovery.truncated:
        log.quarantine.note(
            Damage(
                segment=name,
                # No place: another missing end at a later time is another damage.
                offset=-first - 1,
                length=0,
                reason="the end of the log is missing",
                first_seq=first,
                last_seq=last,
                messages=last - first + 1,
            )
        )
    for name, seq, reason in recovery.doubted:
        # No place, as above.
        log.quarantine.note(Damage(segment=name, offset=-seq - 1, length=0, reason=reason))
    for name, generation, end, reason in recovery.outdated:
        # No place either; of the version that is lost.
        log.quarantine.note(
            Damage(segment=name, offset=-end - 1, length=0, reason=reason, generation=generation)
        )
    for name, length, reason in recovery.foreign:
        log.quarantine.note(
            Damage(
                segment=name,
                offset=-1,
                length=length,
                reason=reason,
            )
        )


def note_unreadable(log: "StreamLog") -> None:
    """Add what readers found; a record that is valid now is not damaged."""
    for seq, reason in log.reader.take_unreadable().items():
        columns = log.index.segment_of(seq)
        if columns is None:
            continue
        offset = int(columns.offset_at(seq - columns.base))
        if offset == 0:
            continue
        try:
            length = damaged_length(log.segments.files, log.codec, int(columns.handle), offset)
        except OSError:
            # Damage was reported: it is not forgotten because the disk fails now.
            log.reader.note_unreadable(seq, reason)
            continue
        if length > 0:
            log.quarantine.note(
                Damage(
                    segment=columns.name,
                    offset=offset,
                    length=length,
                    reason=reason,
                    first_seq=seq,
                    last_seq=seq,
                    messages=1,
                    generation=int(columns.generation),
                    time_ns=int(log.upkeep.now),
                )
            )


def note_place(log: "StreamLog", columns: "Columns", offset: int, reason: str) -> None:
    """Add the invalid bytes that a full read found at a place of a segment."""
    try:
        length = damaged_length(log.segments.files, log.codec, int(columns.handle), offset)
    except OSError:
        return  # the next scrub finds it again
    if length == 0:
        return
    inside = [
        int(rows.base) + i
        for rows in log.index.segments
        if rows.handle == columns.handle
        for i in range(len(rows.offsets))
        # A removed message has no offset, and no record of it is lost.
        if max(offset, 1) <= rows.offset_at(i) < offset + length
    ]
    log.quarantine.note(
        Damage(
            segment=columns.name,
            offset=offset,
            length=length,
            reason=reason,
            first_seq=min(inside, default=0),
            last_seq=max(inside, default=0),
            messages=len(inside),
            generation=int(columns.generation),
            time_ns=int(log.upkeep.now),
        )
    )
    pin(log)


def damaged_length(files: Files, codec: Codec, handle: int, offset: int) -> int:
    """Return how many bytes at an offset are invalid; 0 if none. Raises OSError."""
    length = files.size(handle) - offset
    if length <= 0:
        return 0
    data = files.read(handle, offset, min(length, SEARCH_READ))
    framed = int(codec.framed_length(data, 0)) if len(data) >= 50 else -1
    if framed > len(data):
        data = files.read(handle, offset, min(framed, length))
    if codec.examine(data, 0) > 0:
        return 0
    if 0 < framed <= len(data):
        return framed
    at = data.find(MAGIC_BYTES, 1)
    while at >= 0:
        if codec.examine(data, at) > 0:
            return at
        at = data.find(MAGIC_BYTES, at + 1)
    return len(data)


class Quarantining(Task):
    """Copies damaged ranges to quarantine, one per step, and then writes the lines."""

    def __init__(self, log: "StreamLog", now: int) -> None:
        quarantine = log.quarantine
        self.damages: list[tuple[Damage, int]] = [
            (
                msgspec.structs.replace(damage, time_ns=damage.time_ns or now),
                handle_of(log, damage),
            )
            for damage in quarantine.waiting
        ]
        waiting = {damage.key for damage in quarantine.waiting}
        self.before: list[Damage] = [
            d for key, d in quarantine.known.items() if key not in waiting
        ]
        self._log = log
        handles = [handle for _, handle in self.damages if handle >= 0]
        super().__init__(log.segments.files, handles, "quarantining damaged bytes")
        self.folder: Path = log.segments.folder / FOLDER
        self.done: list[Damage] = []
        self.made: bool = False

    def step(self) -> bool:
        """Copy the next range; raises OSError if the disk fails."""
        if not self.made:
            self.files.make_folder(self.folder)
            self.made = True
        elif len(self.done) < len(self.damages):
            damage, handle = self.damages[len(self.done)]
            if handle >= 0 and damage.length > 0 and not damage.unread:
                content = self.files.read(handle, damage.offset, damage.length)
                self.files.replace(self.folder / f"{kept_name(damage)}.bin", content)
                self.note_moved(2 * damage.length)
            self.done.append(damage)
        else:
            lines = [format_line(damage) for damage in self.before + self.done]
            self.files.replace(self.folder / LINES, b"".join(lines))
            return True
        return False

    def finish(self, failed: bool) -> None:
        """Record what was copied, and release lost messages and pinned segments."""
        log = self._log
        if failed:
            log.quarantine.refuse()
            return
        if log.closed:
            return
        log.quarantine.note_copied(self.done)
        log.quarantine.note_unrecorded(False)
        forget_lost(log)
        pin(log)
        log.upkeep.compact_again()


def kept_name(damage: Damage) -> str:
    """Return the file name of the copy of a damaged range."""
    name = f"{damage.segment}-{damage.offset}"
    return f"{name}-{damage.generation}" if damage.generation else name


def handle_of(log: "StreamLog", damage: Damage) -> int:
    """Return the open file that contains damage; -1 if it was removed."""
    for columns in log.index.segments:
        if columns.name == damage.segment and columns.generation == damage.generation:
            return int(columns.handle)
    return -1


def pin(log: "StreamLog") -> None:
    """Keep the segments with damaged bytes that were not copied yet.

    Unreadable bytes cannot be copied: they are kept until a start can read them.
    """
    pinned = {damage.segment for damage in log.quarantine.waiting}
    pinned |= {damage.segment for damage in log.quarantine.known.values() if damage.unread}
    for columns in log.index.segments:
        columns.pin(columns.name in pinned)


def forget_lost(log: "StreamLog") -> None:
    """Remove messages from the index whose records are known to be damaged.

    They are in it if the index came from an index file. Whatever the range contained, a row in it
    cannot be served.
    """
    waiting = {damage.key for damage in log.quarantine.waiting}
    for damage in log.quarantine.known.values():
        if damage.key in waiting or not damage.first_seq:
            continue
        seq = int(log.index.next_seq(damage.first_seq, b""))
        while 0 < seq <= damage.last_seq:
            columns = log.index.segment_of(seq)
            assert columns is not None, "the row was found there"
            offset = int(columns.offset_at(seq - columns.base)) - damage.offset
            place = (columns.name, int(columns.generation), damage.offset)
            if place == damage.key and 0 <= offset < damage.length:
                log.index.remove(seq)
            seq = int(log.index.next_seq(seq + 1, b""))
