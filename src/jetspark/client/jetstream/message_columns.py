"""Messages as parallel columns, for scans and bulk publishing."""

from collections.abc import Collection, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from jetspark.client.jetstream.stored import StreamMessage

Column = Literal["sequences", "times", "subjects", "data", "headers"]
COLUMNS: Final[tuple[Column, ...]] = ("sequences", "times", "subjects", "data", "headers")

_Value = TypeVar("_Value")


class MessageColumns(msgspec.Struct, eq=False, gc=False):
    """Messages of a stream as parallel lists; a column that was not requested is empty.

    ``times`` are nanoseconds since 1970, ``headers`` are whole header blocks (empty bytes for a
    message without headers). Messages that were read have ``sequences``; messages to publish have
    none, and no ``times``.
    """

    sequences: list[int]
    times: list[int]
    subjects: list[str]
    data: list[bytes]
    headers: list[bytes]

    @classmethod
    def empty(cls) -> "MessageColumns":
        """No messages, to be filled."""
        return cls([], [], [], [], [])

    @classmethod
    def to_publish(
        cls, subjects: list[str], data: list[bytes], headers: list[bytes]
    ) -> "MessageColumns":
        """Messages to publish."""
        return cls([], [], subjects, data, headers)

    @classmethod
    def joined(cls, parts: Sequence["MessageColumns"]) -> "MessageColumns":
        """The messages of all parts, which have the same columns; a single one is not copied."""
        if len(parts) == 1:
            return parts[0]
        whole = cls.empty()
        for part in parts:
            whole.extend(part)
        return whole

    def __len__(self) -> int:
        return len(self.sequences) or len(self.subjects)

    def append(self, seq: int, time_ns: int, subject: str, data: bytes, headers: bytes) -> None:
        """Add one message."""
        self.sequences.append(seq)
        self.times.append(time_ns)
        self.subjects.append(subject)
        self.data.append(data)
        self.headers.append(headers)

    def append_to_publish(self, subject: str, data: bytes, headers: bytes) -> None:
        """Add one message to publish."""
        self.subjects.append(subject)
        self.data.append(data)
        self.headers.append(headers)

    def append_wanted(self, message: StreamMessage, columns: Collection[str]) -> None:
        """Add one message, without the columns that were not requested."""
        self.sequences.append(message.seq)
        if "times" in columns:
            self.times.append(message.time_ns)
        if "subjects" in columns:
            self.subjects.append(message.subject)
        if "data" in columns:
            self.data.append(message.data)
        if "headers" in columns:
            self.headers.append(message.header_block)

    def replace(self, place: int, other: "MessageColumns", at: int) -> None:
        """Replace the message at an index with one of ``other`` on the same subject."""
        self.sequences[place] = other.sequences[at]
        self.times[place] = other.times[at]
        self.data[place] = other.data[at]
        self.headers[place] = other.headers[at]

    def replace_headers(self, place: int, headers: bytes) -> None:
        """Replace the headers of the message at an index."""
        self.headers[place] = headers

    def extend(self, other: "MessageColumns") -> None:
        """Add the messages of ``other``."""
        self.sequences += other.sequences
        self.times += other.times
        self.subjects += other.subjects
        self.data += other.data
        self.headers += other.headers

    def picked(self, places: Sequence[int]) -> "MessageColumns":
        """Return some of the messages, by index."""
        return MessageColumns(
            _picked(self.sequences, places),
            _picked(self.times, places),
            _picked(self.subjects, places),
            _picked(self.data, places),
            _picked(self.headers, places),
        )

    def part(self, first: int, end: int) -> "MessageColumns":
        """Return the messages from one index up to, not including, another."""
        if first == 0 and end >= len(self):
            return self
        rows = slice(first, end)
        return MessageColumns(
            self.sequences[rows],
            self.times[rows],
            self.subjects[rows],
            self.data[rows],
            self.headers[rows],
        )


def _picked(column: list[_Value], places: Sequence[int]) -> list[_Value]:
    return [column[place] for place in places] if column else []
