"""The archive of a stream: a tar of messages, in S2 framing on the wire (``s2.py``).

::

    jetspark-backup.json      format, configuration and state of the stream, when it was made
    messages-00000001.ndjson  one line per message: sequence, time, lengths, checksum
    messages-00000001.bin     the messages themselves, each subject + headers + body, concatenated
    ...                       more such pairs, in the order of the stream
    consumers.ndjson          one line per consumer, unless they were left out
    end.json                  how many messages there are, and a checksum of all bytes before it

Every message has its own checksum (xxh3-64), so damage is located, and the last entry
distinguishes a complete archive from a partial one. Written and read in pieces: neither side ever
has more than one pair in memory. The sender adds the framing, and the reader here removes it.
"""

from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_64, xxh3_64_hexdigest

from jetspark.api.base import ApiStruct, Count, decoder, encode, shown
from jetspark.api.stream import StreamConfig, StreamState
from jetspark.engine.s2 import CompressedChunk, FramesBroken, Unframer
from jetspark.headers.block import VERSION
from jetspark.version import VERSION as JETSPARK

if TYPE_CHECKING:
    from tarfile import TarInfo

FORMAT: Final = 1
HEAD: Final = "jetspark-backup.json"
CONSUMERS: Final = "consumers.ndjson"
END: Final = "end.json"
INDEX_SUFFIX: Final = ".ndjson"
BODY_SUFFIX: Final = ".bin"
PART_BYTES: Final = 256 * 1024
PART_MESSAGES: Final = 1000
# How much input is unframed in one go, and between two checks of how many frames that were.
FRAMES_AT_ONCE: Final = 1000
UNFRAMED_AT_ONCE: Final = 8 * 1024
# An entry contains at least one message, and a message is never larger than this.
ENTRY_MAX: Final = 128 * 1024 * 1024
# The index of a part has a line for each of its messages, none longer than 250 bytes.
INDEX_MAX: Final = 250 * PART_MESSAGES
SEQUENCE_MAX: Final = 2**62

_BLOCK: Final = 512
# How archives of nats-server start: since 2.15, and before it.
_THEIR_MAGIC: Final = b"NATSARC1"
_THEIR_HEAD: Final = "meta.inf"
_THEIRS: Final = (
    "this is a backup of nats-server; copy the stream with `jetspark stream export` and "
    "`jetspark stream import`, which work from any server to any other"
)
_NOT_OURS: Final = "this is not a backup of jetspark"


class ArchiveBroken(Exception):
    """The input is not a complete archive of ours; the text says why."""


class Head(ApiStruct, frozen=True, kw_only=True):
    """The first entry."""

    format: int = shown(FORMAT)
    jetspark: str = shown(JETSPARK)
    config: StreamConfig = shown(StreamConfig())
    state: StreamState = shown(StreamState())


class Line(msgspec.Struct, frozen=True):
    """One message in the index of a part; ``check`` covers subject, headers and body."""

    seq: Count
    time: Count
    subject: Count
    headers: Count
    body: Count
    check: str


class ConsumerLine(msgspec.Struct, frozen=True):
    """One consumer: its records in the log (store/log/engine_state.py), in base64."""

    number: int
    document: bytes
    state: bytes
    changes: list[bytes]


class End(msgspec.Struct, frozen=True):
    """The last entry. ``last_seq`` may be beyond the last message."""

    messages: int
    last_seq: int
    check: str


Message = tuple[int, int, bytes, bytes, bytes]
"""Sequence, time, subject, headers and body."""

_head = decoder(Head)
_lines = msgspec.json.Decoder(Line)
_consumers = msgspec.json.Decoder(ConsumerLine)
_end = msgspec.json.Decoder(End)


