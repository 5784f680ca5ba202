"""Which stream of an account stores which subjects, however many there are."""

from jetspark.engine.stream.stream import Stream
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.sublist import Sublist


class WantedSubjects:
    """The subjects of all streams of an account."""

    def __init__(self) -> None:
        self._streams = Sublist()
        self._patterns = PatternSet()
        self._inboxes = 0

    def add(self, stream: Stream, subjects: tuple[str, ...]) -> None:
        """A stream stores these."""
        for subject in subjects:
            pattern = subject.encode()
            self._streams.insert(pattern, b"", stream)
            self._patterns.add(pattern, stream)
            self._inboxes += _may_be_inbox(subject)

    def remove(self, stream: Stream, subjects: tuple[str, ...]) -> None:
        """A stream does not store these any more."""
        for subject in subjects:
            pattern = subject.encode()
            if self._streams.remove(pattern, b"", stream):
                self._patterns.remove(pattern, stream)
                self._inboxes -= _may_be_inbox(subject)

    def find(self, subject: bytes) -> Stream | None:
        """The stream that stores a subject."""
        # Once: the server keeps the answer.
        found = self._streams.match_once(subject).plain
        if not found:
            return None
        stream = found[0]
        assert isinstance(stream, Stream)
        return stream

    def overlap(self, subjects: tuple[str, ...], but: Stream | None) -> bool:
        """Say whether another stream than ``but`` stores some of these."""
        return any(self._patterns.overlaps(subject.encode(), but) for subject in subjects)

    def overlapping(self, subject: bytes) -> set[Stream]:
        """The streams that store some of what a subject, perhaps with wildcards, stands for."""
        return {
            owner for owner in self._patterns.overlapping(subject) if isinstance(owner, Stream)
        }

    def has_inboxes(self) -> bool:
        """Say whether a stream has subjects that begin with an underscore, as inboxes do."""
        return self._inboxes > 0


def _may_be_inbox(subject: str) -> bool:
    return subject[0] in "_*>"
