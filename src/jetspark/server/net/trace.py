"""Protocol tracing (`-V`, `-DV`): what a client sends and receives, in nats-server's form.

Only if tracing is on: the same chunks go through the tracer's own parsers, so that the connection
works the same with and without it.
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
# The plain values of CONNECT that are shown. Everything else may be a credential.
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
    """Traces one connection, line by line. ``whose`` is the prefix of each line."""

    def __init__(
        self, whose: object, parser: FrameParser, payload_max: int, max_payload: int
    ) -> None:
        self._whose = whose
        # The connection's own parser. Input before the start of a frame cannot be parsed.
        self._parser = parser
        self._in_step = False
        self._payload_max = payload_max
        self._sent = ServerParser(_Sent(self), CLIENT_CONTROL_LINE_MAX, max_payload, headers=True)
        self._got = ClientParser(_Got(self), CLIENT_CONTROL_LINE_MAX, -1)

    def sent(self, chunk: bytes) -> None:
        """Trace input of the client; called before the connection itself processes it."""
        self._in_step = self._in_step or self._parser.is_between_frames()
        if self._in_step:
            self._sent.feed(chunk)

    def got(self, chunk: bytes) -> None:
        """Trace output to the client."""
        self._got.feed(chunk)

    def line(self, arrow: str, *words: bytes | str | int) -> None:
        """Log one operation."""
        texts = (w.decode(errors="replace") if isinstance(w, bytes) else str(w) for w in words)
        log.log(
            TRACE, "%s - %s [%s]", self._whose, arrow, " ".join(text for text in texts if text)
        )

    def payload(self, arrow: str, data: bytes) -> None:
        """Log the content of a message, headers included, truncated to the configured length."""
        shown = data[: self._payload_max] if self._payload_max else data
        quoted = json.dumps(shown.decode(errors="replace"), ensure_ascii=False)
        cut = "..." if len(shown) < len(data) else ""
        log.log(TRACE, "%s - %s MSG_PAYLOAD: [%s%s]", self._whose, arrow, quoted, cut)


def shown_connect(body: bytes) -> str:
    """Return the part of a CONNECT body that may be logged: known fields, no credentials.

    Names of any case and spelling are recognised, because the body is parsed. A body that is not a
    JSON object is not shown at all: it may contain a secret anywhere.
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
    """Return the sizes of the control line: of the headers, if any, and the total."""
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