class ArchiveWriter:
    """Produces the bytes of an archive, piece by piece."""

    def __init__(self) -> None:
        self._check = xxh3_64()
        self._parts = 0
        self._messages = 0
        self._index: list[bytes] = []
        self._bodies: list[bytes] = []
        self._size = 0

    def head(self, config: StreamConfig, state: StreamState) -> bytes:
        """Return the first piece."""
        return self._entry(HEAD, encode(Head(config=config, state=state)))

    def message(self, seq: int, time: int, subject: bytes, headers: bytes, body: bytes) -> bytes:
        """Add a message; return a piece if a part is full, else nothing yet."""
        raw = subject + headers + body
        check = xxh3_64_hexdigest(raw)
        line = Line(seq, time, len(subject), len(headers), len(body), check)
        self._index.append(msgspec.json.encode(line))
        self._bodies.append(raw)
        self._size += len(raw)
        self._messages += 1
        full = self._size >= PART_BYTES or len(self._index) >= PART_MESSAGES
        return self._part() if full else b""

    def finish(self, consumers: list[ConsumerLine] | None, last_seq: int) -> bytes:
        """Return the last piece; ``consumers`` None leaves them out."""
        rest = self._part()
        if consumers is not None:
            lines = [msgspec.json.encode(each) for each in consumers]
            rest += self._entry(CONSUMERS, b"".join(line + b"\n" for line in lines))
        end = End(self._messages, last_seq, self._check.hexdigest())
        return rest + self._entry(END, msgspec.json.encode(end)) + bytes(2 * _BLOCK)

    def _part(self) -> bytes:
        if not self._index:
            return b""
        self._parts += 1
        name = f"messages-{self._parts:08d}"
        index = self._entry(name + INDEX_SUFFIX, b"".join(line + b"\n" for line in self._index))
        bodies = self._entry(name + BODY_SUFFIX, b"".join(self._bodies))
        self._index, self._bodies, self._size = [], [], 0
        return index + bodies

    def _entry(self, name: str, data: bytes) -> bytes:
        import tarfile  # with the compressors it knows: most servers never need them

        info = tarfile.TarInfo(name)
        info.size = len(data)
        piece = info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % _BLOCK)
        self._check.update(piece)
        return piece


