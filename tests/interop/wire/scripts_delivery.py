"""Byte scripts for the differential test: who gets what, and what is too much."""

from __future__ import annotations

from typing import Final

from tests.interop.wire.scripts import (
    HEADER,
    LOUD,
    PING,
    QUIET,
    Body,
    connect,
    hpub,
    pub,
    scripts,
)
from tests.support.wire import Script, Turn

CONFIGS: Final = {
    "no headers": "no_header_support: true\n",
    "small": "max_payload: 64\nmax_control_line: 128\nmax_subscriptions: 3\n",
    "tokens": "max_subscription_tokens: 3\n",
    "crowded": "max_connections: 2\n",
}


SUBSCRIPTIONS: Final[dict[str, Body]] = {
    "a sid in use keeps its subject": QUIET + b"SUB a 1\r\nSUB b 1\r\n" + pub("b") + pub("a"),
    "a sid in use, verbose": LOUD + b"SUB a 1\r\nSUB b 1\r\nUNSUB 1\r\nSUB b 1\r\n" + pub("b"),
    "a sid in use, then a bad subject": QUIET + b"SUB a 1\r\nSUB b..c 1\r\nSUB b..c 2\r\n" + PING,
    "a sid is free again": QUIET + b"SUB a 1\r\nUNSUB 1\r\nSUB b 1\r\n" + pub("b") + pub("a"),
    "UNSUB at once": QUIET + b"SUB a 1\r\n" + pub("a") + b"UNSUB 1\r\n" + pub("a") + PING,
    "UNSUB 0 is at once": QUIET + b"SUB a 1\r\nUNSUB 1 0\r\n" + pub("a") + PING,
    "UNSUB after two": QUIET + b"SUB a 1\r\nUNSUB 1 2\r\n" + pub("a") * 4 + PING,
    "UNSUB after two, one was there": QUIET + b"SUB a 1\r\n" + pub("a") + b"UNSUB 1 2\r\n"
    + pub("a") * 3,
    "UNSUB after two, two were there": QUIET + b"SUB a 1\r\n" + pub("a") * 2 + b"UNSUB 1 2\r\n"
    + pub("a") * 2,
    "UNSUB after one, three were there": QUIET + b"SUB a 1\r\n" + pub("a") * 3 + b"UNSUB 1 1\r\n"
    + pub("a"),
    "UNSUB after more, changed": QUIET + b"SUB a 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n" + pub("a") * 5,
    "UNSUB after less, changed": QUIET + b"SUB a 1\r\nUNSUB 1 5\r\n" + pub("a") * 2
    + b"UNSUB 1 2\r\n" + pub("a") * 2,
    "UNSUB twice": LOUD + b"SUB a 1\r\nUNSUB 1\r\nUNSUB 1\r\n" + PING,
    "UNSUB after a count, then at once": QUIET + b"SUB a 1\r\nUNSUB 1 5\r\n" + pub("a")
    + b"UNSUB 1\r\n" + pub("a"),
    "UNSUB after a count, sid used again": QUIET + b"SUB a 1\r\nUNSUB 1 1\r\n" + pub("a")
    + b"SUB b 1\r\n" + pub("b") * 2,
    "two subscriptions get two messages": QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB * 3\r\n" + pub("a"),
    "a queue of one": QUIET + b"SUB a q 1\r\n" + pub("a", b"x") * 2 + PING,
    "two queues": QUIET + b"SUB a q 1\r\nSUB a p 2\r\nSUB a 3\r\n" + pub("a"),
    "a queue of one with UNSUB": QUIET + b"SUB a q 1\r\nUNSUB 1 1\r\n" + pub("a") * 2,
    "queue names are not patterns": QUIET + b"SUB a q.* 1\r\nSUB a q.> 2\r\nSUB a .q. 3\r\n"
    + pub("a"),
    "the queue of the system": QUIET + b"SUB a _sys_ 1\r\n" + PING,
    "the same subject in one chunk": QUIET + b"SUB a 1\r\n" + pub("a", b"x") * 50 + PING,
    "many subscriptions": QUIET + b"".join(b"SUB a.%d %d\r\n" % (i, i) for i in range(200))
    + pub("a.7") + pub("a.199") + PING,
}  # fmt: skip

