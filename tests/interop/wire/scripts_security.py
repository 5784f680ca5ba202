"""Byte scripts for the differential test: who a client is, and what it may do."""

from __future__ import annotations

from typing import Final

from tests.interop.wire.scripts import (
    HEADER,
    PING,
    QUIET,
    Body,
    connect,
    hpub,
    pub,
    scripts,
)
from tests.support.wire import Script, Turn

# The hash of "pw", with the lowest cost there is.
HASH: Final = "$2a$04$fksf/MYLkJeO/IrTLL/16e.DehJg75vesf52j5IZpQbs.tTKVBa8S"

PERMITTED: Final = """
    { user: free, password: pw }
    { user: listed, password: pw, permissions: {
        publish: { allow: ["ok.>", "both"], deny: "ok.not" }
        subscribe: {
            allow: ["in.>", "group v1", "group v2.*", "_INBOX.>"]
            deny: ["in.not", "in.q q"]
        }
    } }
    { user: denied, password: pw, permissions: {
        publish: { deny: ["no", "no.>"] }
        subscribe: { deny: ["no", "no.>", "some q"] }
    } }
    { user: service, password: pw, permissions: {
        subscribe: { allow: "service" }
        allow_responses: { max: 2, expires: "1m" }
    } }
    { user: once, password: pw, permissions: { publish: "stats", allow_responses: true } }
    { user: hashed, password: "$HASH" }
""".replace("$HASH", HASH)

CONFIGS: Final = {
    "token": "authorization { token: secret }\n",
    "hashed token": f'authorization {{ token: "{HASH}" }}\n',
    "one user": "authorization { user: joe, password: pw }\n",
    "users": "authorization { users: [\n" + PERMITTED + "] }\n",
    "anonymous": "no_auth_user: listed\nauthorization { users: [\n" + PERMITTED + "] }\n",
    "impatient": "authorization { token: secret, timeout: 0.25 }\n",
    "impatient but anonymous": "no_auth_user: u\n"
    "authorization { timeout: 0.25, users: [ { user: u, password: pw } ] }\n",
    "accounts": "accounts {\n"
    "  A { users: [ { user: a1, password: pw }, { user: a2, password: pw } ] }\n"
    "  B { users: [ { user: b1, password: pw } ] }\n"
    '  "$SYS" { users: [ { user: sys, password: pw } ] }\n'
    "}\n",
    "limited accounts": "accounts {\n"
    "  A { users: [ { user: a1, password: pw }, { user: a2, password: pw } ]\n"
    "      limits { max_connections: 2, max_subscriptions: 3, max_payload: 10 } }\n"
    "  B { users: [ { user: b1, password: pw } ], limits { max_conn: 0 } }\n"
    "  C { users: [ { user: c1, password: pw } ], limits { max_pay: 0 } }\n"
    "  D { users: [ { user: d1, password: pw } ], limits { max_conn: -1, max_pay: -1 } }\n"
    "}\n",
    "defaults": "authorization { default_permissions: { publish: ok, subscribe: in }\n"
    "  users: [ { user: u, password: pw }\n"
    "           { user: own, password: pw, permissions: { publish: mine } } ] }\n",
}  # fmt: skip


def login(user: str, password: str = "pw", **options: object) -> bytes:
    return connect(user=user, **{"pass": password}, **options)


TOKEN: Final[dict[str, Body]] = {
    "right": connect(auth_token="secret") + b"SUB a 1\r\n" + pub("a") + PING,
    "wrong": connect(auth_token="Secret") + PING,
    "none": QUIET + PING,
    "empty": connect(auth_token="") + PING,
    "as a password": connect(**{"pass": "secret"}) + PING,
    "as a user": connect(user="secret") + PING,
    "right, and a user too": connect(auth_token="secret", user="u", **{"pass": "p"}) + PING,
    "twice, second wrong": connect(auth_token="secret") + connect(auth_token="x") + PING,
    "twice, second without": connect(auth_token="secret") + b"CONNECT {}\r\n" + PING,
    "PING first": PING,
    "PUB first": pub("a"),
    "SUB first": b"SUB a 1\r\n",
    "garbage first": b"hello\r\n",
    "garbage that begins like CONNECT": b"CON hello\r\n",
    "lower case c only": b"c",
    "empty line first": b"\r\n",
    "broken CONNECT": b"CONNECT {\r\n" + PING,
    "CONNECT without a body": b"CONNECT\r\n" + PING,
    "bad protocol and wrong": connect(auth_token="x", protocol=5),
    "bad protocol and right": connect(auth_token="secret", protocol=5),
    "no responders without headers, wrong": connect(auth_token="x", headers=False),
    "no responders without headers, right": connect(auth_token="secret", headers=False),
    "an account, right": connect(auth_token="secret", account="A"),
    "verbose, right": connect(auth_token="secret", verbose=True) + PING,
    "long CONNECT": connect(auth_token="x" * 5000),
}  # fmt: skip

