"""The protocol in the log (`-V`, `-DV`): what a client sends and gets, as nats-server writes it.

Only when tracing is on: the same chunks go through parsers of the tracer's own, so that the
connection's way of working is the same with and without it.
"""

import json
import logging
from typing import Final

import msgspec

from jetspark.frame import Frame
from jetspark.protocol.client_parser import ClientOps, ClientParser
from jetspark.protocol.framing import FrameParser
from jetspark.protocol.limits import CLIENT_CONTROL_LINE_MAX
from jetspark.protocol.parser import ServerOps, ServerParser

log: logging.Logger = logging.getLogger("jetspark.server")

TRACE: Final = 5  # below logging.DEBUG
# What is shown of CONNECT, if it is a plain value. Everything else may authenticate somebody.
_SHOWN: Final = frozenset({
    "echo",
    "headers",
    "lang",
    "name",
    "nkey",
    "no_responders",
    "pedantic",
    "protocol",
    "tls_required",
    "user",
    "verbose",
    "version",
})  # fmt: skip
_SECRET: Final = frozenset({"auth_token", "jwt", "pass", "sig"})
_REDACTED: Final = "[REDACTED]"


class Tracer:
    """What one connection says, line by line. ``whose`` names it in front of each line."""

    def __init__(
        self, whose: object, parser: FrameParser, payload_max: int, max_payload: int
    ) -> None:
        self._whose = whose
        # The connection's own. What comes before a frame of it begins cannot be read.
        self._parser = parser
        self._in_step = False
        self._payload_max = payload_max
        self._sent = ServerParser(_Sent(self), CLIENT_CONTROL_LINE_MAX, max_payload, headers=True)
        self._got = ClientParser(_Got(self), CLIENT_CONTROL_LINE_MAX, -1)

    def sent(self, chunk: bytes) -> None:
        """The client sent this; called before the connection itself takes it."""
        self._in_step = self._in_step or self._parser.is_between_frames()
        if self._in_step:
            self._sent.feed(chunk)

    def got(self, chunk: bytes) -> None:
        """The client gets this."""
        self._got.feed(chunk)

    def line(self, arrow: str, *words: bytes | str | int) -> None:
        """One operation."""
        texts = (w.decode(errors="replace") if isinstance(w, bytes) else str(w) for w in words)
        log.log(
            TRACE, "%s - %s [%s]", self._whose, arrow, " ".join(text for text in texts if text)
        )

    def payload(self, arrow: str, data: bytes) -> None:
        """What a message carries, headers included, cut to the length that was asked for."""
        shown = data[: self._payload_max] if self._payload_max else data
        quoted = json.dumps(shown.decode(errors="replace"), ensure_ascii=False)
        cut = "..." if len(shown) < len(data) else ""
        log.log(TRACE, "%s - %s MSG_PAYLOAD: [%s%s]", self._whose, arrow, quoted, cut)


def shown_connect(body: bytes) -> str:
    """What may be seen of a CONNECT body: known fields that authenticate nobody.

    Names of any case and spelling are recognised, because the body is parsed. What is no JSON
    object is not shown at all: a secret may be anywhere in it.
    """
    try:
        found = msgspec.json.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return "[not shown: it is not a JSON object]"
    shown: dict[str, object] = {}
    for name, value in found.items():
        if name.lower() in _SHOWN and isinstance(value, str | bool | int):
            shown[name] = value
        elif name.lower() in _SHOWN | _SECRET:
            shown[name] = _REDACTED
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def sizes(frame: Frame) -> str:
    """The sizes on the control line: those of the headers, if there are any, and of all."""
    whole = str(frame.pe - frame.hs)
    return f"{frame.ps - frame.hs} {whole}" if frame.ps > frame.hs else whole


class _Sent(ServerOps):
    """Operations of the client."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def on_connect(self, body: bytes) -> None:
        self._tracer.line("<<-", "CONNECT", shown_connect(body))

    def on_pub(self, frame: Frame) -> None:
        word = "HPUB" if frame.ps > frame.hs else "PUB"
        self._tracer.line("<<-", word, frame.subject(), frame.reply(), sizes(frame))
        self._tracer.payload("<<-", frame.headers() + frame.payload())

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        self._tracer.line("<<-", "SUB", subject, queue, sid)

    def on_unsub(self, sid: bytes, max_msgs: int) -> None:
        self._tracer.line("<<-", "UNSUB", sid, max_msgs or "")

    def on_ping(self) -> None:
        self._tracer.line("<<-", "PING")

    def on_pong(self) -> None:
        self._tracer.line("<<-", "PONG")


class _Got(ClientOps):
    """Operations of the server."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def on_info(self, body: bytes) -> None:
        self._tracer.line("->>", "INFO", body)

    def on_msg(self, frame: Frame) -> None:
        word = "HMSG" if frame.ps > frame.hs else "MSG"
        self._tracer.line("->>", word, frame.subject(), frame.sid, frame.reply(), sizes(frame))
        self._tracer.payload("->>", frame.headers() + frame.payload())

    def on_ping(self) -> None:
        self._tracer.line("->>", "PING")

    def on_pong(self) -> None:
        self._tracer.line("->>", "PONG")

    def on_ok(self) -> None:
        self._tracer.line("->>", "OK")

    def on_err(self, text: bytes) -> None:
        self._tracer.line("->>", "-ERR", text)