RESERVED: Final[dict[str, Body]] = {
    f"publish to {subject}": LOUD + pub(subject) + pub("a", b"", subject) + PING
    for subject in (
        "_R_.x", "_R_.", "_R_", "_GR_.x", "_GR_.", "_GR_", "$GR.x", "$GR.", "$GR", "$GNR.x",
        "$JS.ACK.x", "$JS.ACK.", "$JS.ACK", "$NRG.x", "$NRG.", "$NRG",
        "$SYS.x", "$MQTT.x", "$KV.b.k",
    )
}  # fmt: skip

HEADERS: Final[dict[str, Body]] = {
    "to oneself": QUIET + b"SUB a 1\r\n" + hpub("a", HEADER, b"x") + PING,
    "with a reply": QUIET + b"SUB a 1\r\n" + hpub("a", HEADER, b"x", "r") + PING,
    "empty block": QUIET + b"SUB a 1\r\nHPUB a 0 3\r\nabc\r\n" + PING,
    "everything empty": QUIET + b"SUB a 1\r\nHPUB a 0 0\r\n\r\n" + PING,
    "no payload": QUIET + b"SUB a 1\r\n" + hpub("a", HEADER) + PING,
    "block that is none": QUIET + b"SUB a 1\r\n" + hpub("a", b"hello", b"x") + PING,
    "block larger than the message": QUIET + b"HPUB a 10 5\r\nhello\r\n",
    "block of a negative size": QUIET + b"HPUB a -1 5\r\nhello\r\n",
    "size that is no number": QUIET + b"HPUB a x 5\r\nhello\r\n",
    "sizes with zeros": QUIET + b"SUB a 1\r\nHPUB a 0018 0019\r\n" + HEADER + b"x\r\n" + PING,
    "many blanks": QUIET + b"SUB a 1\r\nHPUB \t a  r   18 \t 19 \r\n" + HEADER + b"x\r\n" + PING,
    "in lower case": QUIET + b"SUB a 1\r\nhpub a 18 18\r\n" + HEADER + b"\r\n" + PING,
    "line ending in LF": QUIET + b"SUB a 1\r\nHPUB a 18 18\n" + HEADER + b"\r\n" + PING,
    "payload too short": QUIET + b"HPUB a 18 30\r\n" + HEADER + b"\r\n" + PING,
    "payload too long": QUIET + b"HPUB a 18 18\r\n" + HEADER + b"xyz\r\n" + PING,
    "publisher without": connect(headers=False, no_responders=False) + hpub("a", HEADER),
    "bad subject, pedantic": connect(pedantic=True) + hpub("a..b", HEADER) + PING,
    "verbose": LOUD + hpub("a", HEADER) + PING,
    "subscriber without": [
        ("b", connect(headers=False, no_responders=False) + b"SUB a 1\r\n"),
        ("a", QUIET + hpub("a", HEADER, b"x") + hpub("a", HEADER, b"x", "r") + hpub("a", HEADER)),
    ],
    "subscriber that never said CONNECT": [
        ("b", b"SUB a 1\r\n"),
        ("a", QUIET + hpub("a", HEADER, b"payload")),
    ],
    "subscribers with and without": [
        ("b", connect(headers=False, no_responders=False) + b"SUB a 1\r\n"),
        ("c", QUIET + b"SUB a 1\r\n"),
        ("a", QUIET + b"SUB a 9\r\n" + hpub("a", HEADER, b"x") + pub("a", b"y")),
    ],
    "queue of one without": [
        ("b", connect(headers=False, no_responders=False) + b"SUB a q 1\r\n"),
        ("a", QUIET + hpub("a", HEADER, b"x")),
    ],
    "payload at the limit": QUIET + b"HPUB a 18 1048576\r\n" + HEADER.ljust(1048576) + b"\r\n"
    + PING,
    "payload beyond the limit": QUIET + b"HPUB a 18 1048577\r\n",
}  # fmt: skip

