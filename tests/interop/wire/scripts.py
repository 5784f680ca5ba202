"""Byte scripts for the differential test: CONNECT, the operations, subjects and modes.

A script runs on servers with the configuration that it names. A script given as bytes is one
write on one connection; a list is several turns, each answered before the next begins.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

from tests.support.wire import Script, Turn

CONFIGS: Final = {"plain": ""}


def connect(**options: Any) -> bytes:
    """CONNECT of a quiet client of today, changed by ``options``; None leaves one out."""
    fields: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
    } | options
    given = {key: value for key, value in fields.items() if value is not None}
    return b"CONNECT " + json.dumps(given).encode() + b"\r\n"


def raw_connect(body: bytes) -> bytes:
    """CONNECT with any text, then operations that show what became of it."""
    return b"CONNECT " + body + b"\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n"


def pub(subject: str, payload: bytes = b"", reply: str = "") -> bytes:
    words = ["PUB", subject, *([reply] if reply else []), str(len(payload))]
    return " ".join(words).encode() + b"\r\n" + payload + b"\r\n"


def hpub(subject: str, headers: bytes, payload: bytes = b"", reply: str = "") -> bytes:
    sizes = f"{len(headers)} {len(headers) + len(payload)}"
    words = ["HPUB", subject, *([reply] if reply else []), sizes]
    return " ".join(words).encode() + b"\r\n" + headers + payload + b"\r\n"


QUIET: Final = connect()
LOUD: Final = connect(verbose=True, pedantic=True)
HEADER: Final = b"NATS/1.0\r\nK: v\r\n\r\n"
PING: Final = b"PING\r\n"

Body = bytes | list[tuple[str, bytes] | Turn]


def scripts(config: str, group: str, table: dict[str, Body]) -> list[Script]:
    """Turn a table into scripts."""
    made = []
    for name, body in table.items():
        turns = [Turn("a", body, wait=False)] if isinstance(body, bytes) else body
        whole = tuple(turn if isinstance(turn, Turn) else Turn(*turn) for turn in turns)
        made.append(Script(f"{group}: {name}", whole, config))
    return made


BEFORE_CONNECT: Final[dict[str, Body]] = {
    "nothing at all": b"",
    "PING": PING,
    "PONG": b"PONG\r\n",
    "PUB is verbose": pub("a"),
    "SUB is verbose": b"SUB a 1\r\nUNSUB 1\r\n",
    "UNSUB of nothing": b"UNSUB 1\r\n",
    "publishes are checked": pub("a..b") + pub("a.*") + pub("a.>") + pub("a.b"),
    "HPUB": hpub("a", HEADER),
    "own messages come back": b"SUB a 1\r\n" + pub("a", b"x"),
    "the PING gives no second INFO": PING + PING,
    "subscriptions stay when CONNECT comes": b"SUB a 1\r\n" + QUIET + pub("a", b"x") + PING,
    "no responders are not told": b"SUB r 1\r\n" + pub("nobody", b"", "r") + PING,
}

CONNECTS: Final[dict[str, Body]] = {
    "empty object": raw_connect(b"{}"),
    "nothing behind it": b"CONNECT\r\n" + PING,
    "nothing but blanks": b"CONNECT   \r\n" + PING,
    "no blank before the object": b'CONNECT{"verbose":false}\r\nSUB a 1\r\n' + PING,
    "many blanks and tabs": b'CONNECT \t  {"verbose":false} \t \r\nSUB a 1\r\n' + PING,
    "null": raw_connect(b"null"),
    "a list": raw_connect(b"[]"),
    "a text": raw_connect(b'"x"'),
    "a number": raw_connect(b"1"),
    "broken JSON": raw_connect(b'{"verbose":'),
    "not JSON": raw_connect(b"hello"),
    "text behind the object": raw_connect(b'{"verbose":false} x'),
    "two objects": raw_connect(b'{"verbose":false}{}'),
    "single quotes": raw_connect(b"{'verbose':false}"),
    "trailing comma": raw_connect(b'{"verbose":false,}'),
    "unknown fields": raw_connect(b'{"colour":"red","size":{"x":[1,2]}}'),
    "fields in capitals": raw_connect(b'{"VERBOSE":false,"Pedantic":false}'),
    "the last of two fields": raw_connect(b'{"verbose":true,"verbose":false}'),
    "the last of two spellings": raw_connect(b'{"verbose":false,"VERBOSE":true}'),
    "null for a boolean": raw_connect(b'{"verbose":null,"headers":null}'),
    "null for a text": raw_connect(b'{"verbose":false,"user":null,"lang":null}'),
    "number for a boolean": raw_connect(b'{"verbose":1}'),
    "text for a boolean": raw_connect(b'{"verbose":"false"}'),
    "number for a text": raw_connect(b'{"verbose":false,"lang":1}'),
    "text for a number": raw_connect(b'{"verbose":false,"protocol":"1"}'),
    "fraction for a number": raw_connect(b'{"verbose":false,"protocol":1.0}'),
    "exponent for a number": raw_connect(b'{"verbose":false,"protocol":1e0}'),
    "boolean for a number": raw_connect(b'{"verbose":false,"protocol":true}'),
    "object for a text": raw_connect(b'{"verbose":false,"name":{}}'),
    "broken UTF-8": raw_connect(b'{"verbose":false,"name":"\xff\xfe"}'),
    "escapes": raw_connect(b'{"verbose":false,"name":"\\u00e9\\ud83d\\ude00"}'),
    "unknown escape": raw_connect(b'{"verbose":false,"name":"\\x"}'),
    "control character in a text": raw_connect(b'{"verbose":false,"name":"a\x01b"}'),
    "leading zero": raw_connect(b'{"verbose":false,"protocol":01}'),
    "NaN": raw_connect(b'{"verbose":false,"protocol":NaN}'),
    "protocol 0": connect(protocol=0) + PING + PING,
    "protocol 1": connect(protocol=1) + PING + PING,
    "protocol 2": connect(protocol=2) + PING,
    "protocol -1": connect(protocol=-1) + PING,
    "protocol too large": raw_connect(b'{"protocol":99999999999999999999}'),
    "no protocol": connect(protocol=None) + PING + PING,
    "an account": connect(account="A") + PING,
    "a new account": connect(new_account=True) + PING,
    "an account and a bad protocol": connect(account="A", protocol=7) + PING,
    "language and version": connect(lang="nats.py", version="2.16.0", name="me") + PING,
    "credentials nobody asked for": connect(user="u", **{"pass": "p"}, auth_token="t") + PING,
    "nkey and jwt nobody asked for": connect(nkey="U", jwt="J", sig="S") + PING,
    "tls_required nobody asked for": connect(tls_required=True) + PING,
    "no responders without headers": connect(headers=False) + PING,
    "no responders, headers left out": connect(headers=None) + PING,
    "no responders and a bad protocol": connect(headers=False, protocol=3) + PING,
    "twice": QUIET + b"SUB a 1\r\n" + QUIET + pub("a") + b"SUB a 1\r\n" + pub("a") + PING,
    "twice, second changes one thing": QUIET + b'CONNECT {"verbose":true}\r\nSUB a 1\r\n' + PING,
    "twice, second is broken": QUIET + b"CONNECT {\r\n" + PING,
    "twice, second has a bad protocol": QUIET + connect(protocol=9) + PING,
    "twice, protocol 0 then 1": connect(protocol=0) + PING + connect(protocol=1) + PING,
    "twice before the first PING": connect(protocol=0) + connect(protocol=1) + PING,
    "twice, headers off again": QUIET + connect(headers=False, no_responders=False)
    + hpub("a", HEADER),
    "twice, echo off again": [
        ("a", QUIET + b"SUB a 1\r\n" + pub("a")),
        ("a", connect(echo=False) + b"SUB a 1\r\n" + pub("a")),
    ],
    "in lower case": b'connect {"verbose":false}\r\nSUB a 1\r\n' + PING,
    "at the control line limit": connect(name="x" * 4000) + PING,
    "beyond the control line limit": connect(name="x" * 4096) + PING,
    "deep JSON": raw_connect(b'{"verbose":false,"x":' + b"[" * 900 + b"]" * 900 + b"}"),
    "deep JSON not closed": raw_connect(b"[" * 4000),
}  # fmt: skip

OPERATIONS: Final[dict[str, Body]] = {
    "PING and PONG": QUIET + b"PING\r\nPONG\r\nPING\r\n",
    "PING with a lone LF": QUIET + b"PING\nPING\n",
    "PING in lower case": QUIET + b"ping\r\nPiNg\r\n",
    "PING with text behind it": QUIET + b"PING hello\r\nPINGhello\r\nPING\r\r\n",
    "PONG with text behind it": QUIET + b"PONG x y\r\n" + PING,
    "+OK from a client": QUIET + b"+OK\r\n+ok\n+OKAY\r\n" + PING,
    "-ERR from a client": QUIET + b"-ERR 'no'\r\n",
    "-ERR without text": QUIET + b"-ERR\r\n" + PING,
    "-ERR with a blank": QUIET + b"-ERR \r\n" + PING,
    "INFO from a client": QUIET + b"INFO {}\r\n" + PING,
    "INFO without an object": QUIET + b"INFO\r\n" + PING,
    "INFO that is broken": QUIET + b"INFO {\r\n" + PING,
    "INFO with a wrong type": QUIET + b'INFO {"port":"x"}\r\n' + PING,
    "MSG from a client": QUIET + b"MSG a 1 0\r\n\r\n" + PING,
    "route and leaf operations RS+": QUIET + b"RS+ $G a\r\n" + PING,
    "route and leaf operations LS+": QUIET + b"LS+ a\r\n" + PING,
    "route and leaf operations A+": QUIET + b"A+ x\r\n" + PING,
    "unknown operation": QUIET + b"HELLO\r\n" + PING,
    "unknown beginning like a known one": QUIET + b"PUX a 0\r\n\r\n",
    "unknown beginning like CONNECT": QUIET + b"CONNEX {}\r\n",
    "HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": b"\x00" * 100,
    "high bytes": b"\xff" * 100,
    "empty line": QUIET + b"\r\n" + PING,
    "lone LF": QUIET + b"\n" + PING,
    "leading blank": QUIET + b" PING\r\n",
    "PUB without arguments": QUIET + b"PUB\r\n",
    "PUB with one argument": QUIET + b"PUB a\r\n",
    "PUB with four arguments": QUIET + b"PUB a b c 0\r\n\r\n",
    "PUB with a size that is no number": QUIET + b"PUB a x\r\n\r\n",
    "PUB with a negative size": QUIET + b"PUB a -1\r\n\r\n",
    "PUB with a signed size": QUIET + b"PUB a +1\r\nx\r\n",
    "PUB with a size of nine digits": QUIET + b"PUB a 000000001\r\nx\r\n" + PING,
    "PUB with a size of ten digits": QUIET + b"PUB a 0000000001\r\nx\r\n" + PING,
    "PUB with a payload too short": QUIET + b"PUB a 5\r\nabc\r\n" + PING,
    "PUB with a payload too long": QUIET + b"PUB a 2\r\nabc\r\n" + PING,
    "PUB with a payload ending in LF": QUIET + b"PUB a 3\r\nabc\n" + PING,
    "PUB with a payload ending in CR": QUIET + b"PUB a 3\r\nabc\rPING\r\n",
    "PUB line ending in LF": QUIET + b"SUB a 1\r\nPUB a 3\nabc\r\n" + PING,
    "PUB of an empty payload": QUIET + b"SUB a 1\r\nPUB a 0\r\n\r\n" + PING,
    "PUB of line ends": QUIET + b"SUB a 1\r\n" + pub("a", b"\r\n\r\n") + PING,
    "PUB of zeros and high bytes": QUIET + b"SUB a 1\r\n" + pub("a", bytes(range(256))) + PING,
    "PUB in lower case": QUIET + b"sub a 1\r\npub a 1\r\nx\r\nunsub 1\r\n" + PING,
    "PUB with tabs": QUIET + b"SUB\ta\t1\r\nPUB\ta\tb\t1\r\nx\r\n" + PING,
    "PUB with many blanks": QUIET + b"SUB   a \t 1  \r\nPUB  a   b  \t 1 \r\nx\r\n" + PING,
    "PUB without a blank": QUIET + b"PUBa 0\r\n\r\n",
    "PUB to a subject of odd characters": QUIET + b"SUB > 1\r\nPUB a\x00\xff!'\"\\ 0\r\n\r\n",
    "SUB without arguments": QUIET + b"SUB\r\n",
    "SUB with one argument": QUIET + b"SUB a\r\n",
    "SUB with a queue": QUIET + b"SUB a q 1\r\n" + pub("a") + PING,
    "SUB with four arguments": QUIET + b"SUB a q 1 2\r\n",
    "SUB with text for a sid": QUIET + b"SUB a one-and-only\r\n" + pub("a") + PING,
    "SUB with a sid of odd characters": QUIET + b"SUB a \x01\xfe'\r\n" + pub("a") + PING,
    "UNSUB without arguments": QUIET + b"UNSUB\r\n",
    "UNSUB with three arguments": QUIET + b"UNSUB 1 2 3\r\n",
    "UNSUB with a count that is no number": QUIET + b"SUB a 1\r\nUNSUB 1 x\r\n" + pub("a") + PING,
    "UNSUB with a negative count": QUIET + b"SUB a 1\r\nUNSUB 1 -5\r\n" + pub("a") + PING,
    "UNSUB with a count of ten digits": QUIET + b"SUB a 1\r\nUNSUB 1 1000000000\r\n" + pub("a"),
    "HPUB without arguments": QUIET + b"HPUB\r\n",
    "HPUB with two arguments": QUIET + b"HPUB a 0\r\n\r\n",
    "HPUB with five arguments": QUIET + b"HPUB a b c 0 0\r\n\r\n",
    "HMSG from a client with arguments": QUIET + b"HMSG a 1 2 2\r\n\r\n\r\n",
    "nothing after half an operation": QUIET + b"PIN",
    "nothing after half a line": QUIET + b"SUB a",
    "nothing after half a payload": QUIET + b"PUB a 100\r\nabc",
}  # fmt: skip

SUBJECTS: Final = (
    "a",
    ".",
    "..",
    ".a",
    "a.",
    "a..b",
    "*",
    ">",
    "a.*",
    "a.>",
    "a.>.b",
    ">.a",
    "*.*",
    "a*",
    "*a",
    "a*b.c",
    "a>",
    ">a",
    "a.b>",
    "**",
    ">>",
    "a.**",
    "a.>>",
    "$SYS.x",
    "$JS.API.x",
    "_INBOX.x",
    "a\x00b",
    "é",
    "x" * 2000,
    ".".join("abcdefghij" * 12),
)


def subject_scripts() -> list[Script]:
    """Every subject as a subscription and as the subject and reply of a publish, in all modes."""
    made = []
    for number, subject in enumerate(SUBJECTS):
        body = f"SUB {subject} 1\r\nSUB {subject} q 2\r\n".encode()
        body += pub(subject, b"x") + pub("a.b", b"y") + pub("a", b"z", subject)
        for mode, said in (("quiet", QUIET), ("loud", LOUD), ("unconnected", b"")):
            name = f"subjects: {number} {subject[:12]!r} {mode}"
            made.append(Script(name, (Turn("a", said + body + PING, wait=False),)))
    return made


PATTERNS: Final = (
    ("a.*", ("a", "a.b", "a.b.c", "b.a")),
    ("a.>", ("a", "a.b", "a.b.c.d", "b.a")),
    ("*.b.*", ("a.b.c", "b.b", "a.c.c", "x.b.z")),
    (">", ("a", "a.b", "$SYS.a", "_INBOX.a.b")),
    ("*", ("a", "a.b", "*", ">")),
    ("*.>", ("a", "a.b", "a.b.c")),
    ("f*o.b", ("f*o.b", "foo.b", "fo.b")),
    ("a.b", ("a.b", "A.b", "a.b.", "a.bb")),
)


def matching_scripts() -> list[Script]:
    """One subscriber of a pattern, one publisher."""
    made = []
    for pattern, subjects in PATTERNS:
        sent = b"".join(pub(subject, subject.encode()) for subject in subjects)
        turns = (
            Turn("b", QUIET + f"SUB {pattern} 7\r\n".encode()),
            Turn("a", QUIET + sent),
        )
        made.append(Script(f"matching: {pattern}", turns))
    return made


def mode_scripts() -> list[Script]:
    """Every combination of what a client can ask for in CONNECT."""
    body = b"SUB a 1\r\nSUB r.* 2\r\n" + pub("a", b"x") + pub("a..b") + pub("a", b"y", "r.1")
    body += pub("nobody", b"", "r.2") + b"UNSUB 1 2\r\nUNSUB 9\r\n" + PING
    made = []
    names = ("verbose", "pedantic", "echo", "headers", "no_responders")
    for values in itertools.product((False, True), repeat=len(names)):
        options = dict(zip(names, values, strict=True))
        said = connect(**options) + body + hpub("a", HEADER, b"z") + PING
        name = "modes: " + (" ".join(key for key in names if options[key]) or "none")
        made.append(Script(name, (Turn("a", said, wait=False),)))
    return made


def core_scripts() -> list[Script]:
    """All scripts of this file."""
    return [
        *scripts("plain", "before CONNECT", BEFORE_CONNECT),
        *scripts("plain", "CONNECT", CONNECTS),
        *scripts("plain", "operations", OPERATIONS),
        *subject_scripts(),
        *matching_scripts(),
        *mode_scripts(),
    ]
