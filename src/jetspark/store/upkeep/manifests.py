"""Updating manifests: a stream's configuration, its files, and how far it is stored.

A manifest lists the segments, the last sequence that was certainly stored and where the newest
segment certainly ended, so that a missing or truncated file is detected. It has the generation and
the end of every full segment as well, so that an older version of one is: without the record that
deleted a message in it, which may have been left out of a rewritten segment since, the message
would be served again. It is written in the background: when segments are added or removed, once
per period while records are written or files rewritten (``Upkeep.want_note``), and when a log is
closed. Before a file is removed, both copies stop listing it.

A young stream has none. It has one segment with its identity, created with filler, and everything
is written over that filler: a start knows that nothing is missing while some of it is left. Before
a group that does not fit there, and at levels other than ``durable``, the first manifests are
written (``StreamLog.preparation``); otherwise when half of it is used, or after one period.

Not compiled: runs once per period.
"""

from typing import TYPE_CHECKING

from jetspark.store.format.manifest import Stored, note_stored, renew_manifests, write_manifests
from jetspark.store.log.configuration import is_copy
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog


def names_of(log: "StreamLog") -> tuple[str, ...]:
    """Return the files of a log, oldest first."""
    return tuple(file.name for file in log.segments.list_files())


def versions_of(log: "StreamLog") -> tuple[tuple[int, int], ...]:
    """Return the generation of each file of a log and the end of its records, oldest first.

    The end of the newest one is 0: it grows, and ``stored_end`` has it. A file with damage that is
    not recorded yet, or that the disk fails to read, keeps the version that is known of it: the
    next start must see that as well.
    """
    known = dict(zip(log.upkeep.noted_segments, log.upkeep.noted_versions, strict=False))
    files = log.segments.list_files()
    found = []
    for file in files:
        version = (int(file.rows[0].generation), int(file.rows[0].records_end))
        if file is files[-1]:
            version = (version[0], 0)
        found.append(known.get(file.name, version) if file.pinned else version)
    return tuple(found)


def stored_seq(log: "StreamLog") -> int:
    """Return up to which sequence a stream is certainly on disk.

    0 for a copy: what it loses at its end it gets again, under the same sequences.
    """
    if log.durability.unsynced or is_copy(log.identity):
        return int(log.upkeep.noted_seq)
    if log.index.last_time == 0:
        # No message yet: a stream that starts at a later sequence has none before it to lose.
        return int(log.upkeep.noted_seq)
    return int(log.index.last_seq)


def stored_end(log: "StreamLog") -> tuple[str, int] | None:
    """Return the newest segment and up to where its records are certainly on disk.

    The records after the last message delete messages and keep the state of consumers. Findings
    that are not on disk yet may be that it ended later: the next start must see that as well.
    """
    if log.durability.unsynced or is_copy(log.identity) or log.quarantine.waiting:
        return log.upkeep.noted_end
    return (str(log.index.segments[-1].name), int(log.durability.certain_end))


def has_news(log: "StreamLog") -> bool:
    """Return whether more is on disk than the manifests say."""
    return (
        stored_seq(log) > log.upkeep.noted_seq
        or stored_end(log) != log.upkeep.noted_end
        or versions_of(log) != log.upkeep.noted_versions
    )


def next_noting(log: "StreamLog") -> "Noting | None":
    """Return the task that records which files exist, if that is due."""
    if log.segments.in_memory:
        return None
    upkeep = log.upkeep
    segments = log.segments
    if not (segments.has_manifests or upkeep.note_due or segments.wants_manifests):
        return None
    if log.quarantine.unrecorded and segments.has_manifests:
        # The manifests may be all that knows of a missing file.
        upkeep.want_note(False)
        return None
    if names_of(log) == upkeep.noted_segments and not (upkeep.note_due and has_news(log)):
        upkeep.want_note(False)
        return None
    return Noting(log)


def last_noting(log: "StreamLog") -> "Noting | None":
    """Return the task that records the final state of a log, if the manifests are older."""
    if not log.segments.has_manifests and log.index.position == 0:
        # Nothing was stored that could be missing: a start does not need them either.
        return None
    if log.quarantine.unrecorded and log.segments.has_manifests:
        return None
    if names_of(log) != log.upkeep.noted_segments or has_news(log):
        return Noting(log)
    return None


class Noting(Task):
    """Writes a manifest, in the background."""

    def __init__(self, log: "StreamLog") -> None:
        super().__init__(log.segments.files, [], "writing its manifests")
        self._log = log
        self._folder = log.segments.folder
        self._identity = log.identity
        self._are_first = not log.segments.has_manifests
        self._stored = Stored(stored_seq(log), names_of(log), stored_end(log), versions_of(log))

    def step(self) -> bool:
        """Write; raises OSError if the disk fails."""
        files, folder, identity = self.files, self._folder, self._identity
        if not (self._are_first and write_manifests(files, folder, identity, self._stored)):
            note_stored(files, folder, identity.stream_id, self._stored)
        return True

    def finish(self, failed: bool) -> None:
        """Record the result. A failure is retried when there is more to record."""
        self._log.upkeep.note_segments(self._stored.segments, self._stored.versions)
        if not failed:
            self._log.segments.manifests_written()
            self._log.upkeep.note_stored(self._stored.last_seq, self._stored.end)


class Renewing(Task):
    """Writes the durable configuration of a log to its manifests, in the background.

    If that fails the next start does it, because the log has the configuration.
    """

    def __init__(self, log: "StreamLog") -> None:
        super().__init__(log.segments.files, [], "writing its manifests")
        self._log = log
        self._folder = log.segments.folder
        self._identity = log.identity
        self._floor = int(log.durability.sequence_floor)

    def step(self) -> bool:
        """Write both copies; raises OSError if the disk fails."""
        renew_manifests(self.files, self._folder, self._identity, self._floor)
        return True

    def finish(self, failed: bool) -> None:
        """Record that it was done, or tried; the configuration may have changed by now."""
        if not failed:
            self._log.segments.manifests_written()
        self._log.upkeep.want_manifest(self._log.identity is not self._identity)
