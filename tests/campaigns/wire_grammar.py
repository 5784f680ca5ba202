"""Byte scripts from a grammar of operations, some of them damaged, for `wire.py` to play.

Several connections take turns. The last turn of each may be damaged: bytes flipped, left out,
doubled or put in. Whatever a script does, what it must get is settled: no two members of a queue
group, and nothing of what `known_differences.py` lists.
"""

from __future__ import annotations

import re
from typing import Any, Final

from hypothesis import strategies as st
from tests.campaigns.wire import Script, Turn
from tests.interop.known_differences import UNSETTLED
from tests.interop.wire_scripts import connect

NAMES: Final = "abc"
WORDS: Final = ("a", "b", "c", "*", ">", "", "f*o", "a>", "é", "_INBOX", "ok", "in", "no", "x" * 40)
USERS: Final = ("free", "listed", "denied", "service", "once")
CONFIGS: Final = ("plain", "plain", "plain", "small", "users", "anonymous", "tokens")

subjects: Final = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(".".join)
simple_subjects: Final = st.sampled_from(("a", "a.b", "a.b.c", "b", "b.a", "ok.x", "in.x", "r"))
any_subject: Final = st.one_of(simple_subjects, simple_subjects, subjects)
blanks: Final = st.sampled_from((b" ", b" ", b" ", b"  ", b"\t", b" \t "))
ends: Final = st.sampled_from((b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b" \r\n"))
payloads: Final = st.one_of(
    st.just(b""),
    st.sampled_from((b"hello", b"PING\r\n", b"\r\n", b"PUB a 1\r\nx\r\n", b"x" * 600)),
    st.binary(max_size=20),
)
header_blocks: Final = st.sampled_from((
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nK: v\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"not a header",
    b"",
))  # fmt: skip
counts: Final = st.sampled_from((b"", b"0", b"1", b"2", b"3", b"-1", b"x", b"007"))
options: Final = st.fixed_dictionaries(
    {},
    optional={
        "verbose": st.booleans(),
        "pedantic": st.booleans(),
        "echo": st.booleans(),
        "headers": st.booleans(),
        "no_responders": st.booleans(),
        "protocol": st.sampled_from((0, 0, 1, 1, 1, 2)),
        "name": st.text(max_size=5),
    },
)


def in_case(word: bytes) -> st.SearchStrategy[bytes]:
    """Return the operation in several spellings."""
    return st.sampled_from((word, word, word, word.lower(), word.capitalize()))


@st.composite
def lines(draw: st.DrawFn, word: bytes, *arguments: bytes) -> bytes:
    """Draw a control line with its arguments, in any spacing."""
    line = draw(in_case(word))
    for argument in arguments:
        if argument:
            line += draw(blanks) + argument
    return line + draw(ends)


@st.composite
def sids(draw: st.DrawFn) -> bytes:
    return draw(st.sampled_from((b"1", b"2", b"3", b"sid")))


@st.composite
def subscribes(draw: st.DrawFn, connection: str) -> bytes:
    """Draw SUB. A queue has one member: its name is made of connection and sid."""
    sid = draw(sids())
    queue = b"q%b%b" % (connection.encode(), sid) if draw(st.integers(0, 3)) == 0 else b""
    return draw(lines(b"SUB", draw(any_subject).encode(), queue, sid))


@st.composite
def unsubscribes(draw: st.DrawFn) -> bytes:
    return draw(lines(b"UNSUB", draw(sids()), draw(counts)))


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """Draw PUB or HPUB, now and then with a size that is wrong."""
    subject, payload = draw(any_subject).encode(), draw(payloads)
    reply = draw(any_subject).encode() if draw(st.booleans()) else b""
    if draw(st.integers(0, 2)) == 0:
        headers = draw(header_blocks)
        sizes = (b"%d" % len(headers), b"%d" % (len(headers) + len(payload)))
        line = draw(lines(b"HPUB", subject, reply, *sizes))
        return line + headers + payload + b"\r\n"
    return draw(lines(b"PUB", subject, reply, b"%d" % len(payload))) + payload + b"\r\n"


@st.composite
def connects(draw: st.DrawFn, config: str) -> bytes:
    """Draw CONNECT, as a user where there are users."""
    fields: dict[str, Any] = draw(options)
    if config == "users" or (config == "anonymous" and draw(st.booleans())):
        fields |= {"user": draw(st.sampled_from(USERS)), "pass": "pw"}
        if draw(st.integers(0, 9)) == 0:
            fields["pass"] = "wrong"
    return connect(**fields)


def operations(connection: str, config: str) -> st.SearchStrategy[tuple[bytes, int]]:
    """Operations, each with the number of PONGs it causes."""
    plain = st.one_of(
        subscribes(connection),
        publishes(),
        publishes(),
        unsubscribes(),
        st.sampled_from((b"PONG\r\n", b"+OK\r\n", b"INFO {}\r\n")),
    )
    return st.one_of(
        plain.map(lambda data: (data, 0)),
        plain.map(lambda data: (data, 0)),
        in_case(b"PING").map(lambda word: (word + b"\r\n", 1)),
        connects(config).map(lambda data: (data, 0)),
    )


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw ``data`` with some damage."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.sampled_from((0, 1, 1, 2, 5))))
        piece = draw(
            st.one_of(
                st.sampled_from((b"", b" ", b"\t", b"\n", b"\r\n", b"0", b"9", b"\x00", b"PING")),
                st.just(data[begin:end] * 2),
                st.binary(min_size=1, max_size=2),
            )
        )
        data = data[:begin] + piece + data[end:]
    return data[: draw(st.integers(1, len(data)))] if draw(st.integers(0, 5)) == 0 else data


@st.composite
def generated_scripts(draw: st.DrawFn) -> Script:
    """Draw a script."""
    config = draw(st.sampled_from(CONFIGS))
    names = NAMES[: draw(st.integers(1, 3))]
    turns: list[Turn] = []
    for name in names:
        if config == "users" or draw(st.integers(0, 3)) > 0:
            turns.append(Turn(name, draw(connects(config))))
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from(names))
        done = draw(st.lists(operations(name, config), min_size=1, max_size=6))
        data = b"".join(operation for operation, _ in done)
        turns.append(Turn(name, data, pings=sum(pongs for _, pongs in done)))
    for name in names:
        done = draw(st.lists(operations(name, config), min_size=1, max_size=4))
        data = draw(damaged(b"".join(operation for operation, _ in done)))
        turns.append(Turn(name, data, last=True, single=len(data) < 80 and draw(st.booleans())))
    return Script("generated", tuple(turns), config)


def is_settled(script: Script) -> bool:
    """Say whether the answer to a script does not depend on what the list of differences names."""
    return not any(re.search(UNSETTLED, turn.data) for turn in script.turns)