class ArchiveReader:
    """Parses the bytes of an archive, in any pieces."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.consumers: list[ConsumerLine] = []
        self.end: End | None = None
        self._check = xxh3_64()
        self._unframer = Unframer()
        self._framed = bytearray()
        self._buffer = bytearray()
        # The head of the entry that the buffer starts with, once it has arrived.
        self._info: TarInfo | None = None
        self._index: list[Line] | None = None
        self._messages = 0
        self._last_seq = 0

    def feed(self, data: bytes) -> list[Message]:
        """Parse some bytes; return messages that are complete now. Raises ArchiveBroken.

        While ``has_more`` is True there are others: about one part is parsed in one go, because it
        takes milliseconds.
        """
        self._framed += data
        self._unframe()
        if self.head is None and self._buffer.startswith(_THEIR_MAGIC):
            raise ArchiveBroken(_THEIRS)
        found: list[Message] = []
        looked_at = 0
        while looked_at < PART_BYTES and len(found) < PART_MESSAGES // 2 and self._has_entry():
            info = self._header()
            whole = _entry_size(info)
            entry = bytes(memoryview(self._buffer)[:whole])
            del self._buffer[:whole]
            self._info = None
            looked_at += whole
            found += self._take(info.name, entry[_BLOCK : _BLOCK + info.size])
            self._check.update(entry)
        if self.end is not None:
            self._buffer.clear()  # the padding at the end of a tar
            self._framed.clear()
        return found

    def _unframe(self) -> None:
        """Remove the framing of some of the input; small frames cost more than large ones."""
        before = self._unframer.chunks
        taken = 0
        while taken < 2 * PART_BYTES and self._unframer.chunks - before < FRAMES_AT_ONCE:
            piece = bytes(self._framed[:UNFRAMED_AT_ONCE])
            if not piece:
                return
            del self._framed[: len(piece)]
            taken += len(piece)
            try:
                self._buffer += self._unframer.feed(piece)
            except CompressedChunk:
                raise ArchiveBroken(_THEIRS) from None
            except FramesBroken as problem:
                raise ArchiveBroken(str(problem)) from None

    def has_more(self) -> bool:
        """Return whether there is input that can be parsed. Raises ArchiveBroken."""
        return self.end is None and (len(self._framed) > 0 or self._has_entry())

    def _has_entry(self) -> bool:
        """Return whether a complete entry has arrived."""
        if self.end is not None or len(self._buffer) < _BLOCK:
            return False
        return len(self._buffer) >= _entry_size(self._header())

    @property
    def buffered(self) -> int:
        """Return how many bytes arrived that were not parsed yet."""
        return len(self._buffer) + len(self._framed)

    def check_whole(self) -> None:
        """Raise ArchiveBroken unless everything has arrived."""
        if self.head is None:
            raise ArchiveBroken(f"{_NOT_OURS}: it has no {HEAD}")
        if self.end is None:
            raise ArchiveBroken(f"the backup is truncated: it has no {END}")

    def _header(self) -> "TarInfo":
        if self._info is not None:
            return self._info
        import tarfile

        try:
            info = tarfile.TarInfo.frombuf(bytes(self._buffer[:_BLOCK]), "ascii", "strict")
        except (tarfile.HeaderError, UnicodeError) as problem:
            reason = _NOT_OURS if self.head is None else "the backup is damaged"
            raise ArchiveBroken(f"{reason}: {problem}") from None
        if not 0 <= info.size <= ENTRY_MAX:
            raise ArchiveBroken(f"{info.name} claims to have {info.size} bytes: not a valid entry")
        if info.name.endswith(INDEX_SUFFIX) and info.name != CONSUMERS and info.size > INDEX_MAX:
            raise ArchiveBroken(f"the index {info.name[:64]} has {info.size} bytes: not valid")
        self._info = info
        return info

    def _take(self, name: str, data: bytes) -> list[Message]:
        try:
            if self.head is None:
                self._take_head(name, data)
            elif name == CONSUMERS:
                self.consumers = _consumers.decode_lines(data)
            elif name == END:
                self._take_end(_end.decode(data))
            elif name.endswith(INDEX_SUFFIX):
                self._index = _lines.decode_lines(data)
                if len(self._index) > PART_MESSAGES:
                    raise ArchiveBroken(
                        f"the index {name[:64]} has {len(self._index)} messages: not valid"
                    )
            elif name.endswith(BODY_SUFFIX):
                return self._cut(name, data)
            else:
                raise ArchiveBroken(f"the backup has an entry {name[:64]!r} that is not ours")
        except msgspec.MsgspecError as problem:
            raise ArchiveBroken(f"{name[:64]}: {problem}") from None
        return []

    def _take_head(self, name: str, data: bytes) -> None:
        if name == _THEIR_HEAD:
            raise ArchiveBroken(_THEIRS)
        if name != HEAD:
            raise ArchiveBroken(f"{_NOT_OURS}: it starts with {name[:64]!r} instead of {HEAD}")
        head = _head.decode(data)
        if head.format != FORMAT:
            raise ArchiveBroken(
                f"the backup has format {head.format}, this version of jetspark reads {FORMAT}; "
                f"restore it with jetspark {head.jetspark} or newer"
            )
        self.head = head

    def _take_end(self, end: End) -> None:
        if end.check != self._check.hexdigest():
            raise ArchiveBroken("the backup is damaged: its checksum is wrong")
        if end.messages != self._messages or not self._last_seq <= end.last_seq < SEQUENCE_MAX:
            raise ArchiveBroken(
                f"the backup claims to have {end.messages} messages up to {end.last_seq}, but has "
                f"{self._messages} up to {self._last_seq}"
            )
        self.end = end

    def _cut(self, name: str, data: bytes) -> list[Message]:
        """Return the messages of a part."""
        lines, self._index = self._index, None
        if lines is None:
            raise ArchiveBroken(f"{name[:64]} has no index before it")
        at = 0
        found: list[Message] = []
        for line in lines:
            size = line.subject + line.headers + line.body
            raw = data[at : at + size]
            at += size
            subject = raw[: line.subject]
            headers = raw[line.subject : line.subject + line.headers]
            if len(raw) != size or xxh3_64_hexdigest(raw) != line.check:
                raise ArchiveBroken(f"message {line.seq} of the backup is damaged")
            if (
                not self._last_seq < line.seq < SEQUENCE_MAX
                or not 0 < line.time < SEQUENCE_MAX * 2
            ):
                raise ArchiveBroken(f"message {line.seq} of the backup is out of order")
            # Anything that could be published, so only what would break lines on the wire is
            # refused.
            if subject.split() != [subject] or (headers and not headers.startswith(VERSION)):
                raise ArchiveBroken(f"message {line.seq} of the backup is not valid")
            found.append((line.seq, line.time, subject, headers, raw[size - line.body :]))
            self._last_seq = line.seq
        if at != len(data):
            raise ArchiveBroken(f"{name[:64]} is longer than its index says")
        self._messages += len(lines)
        return found


def _entry_size(info: "TarInfo") -> int:
    """Return the size of an entry with its head and its padding."""
    return _BLOCK + info.size + -info.size % _BLOCK
