"""Where our server answers otherwise than nats-server 2.15.1, on purpose (docs/compatibility.md).

Each of ``DIFFERENCES`` is a script of the differential test with what both say, without INFO; the
test holds both to it, so that a row that is no longer true fails. ``UNSETTLED`` keeps generated
scripts away from bytes whose answer depends, in nats-server, on how the network cut them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Fields of INFO that one of the two has. Ours says what it can do beyond nats-server; xkey is for
# encrypted auth callouts.
INFO_ONLY_OURS: Final = frozenset({"jetspark"})
INFO_ONLY_THEIRS: Final = frozenset({"xkey"})

# In nats-server a CR anywhere in a line takes the last byte before its LF away; a line end that
# begins the arguments of PUB belongs to the subject; HMSG publishes to an empty subject; what
# follows -ERR in the same read is still carried out on a connection that is closed. A form feed
# is no such matter: it stands below.
UNSETTLED: Final = (
    rb"(?i)\r(?!\n)|h?pub[ \t]+[\r\n]|hmsg|-err[ \t]|\f"
    rb"|h?pub[ \t]+\S+[ \t]+\$JS\.API\."  # depends on the user's permissions: it stands below
)

# nats-server says this as soon as it has the line of a publish, and once more for every part of
# the network's that the payload is cut into; ours says it once, when the message is whole.
TIMELY: Final = b"-ERR 'Invalid Publish Subject'"

# Leading zeros of sizes: nats-server passes sizes on as they came, ours without zeros if the line
# also has more blanks than it needs. The comparison leaves them out.

QUIET: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
END: Final = b"-ERR 'Maximum Payload Violation'"  # how every script ends that is still open
UNKNOWN: Final = b"-ERR 'Unknown Protocol Operation'"


@dataclass(frozen=True)
class Difference:
    """One write on one connection, and what comes back. ``reason`` says why ours is otherwise."""

    name: str
    reason: str
    sent: bytes
    ours: list[bytes]
    theirs: list[bytes]
    config: str = "plain"


DIFFERENCES: Final = (
    Difference(
        "form feed in a subject",
        "a form feed is a blank to everything that checks stream subjects, so it is one here too",
        QUIET + b"SUB a\fb 1\r\nPUB a\fb 0\r\n\r\nPING\r\n",
        [b"-ERR 'Invalid Subject'", b"PONG", END],
        [b"MSG a\fb 1 0\r\n", b"PONG", END],
    ),
    Difference(
        "CR in the subject of a publish",
        "nats-server lets it into the subject, where it breaks the lines of every subscriber",
        QUIET + b"SUB > 1\r\nPUB a\rb 0\r\n\r\nPING\r\n",
        [],
        [b"MSG a\rb 1 0\r\n", b"PONG", END],
    ),
    Difference(
        "LF at the beginning of a publish",
        "the same: nats-server lets it into the subject",
        QUIET + b"SUB > 1\r\nPUB \na 0\r\n\r\nPING\r\n",
        [],
        [b"MSG \na 1 0\r\n", b"PONG", END],
    ),
    Difference(
        "CR within a line that ends with LF",
        "nats-server then loses the last byte of the line, if it came in one piece",
        QUIET + b"SUB a \r 12\nPUB a 0\r\n\r\nPING\r\n",
        [b"MSG a 12 0\r\n", b"PONG", END],
        [b"MSG a 1 0\r\n", b"PONG", END],
    ),
    Difference(
        "HMSG from a client",
        "only servers send it; nats-server publishes the message to an empty subject",
        QUIET + b"HMSG a 0 0\r\n\r\nPING\r\n",
        [UNKNOWN],
        [b"PONG", END],
    ),
    Difference(
        "publish to a bad subject whose payload does not end",
        "ours looks at a message when it is whole",
        b"PUB a..b 5\r\nhello!\r\n",
        [UNKNOWN],
        [TIMELY, UNKNOWN],
    ),
    Difference(
        "a field of routes and leaf nodes with a wrong type",
        "clients do not send it, so ours does not read it",
        b'CONNECT {"verbose":false,"import":5}\r\nPING\r\n',
        [b"PONG", END],
        [],
    ),
    Difference(
        "half of a surrogate pair in CONNECT",
        "it stands for no character; nats-server reads U+FFFD",
        b'CONNECT {"verbose":false,"name":"\\ud800"}\r\nPING\r\n',
        [],
        [b"PONG", END],
    ),
    Difference(
        "CONNECT nested deeper than a thousand levels",
        "no client nests at all; our reader stops there",
        b'CONNECT {"verbose":false,"x":' + b"[" * 1900 + b"]" * 1900 + b"}\r\nPING\r\n",
        [],
        [b"PONG", END],
    ),
    Difference(
        "the password of the no_auth_user in a later CONNECT",
        "nats-server keeps the name and password of the no_auth_user as if the client had shown "
        "them, and completes a later CONNECT with them; ours asks for both",
        b'PING\r\nCONNECT {"verbose":false,"pass":"pw"}\r\nPING\r\n',
        [b"PONG", b"-ERR 'Authorization Violation'"],
        [b"PONG", b"PONG", END],
        "anonymous",
    ),
    Difference(
        "a reply under $JS. of a user that may not publish there",
        "the answer of a service would be a request to JetStream in this user's place",
        b'CONNECT {"verbose":false,"user":"listed","pass":"pw"}\r\n'
        b"PUB ok.x $JS.API.x 0\r\n\r\nPING\r\n",
        [b"-ERR 'Permissions Violation for Publish with Reply of \"$JS.API.x\"'", b"PONG", END],
        [b"PONG", END],
        "users",
    ),
    Difference(
        "message trace",
        "ours does not trace messages: it delivers them, and sends no report",
        QUIET + b"SUB a 1\r\nHPUB a 55 56\r\nNATS/1.0\r\nNats-Trace-Dest: t\r\n"
        b"Nats-Trace-Only: true\r\n\r\nx\r\nPING\r\n",
        [
            b"HMSG a 1 55 56\r\nNATS/1.0\r\nNats-Trace-Dest: t\r\nNats-Trace-Only: true\r\n\r\nx",
            b"PONG",
            END,
        ],
        [b"PONG", END],
    ),
)
