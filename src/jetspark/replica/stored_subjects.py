"""Which subjects the leader's streams store, from the last list of streams."""

from collections.abc import Iterable

from jetspark.api.enums import Retention
from jetspark.api.stream import StreamConfig
from jetspark.subjects.sublist import Sublist


class StoredSubjects:
    """The subjects in the leader's list of streams; ``known`` is False until the first list."""

    def __init__(self) -> None:
        self.known: bool = False
        self._subjects = Sublist()
        # The subjects of each stream, and whether acknowledgements remove messages from it.
        self._streams: dict[str, tuple[tuple[str, ...], bool]] = {}

    def follow(self, configs: Iterable[StreamConfig]) -> None:
        """Set the leader's streams."""
        self.known = True
        streams = {
            config.name: (config.subjects, config.retention != Retention.LIMITS)
            for config in configs
        }
        if streams == self._streams:
            return
        self._streams = streams
        self._subjects = Sublist()
        for subjects, _ in streams.values():
            for subject in subjects:
                self._subjects.insert(subject.encode(), b"", subject)

    def has(self, subject: bytes) -> bool:
        """Return whether a stream stores what is published to a subject."""
        return bool(self._subjects.match_once(subject).plain)

    def keeps(self, stream: str) -> bool:
        """Return whether a stream is known to keep its messages whatever consumers do."""
        found = self._streams.get(stream)
        return found is not None and not found[1]
