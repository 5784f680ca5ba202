"""The folder of one stream: creates it, and opens it after a stop, crash or damage.

Opening changes as little as possible: it truncates what was never acknowledged, writes a mark next
to bytes it had to classify (``replay.py``), renews a damaged manifest. A start that is killed at
any point leaves a folder that the next start can open. A process that was killed may have left
bytes and names that are written but not synced; they are synced before any reader sees them.
"""

from bisect import bisect_right
from contextlib import AbstractContextManager, nullcontext, suppress
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from jetspark.errors.storage import CorruptRecord
from jetspark.store.files import NO_SPACE, Files
from jetspark.store.format.index_file import SUFFIX, IndexHead, is_of, read_index_file
from jetspark.store.format.manifest import (
    COPIES,
    Identity,
    Manifest,
    Stored,
    read_manifests,
    renew_manifests,
    write_manifest,
    write_manifests,
)
from jetspark.store.format.record import OVERHEAD
from jetspark.store.format.segment import (
    YOUNG_FILLER,
    SegmentHead,
    encode_head,
    filler_begins,
    parse_segment_name,
    read_head,
    segment_name,
    without_filler,
)
from jetspark.store.journal.view import StreamGroups
from jetspark.store.log.configuration import is_copy
from jetspark.store.log.preparation import Preparation
from jetspark.store.log.segment_files import head_of
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.findings import (
    CHECK_SIZE,
    DAMAGED,
    DOUBTFUL,
    TORN,
    BadRange,
    Recovery,
    last_group,
)
from jetspark.store.recovery.later_segments import LaterSegments
from jetspark.store.recovery.overlong import length_to_read
from jetspark.store.recovery.own_files import OwnFiles
from jetspark.store.recovery.pages import read_pages
from jetspark.store.recovery.replay import replay_segment
from jetspark.store.recovery.replay_index import replay_index_file
from jetspark.store.recovery.tail import Tail
from jetspark.store.upkeep.counts import UpkeepRates
from jetspark.store.upkeep.drop import SegmentRemoval
from jetspark.store.upkeep.quarantine import FOLDER as QUARANTINE
from jetspark.store.upkeep.quarantine import load_quarantine, open_quarantine
from jetspark.store.upkeep.scrub import NAME as SCRUBBED
from jetspark.store.upkeep.scrub import read_scrubbed

PLAIN: Final = UpkeepRates()
# The length from which on a segment is large: it is read whole.
LARGE: Final = 2 * 1024 * 1024
TEMPORARY: Final = ".tmp"  # left by an interrupted `Files.replace`


class Replayed(NamedTuple):
    """A replayed segment: its content up to the filler, and the end of its valid records.

    ``length``: the length of the content, which is not read if it is a full segment of which the
    index file has everything; then ``data`` is empty.
    ``has_filler``: its head is valid and filler follows its records, so nothing is missing.
    ``is_torn``: invalid bytes follow them. ``is_young``: it is the only file of a stream without
    manifests, and complete except for an interrupted write (``upkeep/manifests.py``).
    """

    data: bytes
    good: int
    length: int
    has_filler: bool = False
    is_torn: bool = False
    is_young: bool = False


class FoundFile(NamedTuple):
    """What was found of a segment with a valid head.

    ``start``: where it starts in the whole log; ``good``: the end of its valid records.
    """

    generation: int
    start: int
    good: int


class StreamUnidentified(CorruptRecord):
    """Nothing in the folder of a stream identifies the stream."""


