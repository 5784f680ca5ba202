"""Messages that the program under test has published, and assertions about them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jetspark.frame import Frame
from jetspark.headers.block import decode_headers
from jetspark.headers.headers import Headers
from jetspark.protocol.parser import ServerOps, ServerParser
from jetspark.subjects.match import matches

# What is kept of one test. Beyond it, the oldest messages are dropped and assertions say so.
KEPT_BYTES: Final = 64 << 20
# Bytes that wait to be parsed: until an assertion needs them, or there are this many.
UNPARSED_BYTES: Final = 4 << 20
# Messages and bytes of data shown when an assertion fails.
SHOWN_MESSAGES: Final = 20
SHOWN_BYTES: Final = 80
# Not shown: requests, acknowledgements and replies, which every client sends all the time.
# How long an exact number is watched after it was reached.
SETTLING_S: Final = 0.03
_INTERNAL: Final = ("$JS.", "_INBOX.", "$SYS.")
_SYSTEM: Final = (b"$", b"_INBOX.")
_CONTROL_LINE_MAX: Final = 1 << 20
_NO_LIMIT: Final = -1


@dataclass(frozen=True)
class PublishedMessage:
    """A message that a client published: ``subject``, ``data``, ``headers`` and ``reply``."""

    subject: str
    data: bytes
    headers: Headers
    reply: str

    def json(self) -> Any:
        """Return the data, decoded as JSON."""
        return json.loads(self.data)

    def __str__(self) -> str:
        shown = self.data[:SHOWN_BYTES]
        try:
            text = shown.decode()
        except UnicodeDecodeError:
            text = repr(shown)
        if len(self.data) > SHOWN_BYTES:
            text += f"... ({len(self.data)} bytes)"
        headers = "".join(f"  {name}: {value}" for name, value in self.headers.items())
        return f"{self.subject}  {text}{headers}"


class _Publishes(ServerOps):
    """Collects the PUB and HPUB operations of one connection."""

    def __init__(self, log: "PublishLog") -> None:
        self._log = log

    def on_pub(self, frame: Frame) -> None:
        self._log.add(frame.subject(), frame.reply(), frame.headers(), frame.payload())


class PublishLog:
    """The messages that the clients of one test have published, in order of arrival."""

    def __init__(self) -> None:
        self._unparsed: list[tuple[int, bytes]] = []
        self._unparsed_bytes = 0
        self._parsers: dict[int, ServerParser] = {}
        self._messages: list[tuple[bytes, bytes, bytes, bytes]] = []
        self._bytes = 0
        self.dropped: int = 0
        self._news = asyncio.Event()

    def record(self, connection: int, data: bytes) -> None:
        """Keep what a client sent."""
        self._unparsed.append((connection, data))
        self._unparsed_bytes += len(data)
        self._news.set()
        if self._unparsed_bytes > UNPARSED_BYTES:
            self._parse()

    def add(self, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> None:
        """Keep a message."""
        self._messages.append((subject, reply, headers, data))
        self._bytes += len(headers) + len(data)

    def _parse(self) -> None:
        for connection, data in self._unparsed:
            parser = self._parsers.get(connection)
            if parser is None:
                ops = _Publishes(self)
                parser = ServerParser(ops, _CONTROL_LINE_MAX, _NO_LIMIT, headers=True)
                self._parsers[connection] = parser
            parser.feed(data)
        self._unparsed.clear()
        self._unparsed_bytes = 0
        first = 0
        while self._bytes > KEPT_BYTES:
            _, _, headers, data = self._messages[first]
            self._bytes -= len(headers) + len(data)
            first += 1
        del self._messages[:first]
        self.dropped += first

    def messages(self, pattern: str) -> list[PublishedMessage]:
        """Return the messages of the subjects that match.

        A wildcard in front does not match subjects of the system: clients send requests and
        acknowledgements all the time.
        """
        self._parse()
        wanted = pattern.encode()
        hides_system = wanted.startswith((b"*", b">"))
        return [
            _message(each)
            for each in self._messages
            if matches(each[0], wanted) and not (hides_system and each[0].startswith(_SYSTEM))
        ]

    def all_messages(self) -> list[PublishedMessage]:
        """Return every message, of the system, too."""
        self._parse()
        return [_message(each) for each in self._messages]

    def clear(self) -> None:
        """Forget every message so far."""
        self._parse()
        self._messages.clear()
        self._bytes = self.dropped = 0

    async def expect(self, wanted: "Expectation", timeout: float) -> list[PublishedMessage]:
        """Wait for messages, and return them; AssertionError if they do not arrive."""
        end = asyncio.get_running_loop().time() + timeout
        is_settled = not wanted.is_exact
        while True:
            self._news.clear()
            found = list(wanted.select(self.messages(wanted.subject)))
            left = end - asyncio.get_running_loop().time()
            if wanted.is_met(len(found)) and not is_settled:
                # One too many may still be in the buffer of a client that has just published it.
                is_settled = True
                await asyncio.sleep(SETTLING_S)
                continue
            if wanted.is_met(len(found)) or wanted.is_exceeded(len(found)) or left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                continue
        if self.dropped:
            raise AssertionError(
                f"{self.dropped} messages are no longer known: {KEPT_BYTES >> 20} MiB are kept of "
                "one test; publish less, or call forget_published() before what you check"
            )
        if not wanted.is_met(len(found)):
            raise AssertionError(wanted.failure(found, self.all_messages(), timeout))
        return found


class Expectation:
    """Which messages a test expects, and how many; ``count`` None is at least one."""

    def __init__(
        self,
        subject: str,
        count: int | None,
        data: bytes | str | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self.subject = subject
        self._count = count
        self._data = data.encode() if isinstance(data, str) else data
        self._headers = headers or {}

    def select(self, messages: list[PublishedMessage]) -> Iterator[PublishedMessage]:
        """The messages with the expected data and headers."""
        for message in messages:
            if self._data is not None and message.data != self._data:
                continue
            if all(
                value in message.headers.get_all(name) for name, value in self._headers.items()
            ):
                yield message

    @property
    def is_exact(self) -> bool:
        """Whether more messages than expected are as wrong as fewer."""
        return self._count is not None

    def is_met(self, found: int) -> bool:
        """Whether that many are as expected."""
        return found > 0 if self._count is None else found == self._count

    def is_exceeded(self, found: int) -> bool:
        """Whether there are too many already."""
        return self._count is not None and found > self._count

    def failure(
        self, found: list[PublishedMessage], all_messages: list[PublishedMessage], timeout: float
    ) -> str:
        """Say what was expected and what was published."""
        wanted = "at least one message" if self._count is None else _counted(self._count)
        text = f"expected {wanted} on {self.subject!r}"
        if self._data is not None:
            text += f" with data {self._data[:SHOWN_BYTES]!r}"
        if self._headers:
            text += f" with headers {dict(self._headers)}"
        text += f", found {len(found)}"
        if not self.is_exceeded(len(found)):
            text += f" after {timeout:g} s"
        own = [each for each in all_messages if not each.subject.startswith(_INTERNAL)]
        others = [each for each in own if each not in found]
        lines = [text, *_listed("matching", found), *_listed("also published", others)]
        if not own:
            lines.append("nothing was published")
        return "\n".join(lines)


def _message(kept: tuple[bytes, bytes, bytes, bytes]) -> PublishedMessage:
    subject, reply, headers, data = kept
    return PublishedMessage(
        subject.decode(errors="replace"),
        data,
        decode_headers(headers) if headers else Headers(),
        reply.decode(errors="replace"),
    )


def _counted(count: int) -> str:
    return "no message" if count == 0 else "1 message" if count == 1 else f"{count} messages"


def _listed(title: str, messages: list[PublishedMessage]) -> list[str]:
    if not messages:
        return []
    lines = [f"{title} ({len(messages)}):"]
    lines += [f"  {each}" for each in messages[:SHOWN_MESSAGES]]
    if len(messages) > SHOWN_MESSAGES:
        lines.append(f"  and {len(messages) - SHOWN_MESSAGES} more")
    return lines