HASHED_TOKEN: Final[dict[str, Body]] = {
    "right, everything in one write": connect(auth_token="pw") + b"SUB a 1\r\n" + pub("a", b"x")
    + PING,
    "wrong, everything in one write": connect(auth_token="xx") + b"SUB a 1\r\n" + pub("a") + PING,
    "the hash itself": connect(auth_token=HASH) + PING,
    "twice in one write": connect(auth_token="pw") + connect(auth_token="pw", verbose=True)
    + b"SUB a 1\r\n" + PING,
    "twice in one write, second wrong": connect(auth_token="pw") + connect(auth_token="xx")
    + b"SUB a 1\r\n" + PING,
    "wrong, then nonsense": connect(auth_token="xx") + b"NONSENSE\r\n",
    "right, then nonsense": connect(auth_token="pw") + b"SUB a 1\r\nNONSENSE\r\n",
    "right, then too much": connect(auth_token="pw") + b"PUB a 999999999\r\n",
    "right, in single bytes": [Turn("a", connect(auth_token="pw") + PING, single=True)],
}  # fmt: skip

ONE_USER: Final[dict[str, Body]] = {
    "right": login("joe") + b"SUB a 1\r\n" + pub("a") + PING,
    "wrong password": login("joe", "no") + PING,
    "no password": connect(user="joe") + PING,
    "wrong user": login("jim") + PING,
    "nobody": QUIET + PING,
    "user in capitals": login("JOE") + PING,
}  # fmt: skip