ANSWERS: Final[dict[str, Body]] = {
    "nobody listens": QUIET + b"SUB r 1\r\n" + pub("a", b"x", "r") + PING,
    "nobody listens, verbose": LOUD + b"SUB r 1\r\n" + pub("a", b"x", "r") + PING,
    "nobody listens, inbox by wildcard": QUIET + b"SUB _INBOX.x.* 1\r\n"
    + pub("a", b"x", "_INBOX.x.1") + PING,
    "nobody listens, several inboxes": QUIET + b"SUB r 1\r\nSUB r.> 2\r\nUNSUB 1\r\n"
    + pub("a", b"x", "r.y") + PING,
    "nobody listens, not even to the reply": QUIET + pub("a", b"x", "r") + PING,
    "nobody listens, the reply has a queue": QUIET + b"SUB r q 1\r\n" + pub("a", b"x", "r") + PING,
    "nobody listens, with headers": QUIET + b"SUB r 1\r\n" + hpub("a", HEADER, b"x", "r") + PING,
    "nobody listens, echo off": connect(echo=False) + b"SUB r 1\r\n" + pub("a", b"x", "r") + PING,
    "nobody listens, told twice with UNSUB 1": QUIET + b"SUB r 1\r\nUNSUB 1 1\r\n"
    + pub("a", b"x", "r") * 2 + PING,
    "nobody listens, headers only": connect(no_responders=False) + b"SUB r 1\r\n"
    + pub("a", b"x", "r") + PING,
    "only oneself listens, echo off": connect(echo=False) + b"SUB r 1\r\nSUB a 2\r\n"
    + pub("a", b"x", "r") + PING,
    "only oneself listens in a queue, echo off": connect(echo=False) + b"SUB r 1\r\nSUB a q 2\r\n"
    + pub("a", b"x", "r") + PING,
    "bad subject": QUIET + b"SUB r 1\r\n" + pub("a..b", b"x", "r") + PING,
    "the reply is the subject": QUIET + b"SUB r 1\r\n" + pub("r", b"x", "r") + PING,
    "another one owns the reply": [
        ("b", QUIET + b"SUB r 1\r\n"),
        ("a", QUIET + pub("a", b"x", "r")),
    ],
    "a service answers": [
        ("b", QUIET + b"SUB service 5\r\n"),
        ("a", QUIET + b"SUB _INBOX.me.* 1\r\n" + pub("service", b"q", "_INBOX.me.1")),
        ("b", pub("_INBOX.me.1", b"answer")),
        ("a", b""),
    ],
    "a service answers with headers": [
        ("b", QUIET + b"SUB service q 5\r\n"),
        ("a", QUIET + b"SUB _INBOX.me.1 1\r\nUNSUB 1 1\r\n" + pub("service", b"q", "_INBOX.me.1")),
        ("b", hpub("_INBOX.me.1", HEADER, b"answer") + pub("_INBOX.me.1", b"late", "r")),
        ("a", b""),
    ],
    "a service left": [
        ("b", QUIET + b"SUB service 5\r\nUNSUB 5\r\n"),
        ("a", QUIET + b"SUB r 1\r\n" + pub("service", b"q", "r")),
    ],
    "a service that wants one request": [
        ("b", QUIET + b"SUB service 5\r\nUNSUB 5 1\r\n"),
        ("a", QUIET + b"SUB r 1\r\n" + pub("service", b"q", "r") * 2),
    ],
}  # fmt: skip

