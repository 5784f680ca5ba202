"""What an engine needs from the server around it: receivers, a turn of the loop, the disk."""

from collections.abc import Callable
from typing import Protocol

from jetspark.engine.operations import Finish
from jetspark.engine.outbox import Outbox, Outlet
from jetspark.store.threads import attempt


class EnginePorts(Protocol):
    """The surroundings of an engine. The driver implements them on a router and an event loop."""

    def reply_outlet(self, subject: bytes, /) -> Outlet | None:
        """The receiver of a reply subject; None when nobody listens."""
        ...

    def push_outlet(self, subject: bytes, group: bytes, /) -> Outlet | None:
        """The receivers of a deliver subject, as members of a group; None without interest."""
        ...

    def listens(self, subject: bytes, /) -> bool:
        """Say whether a client or a stream gets messages of a subject."""
        ...

    def is_subscribed(self, subject: bytes, /) -> bool:
        """Say whether a subject itself is subscribed to; wildcards do not count."""
        ...

    def wake(self) -> None:
        """Ask for a turn of the loop."""
        ...

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Do disk work off the loop; ``finish(error, now, outbox)`` follows on the loop."""
        ...


class Standalone:
    """The ports of an engine that no server drives: nobody listens, disk work is done inline.

    ``jetspark doctor`` opens streams this way to find out whether a server could serve them.
    """

    def reply_outlet(self, _subject: bytes, /) -> Outlet | None:
        """Nobody listens."""
        return None

    def push_outlet(self, _subject: bytes, _group: bytes, /) -> Outlet | None:
        """Nobody listens."""
        return None

    def listens(self, _subject: bytes, /) -> bool:
        """Nobody listens."""
        return False

    def is_subscribed(self, _subject: bytes, /) -> bool:
        """Nobody listens."""
        return False

    def wake(self) -> None:
        """There is no loop: the caller decides when the engine has its turn."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Do the work and finish it before returning."""
        finish(attempt(work), now, outbox)