USERS: Final[dict[str, Body]] = {
    "unknown": login("nobody") + PING,
    "wrong password": login("free", "x") + PING,
    "no credentials": QUIET + PING,
    "a token": connect(auth_token="pw") + PING,
    "without permissions": login("free") + b"SUB > 1\r\n" + pub("anything.at.all") + PING,
    "publish allowed": login("listed", verbose=True) + pub("ok.x") + pub("both") + PING,
    "publish not allowed": login("listed", verbose=True) + pub("other") + pub("ok") + PING,
    "publish denied": login("listed") + pub("ok.not") + pub("ok.not.deeper") + PING,
    "publish of wildcards": login("listed", pedantic=True) + pub("ok.*") + pub("*") + PING,
    "publish of odd subjects": login("listed") + pub('a"b\\c') + b"PUB n\xff\x01 0\r\n\r\n" + PING,
    "publish of headers not allowed": login("listed", verbose=True) + hpub("other", HEADER) + PING,
    "reply is not looked at": login("listed", verbose=True) + pub("ok.x", b"", "secret.reply"),
    "subscribe allowed": login("listed", verbose=True) + b"SUB in.x 1\r\nSUB in.> 2\r\n" + PING,
    "subscribe not allowed": login("listed", verbose=True) + b"SUB other 1\r\nSUB > 2\r\n" + PING,
    "subscribe denied": login("listed", verbose=True) + b"SUB in.not 1\r\n" + PING,
    "subscribe to a bad subject": login("listed", verbose=True) + b"SUB in..x 1\r\nSUB a..b 2\r\n",
    "subscribe wider": login("denied", verbose=True) + b"SUB > 1\r\nSUB no 2\r\nSUB no.x 3\r\n",
    "subscribe with an allowed queue": login("listed", verbose=True) + b"SUB group v1 1\r\n"
    b"SUB group v2.x 2\r\nSUB in.a v9 3\r\n" + PING,
    "subscribe with another queue": login("listed", verbose=True) + b"SUB group v3 1\r\n"
    b"SUB group 2\r\nSUB group v2.x.y 3\r\n" + PING,
    "subscribe with a denied queue": login("listed", verbose=True) + b"SUB in.q q 1\r\n"
    b"SUB in.q p 2\r\nSUB in.q 3\r\n" + PING,
    "a sid in use, then not allowed": login("listed", verbose=True) + b"SUB in.x 1\r\n"
    b"SUB other 1\r\n" + PING,
    "no responders to a denied subject": login("listed") + b"SUB _INBOX.x 1\r\n"
    + pub("other", b"", "_INBOX.x") + pub("ok.x", b"", "_INBOX.x") + PING,
    "reserved replies": login("listed") + pub("ok.x", b"", "_R_.x") + pub("other", b"", "_R_.x"),
    "the system's queue": login("free") + b"SUB a _sys_ 1\r\n" + PING,
    "with a hash": login("hashed") + b"SUB a 1\r\n" + pub("a") + PING,
    "with a hash, wrong": login("hashed", "x") + b"SUB a 1\r\n" + pub("a") + PING,
    "a denied subject is not delivered": [
        ("b", login("denied") + b"SUB > 1\r\nSUB some q 2\r\n"),
        ("a", login("free") + pub("yes", b"1") + pub("no", b"2") + pub("no.x", b"3")
         + pub("some", b"4")),
    ],
    "a denied subject is no responder": [
        ("b", login("denied") + b"SUB > 1\r\n"),
        ("a", login("free") + b"SUB r 1\r\n" + pub("no.x", b"1", "r") + pub("yes", b"2", "r")),
    ],
    "changing the user": [
        ("a", login("free") + b"SUB other 1\r\n" + pub("other")),
        ("a", login("listed") + pub("other") + b"SUB other 1\r\nSUB in.x 2\r\n"),
        ("b", login("free") + pub("other") + pub("in.x")),
    ],
    "changing the user, refused": [
        ("a", login("free") + b"SUB other 1\r\n"),
        Turn("a", login("listed", "wrong"), ends=True),
        ("b", login("free") + b"SUB r 1\r\n" + pub("other", b"", "r")),
    ],
    "answers are allowed twice": [
        ("b", login("service") + b"SUB service 1\r\n"),
        ("a", login("free") + b"SUB r 1\r\n" + pub("service", b"q", "r")),
        ("b", pub("r", b"1") + pub("r", b"2") + pub("r", b"3") + pub("q", b"4")),
        ("a", b""),
    ],
    "answers are allowed once": [
        ("b", login("once") + b"SUB service q 1\r\n"),
        ("a", login("free") + b"SUB r 1\r\n" + pub("service", b"q", "r")),
        ("b", pub("r", b"1") + pub("r", b"2") + pub("stats", b"3")),
        ("a", pub("service", b"q", "r")),
        ("b", pub("r", b"4")),
        ("a", b""),
    ],
    "answers to requests nobody sent": login("service") + pub("r") + PING,
    "answers to one's own request": login("once") + b"SUB stats 1\r\n" + pub("stats", b"", "x.y")
    + pub("x.y") + PING,
}  # fmt: skip

ANONYMOUS: Final[dict[str, Body]] = {
    "PING first": PING + PING,
    "PUB first": pub("ok.x") + pub("other") + PING,
    "SUB first": b"SUB in.x 1\r\nSUB other 2\r\n" + PING,
    "HPUB first": hpub("ok.x", HEADER),
    "empty CONNECT": b"CONNECT {}\r\n" + pub("other") + pub("ok.x") + PING,
    "CONNECT without credentials": QUIET + pub("other") + PING,
    "CONNECT as somebody": login("free") + pub("other") + b"SUB other 1\r\n" + PING,
    "CONNECT as nobody known": login("nobody") + PING,
    "CONNECT with an empty user": login("", "pw") + PING,
    "CONNECT with a token": connect(auth_token="x") + PING,
    "operations, then CONNECT as somebody": b"SUB in.x 1\r\n" + PING + login("free")
    + pub("in.x") + b"SUB other 2\r\n" + pub("other") + PING,
    "operations, then CONNECT without": b"SUB in.x 1\r\n" + QUIET + b"SUB in.x 1\r\n" + PING,
    "garbage first": b"hello\r\n",
    "garbage that begins like PUB": b"PUNY\r\n",
}  # fmt: skip

IMPATIENT: Final[dict[str, Body]] = {
    "nothing": [Turn("a", b"", ends=True)],
    "half a CONNECT": [Turn("a", b'CONNECT {"auth_token":', ends=True)],
    "CONNECT in time": [("a", connect(auth_token="secret"))],
}  # fmt: skip