SEVERAL: Final[dict[str, Body]] = {
    "one publishes, two receive": [
        ("b", QUIET + b"SUB a.* 1\r\n"),
        ("c", connect(verbose=True) + b"SUB a.b x\r\nSUB a.b q y\r\n"),
        ("a", QUIET + pub("a.b", b"hello", "r")),
        ("b", b""),
    ],
    "echo off is about oneself": [
        ("b", connect(echo=False) + b"SUB a 1\r\n"),
        ("a", QUIET + pub("a", b"1")),
        ("b", pub("a", b"2")),
        ("a", pub("a", b"3")),
    ],
    "echo off within a queue": [
        ("b", QUIET + b"SUB a q 1\r\n"),
        ("a", connect(echo=False) + b"SUB a q 1\r\n" + pub("a", b"x") * 5),
    ],
    "a subscriber leaves": [
        ("b", QUIET + b"SUB a 1\r\n"),
        ("a", QUIET + pub("a", b"1")),
        ("b", b"UNSUB 1\r\n"),
        ("a", pub("a", b"2")),
    ],
    "a subscriber is thrown out": [
        ("b", QUIET + b"SUB a 1\r\n"),
        Turn("b", b"NONSENSE\r\n", ends=True),
        ("a", QUIET + b"SUB r 9\r\n" + pub("a", b"x", "r")),
    ],
    "messages before an error still go": [
        ("b", QUIET + b"SUB a 1\r\n"),
        Turn("a", QUIET + pub("a", b"1") + b"NONSENSE\r\n" + pub("a", b"2"), ends=True),
    ],
    "sids are everybody's own": [
        ("b", QUIET + b"SUB a 1\r\n"),
        ("a", QUIET + b"SUB a 1\r\nUNSUB 1\r\n" + pub("a", b"x")),
    ],
    "a pedantic publisher's bad subject is delivered": [
        ("b", QUIET + b"SUB > 1\r\n"),
        ("a", LOUD + pub("a.*", b"x") + pub("a..b", b"y") + pub(".", b"z")),
    ],
    "a wildcard published matches as text": [
        ("b", QUIET + b"SUB a.b 1\r\nSUB a.* 2\r\nSUB a.> 3\r\n"),
        ("a", QUIET + pub("a.*", b"x") + pub("a.>", b"y")),
    ],
    "UNSUB counts for each subscription": [
        ("b", QUIET + b"SUB a 1\r\nUNSUB 1 2\r\nSUB a 2\r\nUNSUB 2 1\r\n"),
        ("a", QUIET + pub("a", b"1") + pub("a", b"2") + pub("a", b"3")),
    ],
    "sizes are passed on as they came": [
        ("b", QUIET + b"SUB a 1\r\n"),
        ("a", QUIET + b"PUB a 003\r\nabc\r\nPUB  a  r  004\r\nabcd\r\n"),
    ],
}  # fmt: skip

PIECES: Final[dict[str, Body]] = {
    name: [Turn("a", data, wait=False, single=True)]
    for name, data in {
        "connect and publish": QUIET + b"SUB a 1\r\n" + pub("a", b"hello", "r") + PING,
        "headers": QUIET + b"SUB a 1\r\n" + hpub("a", HEADER, b"hello") + PING,
        "lone LF": QUIET + b"SUB a 1\nPUB a 2\nhi\r\nPING\n",
        "blanks": QUIET + b"SUB  a \t 1 \r\nPUB \t a  2 \r\nhi\r\n" + PING,
        "unknown operation": QUIET + b"PUBLISH a\r\n",
        "payload too long": QUIET + b"PUB a 2\r\nhello\r\n",
        "before CONNECT": b"SUB a 1\r\nPUB a.b 1\r\nx\r\nUNSUB 1\r\n" + PING,
        "everything": LOUD + b"SUB a 1\r\nSUB a q 2\r\nUNSUB 1 1\r\n" + pub("a", b"x") * 2 + PING,
    }.items()
}  # fmt: skip

LIMITS: Final[dict[str, Body]] = {
    "payload at the limit": QUIET + b"SUB a 1\r\n" + pub("a", b"x" * 1048576) + PING,
    "payload beyond the limit": QUIET + b"PUB a 1048577\r\n",
    "payload beyond the limit, bad subject": LOUD + b"PUB a..b 1048577\r\n",
    "subject at the control line limit": QUIET + b"PUB " + b"x" * 4092 + b" 10\r\n" + b"y" * 10,
    "PUB line at the limit": QUIET + b"SUB > 1\r\nPUB " + b"x" * 4094 + b" 0\r\n\r\n" + PING,
    "PUB line beyond the limit": QUIET + b"PUB " + b"x" * 4095 + b" 0\r\n\r\n" + PING,
    "SUB line at the limit": QUIET + b"SUB " + b"x" * 4094 + b" 1\r\n" + PING,
    "SUB line beyond the limit": QUIET + b"SUB " + b"x" * 4095 + b" 1\r\n" + PING,
    "UNSUB line beyond the limit": QUIET + b"UNSUB " + b"1" * 4097 + b"\r\n",
    "-ERR line beyond the limit": QUIET + b"-ERR " + b"x" * 4097 + b"\r\n",
    "INFO line beyond the limit": QUIET + b'INFO {"a":"' + b"x" * 4097 + b'"}\r\n',
    "line that never ends": QUIET + b"SUB " + b"x" * 70000,
    "PING line that never ends": QUIET + b"PING" + b"x" * 70000,
    "blanks that never end": QUIET + b"SUB " + b" " * 70000,
    "large messages": QUIET + b"SUB a 1\r\n" + pub("a", b"x" * 100_000) * 3 + PING,
}  # fmt: skip

