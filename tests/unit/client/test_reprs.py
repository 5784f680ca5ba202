"""What a REPL shows of the things that users hold."""

from typing import Any, Protocol

import jetspark
import jetspark.sync
from jetspark import (
    AesGcmValues,
    Base64Keys,
    Entry,
    Operation,
    PathKeys,
    Server,
    StreamMessage,
    ThreadCallback,
    connect,
    sync,
)


def is_protocol(kind: Any) -> bool:
    return Protocol in kind.__bases__


def test_every_public_class_shows_what_it_is() -> None:
    silent = []
    for package in (jetspark, jetspark.sync):
        for name in package.__all__:
            kind: Any = getattr(package, name)
            if isinstance(kind, type) and not is_protocol(kind):
                shown: Any = kind.__repr__
                silent += [f"{package.__name__}.{name}"] if shown is object.__repr__ else []

    assert silent == []


def test_what_is_shown_helps_and_tells_no_secret() -> None:
    opening = connect("nats://ann:secret@127.0.0.1:1")
    shown = [
        repr(opening),
        repr(AesGcmValues({"new": b"k" * 16, "old": b"o" * 16})),
        repr(Base64Keys()),
        repr(PathKeys()),
        repr(ThreadCallback(print)),
        repr(Server()),
        repr(sync.Server()),
    ]
    opening.close()

    assert shown == [
        "Opening(connect: await it, or use it with async with)",
        "AesGcmValues(keys of 'new', 'old')",
        "Base64Keys()",
        "PathKeys()",
        "ThreadCallback(<built-in function print>)",
        "Server('not running')",
        "Server('not running')",
    ]


def test_a_value_is_shown_as_far_as_a_line_can_show_it() -> None:
    entry = Entry(bucket="b", key="k", value=b"v" * 1_000_000, revision=7, time_ns=10**18)
    gone = Entry(
        bucket="b", key="k", value=b"", revision=8, time_ns=10**18, operation=Operation.DEL
    )
    stored = StreamMessage(stream="S", subject="a", seq=3, time_ns=10**18, data=b"hello")

    assert repr(entry) == (
        f"Entry('k', {b'v' * 40!r}... (1000000 bytes), bucket='b', revision=7, "
        "time='2001-09-09 01:46:40.000000')"
    )
    assert repr(gone) == (
        "Entry('k', DEL, bucket='b', revision=8, time='2001-09-09 01:46:40.000000')"
    )
    assert repr(stored) == (
        "StreamMessage('a', b'hello', stream='S', seq=3, time='2001-09-09 01:46:40.000000')"
    )