PATIENT: Final[dict[str, Body]] = {
    "nothing": [Turn("a", b"", ends=True)],
    "CONNECT in time": [("a", QUIET)],
    "PING in time": [("a", PING)],
}  # fmt: skip

ACCOUNTS: Final[dict[str, Body]] = {
    "within one account": [
        ("b", login("a2") + b"SUB a 1\r\n"),
        ("a", login("a1") + pub("a", b"x")),
    ],
    "across accounts": [
        ("b", login("b1") + b"SUB > 1\r\n"),
        ("a", login("a1") + b"SUB r 1\r\n" + pub("a", b"x", "r")),
        ("b", pub("a", b"y")),
        ("a", b""),
    ],
    "changing the account": [
        ("a", login("a1") + b"SUB a 1\r\n"),
        ("a", login("b1") + b"SUB b 1\r\n"),
        ("b", login("a2") + b"SUB r 1\r\n" + pub("a", b"x", "r") + pub("b", b"y", "r")),
        ("c", login("b1") + pub("b", b"z")),
        ("a", b""),
    ],
    "the second INFO names the account": login("b1") + PING,
    "the system account": login("sys") + PING,
    "the system account may use reserved subjects": login("sys", verbose=True) + pub("$NRG.x")
    + pub("_GR_.x") + PING,
    "nobody": QUIET + PING,
    "PING first": PING,
    "wrong password": login("a1", "x") + PING,
}  # fmt: skip

LIMITED: Final[dict[str, Body]] = {
    "connections of an account": [
        ("a", login("a1")),
        ("b", login("a2")),
        Turn("c", login("a1") + PING, ends=True),
        Turn("d", login("a2") + b"SUB a 1\r\n" + pub("a"), ends=True),
        ("a", PING),
    ],
    "no connections at all": [Turn("a", login("b1") + PING, ends=True)],
    "a second CONNECT does not count twice": [
        ("a", login("a1")),
        ("a", login("a1")),
        ("a", login("a2")),
        ("b", login("a1")),
        ("b", PING),
    ],
    "subscriptions per connection": [
        ("a", login("a1") + b"".join(b"SUB s%d %d\r\n" % (n, n) for n in range(5)) + PING),
        ("b", login("a2") + b"SUB s 1\r\nSUB s 2\r\nSUB s 3\r\n" + PING),
        ("a", b"UNSUB 1\r\nSUB later 9\r\nSUB much.later 10\r\n"),
        ("b", pub("later", b"x") + pub("much.later", b"x")),
        ("a", b""),
    ],
    "payload of an account": login("a1") + b"SUB a 1\r\n" + pub("a", b"0123456789")
    + pub("a", b"0123456789a") + PING,
    "headers count as payload": login("a1") + hpub("a", HEADER, b"x") + PING,
    "only empty messages": login("c1") + b"SUB a 1\r\n" + pub("a") + pub("a", b"x") + PING,
    "a limit of -1 is none": login("d1") + b"SUB a 1\r\n" + pub("a", b"x" * 100) + PING,
    "another account, another limit": [
        ("a", login("a1") + b"SUB a 1\r\n" + pub("a", b"0123456789")),
        ("a", login("d1") + b"SUB a 1\r\n" + pub("a", b"0123456789a")),
        ("a", login("a1") + b"SUB a 1\r\n" + pub("a", b"0123456789a")),
    ],
}  # fmt: skip

DEFAULTS: Final[dict[str, Body]] = {
    "used": login("u", verbose=True) + pub("ok") + pub("mine") + b"SUB in 1\r\nSUB x 2\r\n" + PING,
    "overruled": login("own", verbose=True) + pub("ok") + pub("mine") + b"SUB x 2\r\n" + PING,
}  # fmt: skip


def security_scripts() -> list[Script]:
    """All scripts of this file."""
    return [
        *scripts("token", "token", TOKEN),
        *scripts("hashed token", "hashed token", HASHED_TOKEN),
        *scripts("one user", "one user", ONE_USER),
        *scripts("users", "users", USERS),
        *scripts("anonymous", "anonymous", ANONYMOUS),
        *scripts("impatient", "impatient", IMPATIENT),
        *scripts("impatient but anonymous", "impatient but anonymous", PATIENT),
        *scripts("accounts", "accounts", ACCOUNTS),
        *scripts("limited accounts", "limited accounts", LIMITED),
        *scripts("defaults", "defaults", DEFAULTS),
    ]
