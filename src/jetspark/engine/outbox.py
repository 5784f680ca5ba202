"""Output of the engine: single messages in an outbox, runs of messages through an outlet."""

from typing import Protocol

from mypy_extensions import i64, mypyc_attr

# (route, subject, reply, headers, payload): ``route`` finds the receivers, ``subject`` is what
# they see; for replies both are equal. ``headers`` is a complete block or empty.
Entry = tuple[bytes, bytes, bytes, bytes, bytes]


class DirectWriter(Protocol):
    """Writes runs of acknowledgements, and large replies, directly to their receivers."""

    def write_acks(self, head: bytes, replies: list[bytes], sequences: list[int], /) -> None:
        """Send the content of the outbox, then ``head``, the sequence and a brace to each."""
        ...

    def write_part(self, to: bytes, headers: bytes, data: bytes, start: i64, stop: i64, /) -> None:
        """Send the content of the outbox, then a reply with a part of ``data`` as its body."""
        ...


class Outbox:
    """Messages that may be sent now. Messages that wait for the disk are held by their stream.

    Acknowledgements are the most frequent ones: a server has a writer for them.
    """

    def __init__(self, writer: DirectWriter | None = None) -> None:
        self.now: list[Entry] = []
        self._writer: DirectWriter | None = writer

    def take(self) -> list[Entry]:
        """Return the queued messages, and queue the next ones separately."""
        taken = self.now
        self.now = []
        return taken

    def acknowledge(self, head: bytes, replies: list[bytes], sequences: list[int]) -> None:
        """Answer publishers: ``head``, the sequence and a brace, after everything queued here."""
        if self._writer is not None:
            self._writer.write_acks(head, replies, sequences)
            return
        i: i64 = 0
        while i < len(replies):
            to = replies[i]
            self.now.append((to, to, b"", b"", head + b"%d}" % sequences[i]))
            i += 1

    def send(self, entry: Entry) -> None:
        """Queue a message."""
        self.now.append(entry)

    def send_all(self, entries: list[Entry]) -> None:
        """Queue messages."""
        self.now.extend(entries)

    def reply(self, to: bytes, payload: bytes) -> None:
        """Answer a request, if it has a reply subject."""
        if to:
            self.now.append((to, to, b"", b"", payload))

    def reply_part(self, to: bytes, headers: bytes, data: bytes, start: i64, stop: i64) -> None:
        """Answer with a part of ``data`` that is too large to be copied."""
        if self._writer is not None:
            self._writer.write_part(to, headers, data, start, stop)
        else:
            self.now.append((to, to, b"", headers, data[start:stop]))

    def reply_status(self, to: bytes, block: bytes) -> None:
        """Answer a request with a status line instead of a body."""
        if to:
            self.now.append((to, to, b"", block, b""))


@mypyc_attr(allow_interpreted_subclasses=True)  # the recording outlet of the tests is interpreted
class Outlet:
    """One receiver, resolved once, for a run of messages (hot-path.md, Rules)."""

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send one message to the receiver."""
        raise NotImplementedError

    def write_part(
        self, subject: bytes, reply: bytes, headers: bytes, data: bytes, start: i64, stop: i64
    ) -> None:
        """Send one message whose payload is a part of ``data``, copied only if necessary."""
        self.write(subject, reply, headers, data[start:stop])

    def full(self) -> bool:
        """Return whether the receiver's buffer is full enough; the run continues later."""
        raise NotImplementedError

    def gone(self) -> bool:
        """Return whether the receiver disconnected; the run is over."""
        raise NotImplementedError


class Budget:
    """How much one turn of the loop may still read: limits how long others wait."""

    def __init__(self, records: i64, size: i64) -> None:
        self.records: i64 = records
        self.size: i64 = size

    def spend(self, size: i64) -> None:
        """Account for one record read."""
        self.records -= 1
        self.size -= size

    def spend_search(self, compared: i64) -> None:
        """Account for subjects that were compared with patterns: 16 cost as much as a record."""
        self.records -= compared >> 4

    def exhaust(self) -> None:
        """Account for work that took as long as a whole turn of reads."""
        self.records = 0

    def left(self) -> bool:
        """Return whether another record may be read in this turn."""
        return self.records > 0 and self.size > 0