SMALL: Final[dict[str, Body]] = {
    "payload at the limit": QUIET + b"SUB a 1\r\n" + pub("a", b"x" * 64) + PING,
    "payload beyond the limit": QUIET + pub("a", b"x" * 65) + PING,
    "headers count as payload": QUIET + hpub("a", HEADER, b"x" * 46) + PING,
    "headers beyond the limit": QUIET + hpub("a", HEADER, b"x" * 47) + PING,
    "CONNECT beyond the control line": connect(name="x" * 128) + PING,
    "SUB at the control line": b'CONNECT {"verbose":false}\r\nSUB ' + b"x" * 126 + b" 1\r\n",
    "SUB beyond the control line": b'CONNECT {"verbose":false}\r\nSUB ' + b"x" * 127 + b" 1\r\n",
    "subscriptions at the limit": QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n" + PING,
    "subscriptions beyond the limit": QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nSUB b 4\r\n"
    + pub("b") + pub("a") + PING,
    "subscriptions beyond the limit, verbose": connect(verbose=True)
    + b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nSUB b 4\r\nSUB c..d 5\r\nSUB a 1\r\n" + PING,
    "subscriptions below the limit again": QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nUNSUB 2\r\n"
    b"SUB b 4\r\n" + pub("b") + PING,
    "subscriptions that ended do not count": QUIET + b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nUNSUB 2 1"
    b"\r\n" + pub("a") + b"SUB b 4\r\n" + pub("b") + PING,
}  # fmt: skip

NO_HEADERS: Final[dict[str, Body]] = {
    "CONNECT wants no responders": QUIET + PING,
    "CONNECT wants headers": connect(no_responders=False) + b"SUB a 1\r\n" + pub("a") + PING,
    "HPUB": connect(no_responders=False) + hpub("a", HEADER),
    "without headers": connect(headers=False, no_responders=False) + b"SUB a 1\r\n" + pub("a"),
}  # fmt: skip

TOKENS: Final[dict[str, Body]] = {
    "at the limit": QUIET + b"SUB a.b.c 1\r\nSUB a.*.> 2\r\n" + pub("a.b.c") + PING,
    "beyond the limit": QUIET + b"SUB a.b.c.d 1\r\nSUB a.b.c.> q 2\r\n" + pub("a.b.c.d") + PING,
    "beyond the limit and not valid": LOUD + b"SUB a..c.d 1\r\nSUB a..c 2\r\n" + PING,
    "publishing is not limited": LOUD + pub("a.b.c.d.e.f") + PING,
}  # fmt: skip

CROWDED: Final[dict[str, Body]] = {
    "one too many": [("a", QUIET), ("b", QUIET), Turn("c", QUIET + PING, ends=True), ("a", b"")],
}  # fmt: skip


def delivery_scripts() -> list[Script]:
    """All scripts of this file."""
    return [
        *scripts("plain", "subscriptions", SUBSCRIPTIONS),
        *scripts("plain", "reserved", RESERVED),
        *scripts("plain", "headers", HEADERS),
        *scripts("plain", "answers", ANSWERS),
        *scripts("plain", "several", SEVERAL),
        *scripts("plain", "single bytes", PIECES),
        *scripts("plain", "limits", LIMITS),
        *scripts("small", "small", SMALL),
        *scripts("no headers", "no header support", NO_HEADERS),
        *scripts("tokens", "tokens", TOKENS),
        *scripts("crowded", "crowded", CROWDED),
    ]
