"""What a REPL shows of the things that users hold."""

from typing import Any, Protocol

import jetspark
import jetspark.sync
from jetspark import AesGcmValues, Base64Keys, PathKeys, Server, ThreadCallback, connect, sync


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
