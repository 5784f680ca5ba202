"""What an engine needs from its server: receivers, a turn of the loop, the disk."""

from collections.abc import Callable
from typing import Protocol

from jetspark.engine.operations import Finish
from jetspark.engine.outbox import Outbox, Outlet
from jetspark.store.threads import attempt


class EnginePorts(Protocol):
    """The environment of an engine. The driver implements it on a router and an event loop."""

    def reply_outlet(self, subject: bytes, /) -> Outlet | None:
        """Return the receiver of a reply subject; None without interest."""
        ...

    def push_outlet(self, subject: bytes, group: bytes, /) -> Outlet | None:
        """Return the receivers of a deliver subject, as members of a group; None if none."""
        ...

    def listens(self, subject: bytes, /) -> bool:
        """Return whether a client or a stream receives messages of a subject."""
        ...

    def is_subscribed(self, subject: bytes, /) -> bool:
        """Return whether a subject itself is subscribed to; wildcards do not count."""
        ...

    def wake(self) -> None:
        """Request a turn of the loop."""
        ...

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Run disk work in the background; ``finish(error, now, outbox)`` follows on the loop."""
        ...


class Standalone:
    """The ports of an engine without a server: no interest, disk work is done inline.

    ``jetspark doctor`` opens streams this way to check whether a server could serve them.
    """

    def reply_outlet(self, _subject: bytes, /) -> Outlet | None:
        """Return None: there is no interest."""
        return None

    def push_outlet(self, _subject: bytes, _group: bytes, /) -> Outlet | None:
        """Return None: there is no interest."""
        return None

    def listens(self, _subject: bytes, /) -> bool:
        """Return False: there is no interest."""
        return False

    def is_subscribed(self, _subject: bytes, /) -> bool:
        """Return False: there is no interest."""
        return False

    def wake(self) -> None:
        """Do nothing: without a loop, the caller decides when the engine has its turn."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Do the work and finish it before returning."""
        finish(attempt(work), now, outbox)
