"""What manifests say of the files of a stream, so that a missing or cut one is noticed.

A manifest lists the segments and the last sequence that was certainly stored. It is written beside
the loop: when segments came or went, once per period while messages come (``note_due``), and when
a log is closed. Before a file is removed, both copies stop listing it.

Not compiled: it is asked once per period.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.store.condensed import Chore
from jetspark.store.configuration import is_copy
from jetspark.store.manifest import note_stored
from jetspark.store.segment_files import segment_files

if TYPE_CHECKING:
    from jetspark.store.segments import Segments


def names_of(log: "Segments") -> tuple[str, ...]:
    """The files of a log, oldest first."""
    return tuple(file.name for file in segment_files(log))


def stored_seq(log: "Segments") -> int:
    """Up to where a stream is certainly on the disk.

    Of a copy nothing is said: what it loses at its end it gets again, under the same sequences.
    """
    if log.unsynced or is_copy(log.identity):
        return int(log.noted_seq)
    if log.index.last_time == 0:
        # No message yet: a stream that begins at a later sequence has none before it to lose.
        return int(log.noted_seq)
    return int(log.index.last_seq)


def next_noting(log: "Segments") -> "Noting | None":
    """What writes down which files there are, when that is due."""
    if log.in_memory:
        return None
    if names_of(log) == log.noted_segments and not (
        log.note_due and stored_seq(log) > log.noted_seq
    ):
        log.note_due = False
        return None
    return Noting(log)


def note_end(log: "Segments") -> None:
    """A log is closed: say what it has. What fails here costs a start the knowledge of it."""
    if names_of(log) != log.noted_segments or stored_seq(log) > log.noted_seq:
        chore = Noting(log)
        with suppress(OSError):
            chore.step()
            chore.end(log, failed=False)


class Noting(Chore):
    """Writes a manifest, beside the loop."""

    def __init__(self, log: "Segments") -> None:
        super().__init__(log.files, [])
        self._folder = log.folder
        self._stream_id = log.identity.stream_id
        self._last_seq = stored_seq(log)
        self._segments = names_of(log)

    def step(self) -> bool:
        """Write; raises OSError when the disk refuses."""
        note_stored(self.files, self._folder, self._stream_id, self._last_seq, self._segments)
        return True

    def end(self, log: "Segments", failed: bool) -> None:
        """Note what is known. What failed is tried again when there is more to say."""
        log.note_due = False
        log.noted_segments = self._segments
        if not failed:
            log.noted_seq = self._last_seq
