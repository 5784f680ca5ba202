"""One stream: messages come in, are staged, and are acknowledged when the disk has them.

Replies that stand on a decision wait for that decision (contracts.md 1). They are held with the
group that carries it: ``filling`` while the group fills, ``flying`` while it is on its way.
"""

from typing import Final

import msgspec
from mypy_extensions import i64

from jetspark.api.stream import StreamConfig
from jetspark.engine.limits import MESSAGE_HEADERS_MAX
from jetspark.engine.outbox import Entry, Outbox
from jetspark.errors.bodies import error_body
from jetspark.headers.block import has_nats_headers, strip_status
from jetspark.store.log import Group, StreamLog

INSUFFICIENT_RESOURCES: Final = 10023
STORE_FAILED: Final = 10077
HEADER_TOO_LARGE: Final = 10097
HEADERS_NOT_YET: Final = "Nats- headers are not supported by this version of jetspark yet"


class Held:
    """What goes out when one group is durable: acknowledgements as two columns, other replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.sequences: list[int] = []
        self.entries: list[Entry] = []

    def is_empty(self) -> bool:
        """Say whether nothing waits."""
        return not self.replies and not self.entries


class Stream:
    """A stream of one account."""

    def __init__(self, config: StreamConfig, created_ns: int, log: StreamLog) -> None:
        self.config: StreamConfig = config
        self.created_ns: int = created_ns
        self.log: StreamLog = log
        self.allow_direct: bool = config.allow_direct
        self.name: bytes = config.name.encode()
        self.json_name: bytes = msgspec.json.encode(config.name)
        self.ack_head: bytes = b'{"stream":' + self.json_name + b',"seq":'
        self.filling: Held = Held()
        self.flying: Held = Held()
        self.dirty: bool = False
        self.dropped: bool = False

    def publish(
        self,
        data: bytes,
        ss: i64,
        se: i64,
        rs: i64,
        re: i64,
        hs: i64,
        ps: i64,
        pe: i64,
        now: i64,
        outbox: Outbox,
    ) -> bool:
        """Take a message, by the parser's offsets; return whether something was staged."""
        if self.log.read_only:
            self.refuse(
                data[rs:re],
                outbox,
                error_body(STORE_FAILED, err="stream is read-only after a disk error"),
            )
            return False
        tail: bytes
        headers_length: i64 = ps - hs
        if headers_length > 0:
            block = strip_status(data[hs:ps])
            headers_length = len(block)
            if headers_length > MESSAGE_HEADERS_MAX:
                self.refuse(data[rs:re], outbox, error_body(HEADER_TOO_LARGE))
                return False
            if has_nats_headers(block):
                # Each of these asks for something; storing it without doing it would be a lie.
                self.refuse(
                    data[rs:re],
                    outbox,
                    error_body(STORE_FAILED, err=HEADERS_NOT_YET),
                )
                return False
            tail = block + data[ps : pe + 2]
        else:
            tail = data[ps : pe + 2]
        seq = self.log.stage_message(data[ss:se], headers_length, tail, now)
        if re > rs:
            self.filling.replies.append(data[rs:re])
            self.filling.sequences.append(int(seq))
        return True

    def refuse(self, reply: bytes, outbox: Outbox, error: bytes) -> None:
        """Answer a publish with an error; it stands on no decision, so nothing is waited for."""
        outbox.reply(reply, self.failure(error))

    def failure(self, error: bytes) -> bytes:
        """The body of a failed publish: the zero sequence is there in released servers too."""
        return b'{"error":%s,"stream":%s,"seq":0}' % (error, self.json_name)

    def take_group(self) -> Group | None:
        """What the committer gets next; the replies that wait for it travel along."""
        group = self.log.take_group()
        if group is not None:
            self.flying = self.filling
            self.filling = Held()
        return group

    def committed(self, outbox: Outbox) -> None:
        """The group on its way is durable: its replies go out."""
        self.log.commit()
        held = self.flying
        self.flying = Held()
        head = self.ack_head
        i: i64 = 0
        count: i64 = len(held.replies)
        while i < count:
            to = held.replies[i]
            outbox.now.append((to, to, b"", b"", head + b"%d}" % held.sequences[i]))
            i += 1
        outbox.now.extend(held.entries)

    def failed(self, no_space: bool, outbox: Outbox) -> None:
        """The group on its way was not written, and what was staged behind it stands on it."""
        self.log.fail(no_space)
        if no_space:
            body = self.failure(error_body(INSUFFICIENT_RESOURCES))
        else:
            body = self.failure(
                error_body(STORE_FAILED, err="the message could not be written to disk")
            )
        for held in (self.flying, self.filling):
            for to in held.replies:
                outbox.now.append((to, to, b"", b"", body))
            for entry in held.entries:
                outbox.now.append((entry[0], entry[1], entry[2], b"", body))
        self.flying = Held()
        self.filling = Held()
