"""The protocol in the log (`-V`, `-DV`): what a client sends and gets, as nats-server writes it.

Only when tracing is on: the same chunks go through parsers of the tracer's own, so that the
connection's way of working is the same with and without it.
"""

import json
import logging
import re
from typing import Final

from jetspark.protocol.client_parser import ClientOps, ClientParser
from jetspark.protocol.limits import CLIENT_CONTROL_LINE_MAX
from jetspark.protocol.parser import ServerOps, ServerParser

log = logging.getLogger("jetspark.server")

TRACE: Final = 5  # below logging.DEBUG
_SECRETS: Final = re.compile(rb'("(?:pass|auth_token|sig|jwt)"\s*:\s*)"(?:[^"\\]|\\.)*"')


class Tracer:
    """What one connection says, line by line. ``whose`` names it in front of each line."""

    def __init__(self, whose: object, payload_max: int, max_payload: int) -> None:
        self._whose = whose
        self._payload_max = payload_max
        self._sent = ServerParser(_Sent(self), CLIENT_CONTROL_LINE_MAX, max_payload, headers=True)
        self._got = ClientParser(_Got(self), CLIENT_CONTROL_LINE_MAX, -1)

    def sent(self, chunk: bytes) -> None:
        """The client sent this."""
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


class _Sent(ServerOps):
    """Operations of the client."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def on_connect(self, body: bytes) -> None:
        self._tracer.line("<<-", "CONNECT", _SECRETS.sub(rb'\1"[REDACTED]"', body))

    def on_pub(
        self, data: bytes, ss: int, se: int, rs: int, re: int, hs: int, ps: int, pe: int
    ) -> None:
        word, size = ("HPUB", f"{ps - hs} {pe - hs}") if ps > hs else ("PUB", str(pe - hs))
        self._tracer.line("<<-", word, data[ss:se], data[rs:re], size)
        self._tracer.payload("<<-", data[hs:pe])

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

    def on_msg(
        self, data: bytes, ss: int, se: int, sid: int, rs: int, re: int, hs: int, ps: int, pe: int
    ) -> None:
        word, size = ("HMSG", f"{ps - hs} {pe - hs}") if ps > hs else ("MSG", str(pe - hs))
        self._tracer.line("->>", word, data[ss:se], sid, data[rs:re], size)
        self._tracer.payload("->>", data[hs:pe])

    def on_ping(self) -> None:
        self._tracer.line("->>", "PING")

    def on_pong(self) -> None:
        self._tracer.line("->>", "PONG")

    def on_ok(self) -> None:
        self._tracer.line("->>", "OK")

    def on_err(self, text: bytes) -> None:
        self._tracer.line("->>", "-ERR", text)
