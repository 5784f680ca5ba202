"""A message as offsets into the bytes it arrived in (hot-path.md, Rules)."""

from typing import final

from mypy_extensions import i64


@final
class Frame:
    """One PUB, HPUB, MSG or HMSG, as offsets into ``data``.

    Subject ``data[ss:se]``; reply ``data[rs:re]`` (none if rs == re); header block ``data[hs:ps]``
    (none if hs == ps); payload ``data[ps:pe]``; ``data[pe:pe+2]`` is CRLF. The payload of a large
    message is ``body`` instead, and ``data`` ends where it would begin. ``sid`` is the
    subscription that a MSG or HMSG is for.

    A parser refills one frame for every message. To keep it after the call, copy it; the bytes
    themselves never change.
    """

    def __init__(
        self,
        data: bytes = b"",
        ss: i64 = 0,
        se: i64 = 0,
        rs: i64 = 0,
        re: i64 = 0,
        hs: i64 = 0,
        ps: i64 = 0,
        pe: i64 = 0,
    ) -> None:
        self.data: bytes = data
        self.ss: i64 = ss
        self.se: i64 = se
        self.rs: i64 = rs
        self.re: i64 = re
        self.hs: i64 = hs
        self.ps: i64 = ps
        self.pe: i64 = pe
        self.sid: i64 = 0
        # The payload of a large message, which is then not in ``data``; otherwise empty.
        self.body: bytes = b""

    def subject(self) -> bytes:
        """The subject."""
        return self.data[self.ss : self.se]

    def reply(self) -> bytes:
        """The reply subject; empty for none."""
        return self.data[self.rs : self.re]

    def headers(self) -> bytes:
        """The header block; empty for none."""
        return self.data[self.hs : self.ps]

    def payload(self) -> bytes:
        """The payload."""
        return self.body if len(self.body) > 0 else self.data[self.ps : self.pe]

    def ending(self) -> bytes:
        """The payload and CRLF."""
        if len(self.body) > 0:
            return self.body + b"\r\n"
        return self.data[self.ps : self.pe + 2]

    def copy(self) -> "Frame":
        """Return a copy that the caller may keep."""
        kept = Frame(self.data, self.ss, self.se, self.rs, self.re, self.hs, self.ps, self.pe)
        kept.sid = self.sid
        kept.body = self.body
        return kept