class StreamFolder:
    """Creates or opens the log in one folder."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        segment_size: int,
        cache_budget: int,
        rates: UpkeepRates = PLAIN,
        *,
        in_memory: bool = False,
        groups: StreamGroups | None = None,
        large: AbstractContextManager[object] | None = None,
    ) -> None:
        """``groups``: what the journal has of the stream that the folder is named after.

        ``large`` is entered while a stream is opened that takes much memory for that.
        """
        self._large: AbstractContextManager[object] = large or nullcontext()
        self._groups = groups or StreamGroups(0)
        self._files = files
        self._folder = folder
        self._segment_size = segment_size
        self._cache_budget = cache_budget
        self._rates = rates
        self._in_memory = in_memory
        # The files in it when it was opened.
        self._names: frozenset[str] = frozenset()
        # The segments with a valid head: their first sequences, and their names.
        self._begins: list[tuple[int, str]] = []
        # Up to which position rewritten segments go, and the files that they replace.
        self._through = 0
        self._litter: list[str] = []
        # Whether the newest segment is empty and has a name that cannot be its own.
        self._misnamed = False
        # The replayed segments with a valid head.
        self._found: dict[str, FoundFile] = {}
        # The last sequence that was on disk according to a manifest.
        self._stored = 0
        # The newest segment was truncated because it was far too long.
        self._is_overlong = False
        # One segment and no manifest: complete if filler is left (``upkeep/manifests.py``).
        self._may_be_young = False
        # Messages before this sequence had been removed when a segment that exists was started.
        self._first_live = 0

    def create(self, identity: Identity) -> StreamLog:
        """Create an empty stream in a folder that does not exist yet.

        The name of the folder is durable only after its parent was synced.
        """
        log = self._log(identity)
        first = log.next_segment()
        filler = YOUNG_FILLER[: log.segments.filler_max]
        self._files.make_folder(self._folder.parent)
        self._files.make_filled(self._folder, {first.name: first.head + filler})
        preparation = Preparation(log.segments, identity, begins=first)
        preparation.made(self._files.open(self._folder / first.name), len(filler))
        log.prepared(preparation)
        if not self._in_memory:
            log.segments.without_manifests()
        return log

    def open(self) -> tuple[StreamLog, Recovery]:
        """Recover the stream; return the log and the findings.

        Raises StreamUnidentified if nothing identifies the stream, UnknownRecordKind and
        WrongStoreFormat if another version of jetspark wrote it.
        """
        names = self._files.list_folder(self._folder)
        own = OwnFiles(self._files, self._folder, names)
        try:
            with self._large if own.are_large(LARGE) else nullcontext():
                return self._open_own(names, own)
        finally:
            own.close()

    def _open_own(self, names: list[str], own: OwnFiles) -> tuple[StreamLog, Recovery]:
        recovery = Recovery()
        manifest: Manifest | None = None
        damaged = list(COPIES)
        # Files that do not exist are not opened: a start has many streams to open.
        if any(name in names for name in COPIES):
            manifest, damaged = read_manifests(self._files, self._folder, own.stream_id)
        identity = manifest.identity if manifest else own.identity()
        if identity is None:
            raise self._unidentified()
        segments = own.segments(recovery)
        self._begins = own.begins(segments)
        if recovery.notes:
            # Some were renamed.
            names = self._files.list_folder(self._folder)
        self._names = frozenset(names)
        log = self._log(identity, opening=True)
        self._may_be_young = (
            len(segments) == 1
            and begin_of(segments[0])[1] == 1
            # Or the first ones were being written.
            and (manifest is None or (manifest.epoch <= len(COPIES) and len(damaged) > 0))
            and not any(name in names for name in damaged)
        )
        if (
            self._folder.name != f"stream-{identity.stream_id:016x}"
            or self._groups.stream_id != identity.stream_id
        ):
            # A copy under another name is older than the journal.
            self._groups = StreamGroups(identity.stream_id)
        if not is_copy(identity):
            noted = manifest.last_seq if manifest is not None else 0
            self._stored = max(noted, self._groups.damaged_seq)
        if QUARANTINE in self._names:
            load_quarantine(log, recovery)
        try:
            newest = self._replay_all(log, manifest, segments, own, recovery)
            if newest.is_young:
                damaged = []
            floor = 0
            if manifest is not None:
                self._miss_oldest(manifest, segments, recovery)
            floor = self._miss_newest(log, manifest, segments, recovery)
            if manifest is not None:
                if manifest.end is not None:
                    self._miss_end(log, manifest.end, newest, recovery)
                self._miss_versions(log, manifest, recovery)
            if damaged:
                floor = max(floor, self._doubt_end(log, manifest, segments, newest, recovery))
            if not segments:
                recovery.note("there was no segment file; a new one was created")
                log.index.skip_to(floor)
                log.roll()
            used = max(int(log.staged.seq), int(log.index.last_seq), floor)
            log.restore_limits()
            if self._misnamed:
                log.segments.want_roll()
            elif log.limits.any and segments and self._is_holed(log, recovery):
                # Its replay has no limits from the hole on: later records go to a segment whose
                # head states them.
                log.segments.want_roll()
            open_quarantine(log, recovery)
            if SCRUBBED in self._names:
                log.upkeep.adopt_scrubbed(read_scrubbed(log))
            self._check_consumers(log, recovery)
            log.begin_staging(used)
            self._tidy(names, manifest, log, damaged, recovery, floor)
            # First what a killed process left undone: removals become durable in order.
            self._files.sync_folder(self._folder)
            while not log.access.read_only and log.drop_segment():
                pass
        except BaseException:
            log.close()
            raise
        log.opened(manifest)
        return log, recovery

    def _log(self, identity: Identity, *, opening: bool = False) -> StreamLog:
        return StreamLog(
            self._files,
            self._folder,
            identity,
            self._segment_size,
            self._cache_budget,
            self._rates,
            self._in_memory,
            opening,
        )

    def _unidentified(self) -> StreamUnidentified:
        return StreamUnidentified(
            str(self._folder),
            0,
            "both manifests and every segment head are unreadable, so the stream cannot be "
            "identified; move the folder out of the store to start without it",
        )

    # Files that are missing --------------------------------------------------------------------

    def _miss_oldest(self, manifest: Manifest, segments: list[str], recovery: Recovery) -> None:
        """Report missing files that a manifest lists; those before all others here.

        One in the middle is also detected by the sequences of its neighbours.
        """
        gone = [name for name in manifest.segments or () if name not in segments]
        for name in gone:
            recovery.note(f"the segment {name} is missing")
        before = [name for name in gone if segments and name < segments[0]]
        if before:
            # A version that does not record which files exist still removes them: what had been
            # removed before is not lost with the file.
            first = max(begin_of(before[0])[0], self._first_live)
            last = begin_of(segments[0])[0] - 1
            if first <= last:
                recovery.miss(segments[0], first, last, hidden=False)

    def _miss_newest(
        self, log: StreamLog, manifest: Manifest | None, segments: list[str], recovery: Recovery
    ) -> int:
        """Report a missing end of the log; return up to where no sequence may be used.

        A manifest, or the journal, says what was stored: a segment that was just started may be
        known to the journal only.
        """
        floor = manifest.sequence_floor if manifest is not None else 0
        if log.access.read_only or is_copy(log.identity):
            # What cannot be written now is not lost. A copy gets what it lost again, under its
            # origin's sequences.
            return floor
        last = int(log.index.last_seq)
        stored = self._stored
        listed = dict.fromkeys((manifest.segments if manifest is not None else None) or (), 0)
        journaled = {segment_name(*at): seq for at, seq in self._groups.segments().items()}
        unfound = [
            (name, last_seq)
            for name, last_seq in sorted((listed | journaled).items())
            if name not in segments and (not segments or name > segments[-1])
        ]
        if unfound:
            # How many messages followed the manifest is unknown: no more than fit.
            begin = begin_of(unfound[-1][0])[0] - 1
            floor = max(floor, begin + self._segment_size // int(OVERHEAD))
            stored = max(stored, begin, last + 1, unfound[-1][1])
        if stored > last:
            name = unfound[0][0] if unfound else "".join(segments[-1:])
            recovery.miss_end(name, last + 1, stored)
        return max(floor, stored)

    def _miss_end(
        self, log: StreamLog, end: tuple[str, int], newest: Replayed, recovery: Recovery
    ) -> None:
        """Report missing records of the newest segment, if nothing else is reported there.

        Those after its last message: deletes and purges, and states of consumers.
        """
        if not log.index.segments or log.index.segments[-1].name != end[0]:
            return
        if newest.good >= end[1] or log.access.read_only or is_copy(log.identity):
            return
        start = int(log.index.segments[-1].start)
        place = (start + newest.good, end[1] - newest.good)
        if recovery.is_damaged(*place) or recovery.truncated or recovery.is_unread(*place):
            return
        last = int(log.index.last_seq)
        reason = (
            f"the end of the log is missing: changes after message {last} were lost (deletes, "
            "purges, states of consumers), so deleted messages may exist again"
        )
        recovery.doubt(end[0], last, reason)
        recovery.note(reason)

    def _miss_versions(self, log: StreamLog, manifest: Manifest, recovery: Recovery) -> None:
        """Report files that are older versions of themselves.

        They may be complete, and have what was removed when they were rewritten; or lack what was
        written later: missing messages are reported as such, other records are not noticed
        otherwise.
        """
        newest = log.index.segments[-1].name if log.index.segments else ""
        listed = zip(manifest.segments or (), manifest.versions or (), strict=False)
        for name, (generation, records_end) in listed:
            found = self._found.get(name)
            if found is None:
                continue  # missing, or its head is damaged
            expected = records_end
            if manifest.end is not None and manifest.end[0] == name != newest:
                # It was the newest one. If it still is, `_miss_end` reports its end.
                expected = max(expected, manifest.end[1])
            if found.generation < generation:
                lacks = f"it has generation {found.generation}, the last one had {generation}"
            elif name == newest and (log.access.read_only or is_copy(log.identity)):
                # Its end is not lost (`_miss_newest`); segments after it may be.
                continue
            elif found.generation == generation and found.good < expected:
                place = (found.start + found.good, expected - found.good)
                if recovery.is_damaged(*place) or recovery.is_unread(*place):
                    continue
                lacks = f"{place[1]} bytes at its end are missing"
            else:
                continue
            reason = (
                f"the segment is an older version of itself ({lacks}): changes were lost "
                "(deletes, purges, states of consumers), so deleted messages may exist again"
            )
            recovery.find_older(name, generation, expected, reason)

    def _doubt_end(
        self,
        log: StreamLog,
        manifest: Manifest | None,
        segments: list[str],
        newest: Replayed,
        recovery: Recovery,
    ) -> int:
        """Return up to where no sequence may be used although it is not known to be used.

        Manifests are lost, and nothing proves that the log ended where it does now: messages after
        that may have been acknowledged, no more than fit into one segment.
        """
        if log.access.read_only or is_copy(log.identity):
            return 0
        first = begin_of(segments[0])[0] if segments else 1
        if manifest is None and first > 1:
            # They may as well have been removed when nothing was left of them.
            reason = (
                "both manifests were lost: it is unknown whether files with messages before "
                f"{first} were"
            )
            recovery.doubt(segments[0], 0, reason)
        if newest.has_filler or not (manifest is None or newest.is_torn):
            # Only the newest segment has filler. A manifest lists the files, so with one of them
            # it is enough that the newest file ends with a record.
            return 0
        last = int(log.index.last_seq)
        floor = last + self._segment_size // int(OVERHEAD)
        reason = f"a manifest was lost: it is unknown whether messages after {last} were"
        recovery.doubt("".join(segments[-1:]), last, reason)
        recovery.note(
            f"a manifest was lost, and it is unknown whether messages after {last} are: "
            f"sequences up to {floor} are not reused"
        )
        return floor

    # Segments ----------------------------------------------------------------------------------

    def _replay_all(
        self,
        log: StreamLog,
        manifest: Manifest | None,
        segments: list[str],
        own: OwnFiles,
        recovery: Recovery,
    ) -> Replayed:
        """Replay the segments, oldest first; return the newest of them."""
        replayed = Replayed(b"", 0, 0)
        for name in segments:
            if (parse_segment_name(name) or (0, 0))[1] < self._through:
                # A rewritten segment contains what is left of it (``compaction.py``).
                self._litter.append(name)
                continue
            newest = name == segments[-1]
            handle = own.take_handle(name)
            if handle < 0:
                handle = self._files.open(self._folder / name)
            replayed = self._replay(log, handle, name, recovery, newest=newest)
            data, good = replayed.data, replayed.good
            if newest:
                if replayed.is_young:
                    stays = manifest is None and replayed.has_filler and not recovery.pending
                    self._keep_young(log, name, recovery, stays=stays)
                self._conclude(log, data, good, recovery)
            else:
                # The next segment was started when all of this one was on disk.
                if good < replayed.length:
                    self._add_pending(log, good, replayed.length, recovery)
                recovery.settle(DAMAGED, 0)
                log.segments.records_end(replayed.length)
                log.segments.seal(good)
        if self._litter:
            # Before anything else is removed: they contain what was removed.
            log.upkeep.remove_later(
                SegmentRemoval(log.upkeep, log.segments, [], self._litter, log.identity.stream_id)
            )
        return replayed

    def _replay(
        self, log: StreamLog, handle: int, name: str, recovery: Recovery, *, newest: bool
    ) -> Replayed:
        """Add one open segment to the log and apply its records."""
        try:
            if newest and self._groups.entries:
                self._write_journaled(handle, name, recovery)
            size = self._size_of(log, handle, name, recovery, newest=newest)
        except BaseException:
            self._files.close(handle)
            raise
        rows = log.index.segments
        start = int(rows[-1].start + log.segments.end) if rows else 0
        named = parse_segment_name(name)
        assert named is not None, "only segments get here"
        first_seq, first_position = named
        last = int(log.index.last_seq)
        if log.index.segments and first_seq > last + 1:
            # They may be in the unreadable end of the file before.
            before = int(log.index.segments[-1].start)
            hidden = recovery.is_unread(before, start - before)
            recovery.miss(name, last + 1, first_seq - 1, hidden=hidden)
        follows = not rows or first_position > log.index.position
        log.index.skip_to(first_seq - 1)
        log.index.reach(first_position - 1)
        log.segments.add(handle, name, size)
        index_file = read_index_file(log, name) if name + SUFFIX in self._names else None
        if index_file is not None and index_file[0].covered > size:
            if newest:
                self._forget_index_file(log, name, "covers more than its segment has", recovery)
        # With sequences that are used already, each record must be checked.
        elif index_file is not None and log.index.last_seq < first_seq:
            ready = self._replay_index_file(log, index_file, recovery, newest=newest)
            if ready is not None:
                return ready
        data, unread = read_pages(self._files, handle, 0, size)
        recovery.note_read(size, start, unread)
        head = read_head(data)
        if newest:
            data = self._proven(log, data, head[1] if head else 0, recovery)
        # A damaged head affects only itself: the name says where the segment starts, and records
        # are found by their magic.
        first_offset = head[1] if head else 0
        log.segments.records_begin(first_offset)
        if head:
            self._apply_head(log, head[0])
        later = self._later(log, name)
        good = int(replay_segment(log, data, first_offset, recovery, later, sealed=not newest))
        if head:
            self._found[name] = FoundFile(int(head[0].generation), start, good)
        replayed = self._replayed(data, good, head is not None)
        if newest and head is None and good == 0 and not log.access.read_only and not unread:
            fresh = encode_head(log.identity, first_seq, first_position)
            if len(replayed.data) <= len(fresh) and not follows:
                # What is stored in it would be lost once one of the others was rewritten.
                self._misnamed = True
                recovery.note(
                    f"{name} is empty, and by its name it belongs before a segment that exists: "
                    "messages go to a new one"
                )
            elif len(replayed.data) <= len(fresh):
                self._renew_head(log, replayed.data, fresh, recovery)
                return replayed._replace(data=fresh, good=len(fresh), length=len(fresh))
        return replayed

    def _write_journaled(self, handle: int, name: str, recovery: Recovery) -> None:
        """Write to the newest segment what the journal has of it; ``_proven`` syncs it.

        Older segments were synced before the newest one was started. Raises OSError.
        """
        head = head_of(self._files, handle)
        written = self._groups.write_to(
            self._files,
            handle,
            parse_segment_name(name),
            head[0].generation if head is not None else 0,
        )
        recovery.note_journaled(written)

    def _size_of(
        self, log: StreamLog, handle: int, name: str, recovery: Recovery, *, newest: bool
    ) -> int:
        """Return how much of a segment to read; less than all only if it is absurdly long."""
        size = length_to_read(self._files, handle, name, log.codec)
        whole = self._files.size(handle)
        if size == whole:
            return size
        self._is_overlong = newest
        recovery.note(
            f"{name} has {whole} bytes, and no record starts after {size}: the rest is ignored"
        )
        if newest:
            # Otherwise what is written next would be in the middle of the file.
            try:
                self._files.truncate(handle, size)
            except OSError as error:
                log.access.stop()
                recovery.note(f"the stream is read-only: cannot truncate {name}: {error}")
        return size

    def _replay_index_file(
        self,
        log: StreamLog,
        index_file: tuple[IndexHead, bytes],
        recovery: Recovery,
        *,
        newest: bool,
    ) -> Replayed | None:
        """Replay an index file and read the rest; None if the segment's head is damaged."""
        covered, first_offset = index_file[0].covered, index_file[0].first_offset
        handle, size = int(log.segments.handle), int(log.segments.filled_to)
        try:
            head = read_head(self._files.read(handle, 0, first_offset))
            is_of_content = is_of(index_file[0], self._files, handle)
        except OSError:
            head = None
            is_of_content = False
        name = index_file[0].segment
        if head is not None and head[0].generation < index_file[0].generation:
            # The segment is an older version of itself, and gets this generation again when it is
            # rewritten.
            self._forget_index_file(log, name, "is of a newer version of its segment", recovery)
            return None
        if head is None or head[0].generation != index_file[0].generation or not is_of_content:
            return None
        log.segments.records_begin(first_offset)
        self._apply_head(log, head[0])
        lost = log.quarantine.lost_ranges(name, int(head[0].generation))
        recovery.note_records(replay_index_file(log, index_file[1], lost))
        log.upkeep.note_indexed(index_file[0].segment, covered)
        rest, unread = read_pages(self._files, handle, covered, max(size - covered, 0))
        start = int(log.index.segments[-1].start)
        recovery.note_read(first_offset + len(index_file[1]) + len(rest), start, unread)
        later = self._later(log, name)
        if not rest and not newest:
            # Not even zeros in its place: a stream has many full segments, of 32 MB.
            replay_segment(log, b"", covered, recovery, later)
            self._found[name] = FoundFile(int(head[0].generation), start, covered)
            return Replayed(b"", covered, covered)
        # The part that the index file covers is not read; the rest must keep its offsets.
        data = bytes(covered) + rest
        if newest:
            data = self._proven(log, data, covered, recovery)
        good = int(replay_segment(log, data, covered, recovery, later))
        self._found[name] = FoundFile(int(head[0].generation), start, good)
        return self._replayed(data, good, True)

    def _later(self, log: StreamLog, name: str) -> LaterSegments:
        """Return the segments after one."""
        begins = self._begins[bisect_right(self._begins, name, key=itemgetter(1)) :]
        return LaterSegments(self._files, self._folder, log.identity.stream_id, begins)

    def _forget_index_file(
        self, log: StreamLog, name: str, problem: str, recovery: Recovery
    ) -> None:
        """Remove the index file of a segment that is less than it says.

        Before anything is written there: the next start would consider that indexed.
        """
        try:
            self._files.remove(self._folder / (name + SUFFIX))
        except OSError as error:
            log.access.stop()
            recovery.note(
                f"the stream is read-only: {name + SUFFIX} {problem}, and cannot be removed: "
                f"{error}"
            )

    def _replayed(self, data: bytes, good: int, whole_head: bool) -> Replayed:
        """Describe a replayed segment by its bytes and the end of its valid records."""
        content = without_filler(data, good)
        return Replayed(
            content,
            good,
            len(content),
            has_filler=whole_head and good == len(content) < len(data),
            is_torn=not whole_head or good < len(content),
            is_young=self._may_be_young and whole_head and len(content) < len(data),
        )

    def _apply_head(self, log: StreamLog, head: SegmentHead) -> None:
        """Apply what the head of a segment says about everything before it."""
        self._through = max(self._through, head.through)
        self._first_live = max(self._first_live, head.first_live)
        log.apply_head(head)

    def _check_consumers(self, log: StreamLog, recovery: Recovery) -> None:
        """Report consumers of which only the state is left."""
        for consumer_id in log.engine_state.drop_nameless():
            if recovery.damaged:
                recovery.note(
                    f"the configuration of consumer id {consumer_id} was in a damaged range; "
                    "the consumer is lost and must be created again"
                )

    def _is_holed(self, log: StreamLog, recovery: Recovery) -> bool:
        """Return whether the newest segment has invalid bytes, and records."""
        start = log.index.segments[-1].start
        named = parse_segment_name(log.index.segments[-1].name)
        return (
            named is not None
            and log.index.position >= named[1]
            and (recovery.torn_bytes > 0 or any(where >= start for where, _ in recovery.damaged))
        )

    def _renew_head(self, log: StreamLog, data: bytes, fresh: bytes, recovery: Recovery) -> None:
        """Rewrite the damaged head of the newest segment if nothing follows it."""
        recovery.begin_pending(BadRange(log.index.segments[-1].start, len(data)))
        recovery.settle(DAMAGED, 0)
        recovery.note("the head of an empty segment was damaged; it was written again")
        log.segments.records_begin(len(fresh))
        try:
            self._files.write_synced(int(log.segments.handle), [fresh], 0)
        except OSError as error:
            log.access.stop()
            recovery.note(f"that failed, so the stream is read-only: {error}")

    def _proven(self, log: StreamLog, data: bytes, covered: int, recovery: Recovery) -> bytes:
        """Write the last group to the disk again; return the part of the segment that is certain.

        A process that was killed, or whose sync failed, leaves bytes that the system shows to the
        next one and still loses with the power: after a failed sync no later one covers them. Only
        writing them again does. If that fails, readers do not see them: they may have been
        acknowledged, so they stay where they are for a start on a disk that works.
        """
        begin = last_group(log.codec, data, covered)
        end = min(len(data), filler_begins(data) + CHECK_SIZE)
        # The zeros that replace unreadable bytes must not be written.
        start = int(log.index.segments[-1].start)
        unread = recovery.is_unread(start + begin, end - begin)
        try:
            if begin < end and not unread:
                self._files.write(int(log.segments.handle), [data[begin:end]], begin)
            # One sync for both: with hundreds of streams they dominate a start.
            self._files.sync(int(log.segments.handle))
        except OSError as error:
            log.access.stop()
            recovery.note(
                f"the stream is read-only and its last {len(data) - begin} bytes are not served "
                f"until a start can write them: {error}"
            )
            return data[:begin]
        return data

    def _add_pending(
        self, log: StreamLog, first: int, end: int, recovery: Recovery, last_seq: int = 0
    ) -> None:
        bad = BadRange(log.index.segments[-1].start + first, end - first)
        if last_seq > log.index.last_seq:
            bad.missing(log.index.last_seq + 1, last_seq)
        recovery.begin_pending(bad)

    def _keep_young(self, log: StreamLog, name: str, recovery: Recovery, *, stays: bool) -> None:
        """Let a stream without manifests stay so; or write them, or the one that is missing."""
        if stays:
            log.segments.without_manifests()
        elif not log.access.read_only:
            # First of all: without the filler, which is truncated, its end would be in doubt.
            try:
                write_manifests(self._files, self._folder, log.identity, Stored(segments=(name,)))
            except OSError as error:
                log.access.stop()
                recovery.note(f"the stream is read-only without manifests: {error}")

    def _conclude(self, log: StreamLog, data: bytes, good: int, recovery: Recovery) -> None:
        """Classify what is left of the newest segment and record that after it."""
        log.segments.records_end(good)
        if good == len(data) and not recovery.pending:
            return
        tail = Tail(log, data, good)
        if recovery.is_unread(int(log.index.segments[-1].start) + good, len(data) - good):
            # It may be intact: nothing is truncated.
            tail.judge(DOUBTFUL)
        elif log.index.last_seq < self._stored or recovery.is_stored(self._stored):
            # Not the rest of an interrupted write: some of it was on disk. The mark says so: at
            # later starts the sequences after it are on disk as well.
            tail.judge(DAMAGED)
        if self._is_overlong:
            # The content is unknown: no more than fits into a segment.
            tail.limit(log.index.last_seq + self._segment_size // OVERHEAD)
        if good < len(data):
            self._add_pending(log, good, len(data), recovery, int(tail.last_seq))
        recovery.settle(tail.verdict, log.index.segments[-1].start + tail.since)
        # The sequences of a copy are its origin's: it gets what it lost again, under the same
        # ones.
        log.begin_staging(log.index.last_seq if is_copy(log.identity) else tail.last_seq)
        torn = tail.verdict == TORN and good < len(data)
        if not torn:
            log.segments.records_end(len(data))
        if log.access.read_only:
            return
        log.staged.add_skip(tail.mark(len(data) if torn else 0))
        group = log.seal_group()
        group.without_filler()
        try:
            self._files.write_synced(int(group.handle), [group.blob], int(group.offset))
        except OSError as error:
            recovery.note(f"the sequences of a lost tail could not be recorded: {error}")
            log.fail(error.errno in NO_SPACE)
            return
        log.commit()
        if log.segments.end < len(data):
            self._cut(log, recovery)

    def _cut(self, log: StreamLog, recovery: Recovery) -> None:
        try:
            log.segments.cut()
        except OSError as error:
            log.access.stop()
            recovery.note(f"the stream is read-only: cannot truncate its tail: {error}")

    # Metadata ----------------------------------------------------------------------------------

    def _tidy(
        self,
        names: list[str],
        manifest: Manifest | None,
        log: StreamLog,
        damaged: list[str],
        recovery: Recovery,
        floor: int,
    ) -> None:
        """Remove litter and renew damaged metadata. Failures have no effect on this start.

        ``floor``: the next start finds complete files, and no reason to skip the sequences up to
        there unless a message was stored after them.
        """
        for name in names:
            orphaned = name.endswith(SUFFIX) and name.removesuffix(SUFFIX) not in names
            if name.endswith(TEMPORARY) or orphaned:
                with suppress(OSError):
                    self._files.remove(self._folder / name)
        for name in damaged:
            recovery.note(f"{name} was missing or damaged; it was written again")
        known = max(int(log.index.last_seq), manifest.sequence_floor if manifest else 0)
        with suppress(OSError):
            if not log.segments.has_manifests:
                pass  # they are written later, from what the log has
            elif manifest is None or log.upkeep.manifest_due or floor > known:
                renew_manifests(self._files, self._folder, log.identity, floor)
            elif damaged:
                # The next copy to write is always the other one, which is the damaged one.
                renewed = msgspec.structs.replace(
                    manifest, epoch=manifest.epoch + 1, identity=log.identity
                )
                write_manifest(self._files, self._folder, renewed)
        log.upkeep.want_manifest(False)


def begin_of(name: str) -> tuple[int, int]:
    """Return first sequence and first position of a segment."""
    parts = parse_segment_name(name)
    assert parts is not None, "only segments are listed"
    return parts
