"""Work of readers that takes too long for a turn of the loop: it is done in the background.

Large messages are read from the disk, and encoded, one at a time, so that creating a stream waits
for at most one of them. A reader that needs one is called when that was done and asks again; what
happened to the stream meanwhile is seen then.
"""

from collections.abc import Callable
from typing import Final

from jetspark.engine.operations import Operations
from jetspark.engine.outbox import Outbox
from jetspark.engine.ports import EnginePorts
from jetspark.store.log.long_read import LongRead
from jetspark.store.threads import let_others_run

PIECE: Final = 512 * 1024


class LongEncoding(Exception):
    """Raised for an answer that takes too long to encode here: ``run`` does it, in any thread."""

    def __init__(self, encode: Callable[[], bytes]) -> None:
        super().__init__("a large answer has to be encoded")
        self._encode = encode
        self.key: Final = (id(self), 0)
        self.result: bytes = b""
        self.problem: str = ""

    def run(self) -> None:
        """Encode it."""
        self.result = self._encode()

    def finish(self, error: OSError | None) -> None:
        """Note that it was done, or why that failed."""
        if error is not None:
            self.problem = str(error)


class LongCut(Exception):
    """Raised for a body that is cut out of a record: ``run`` does it, in any thread.

    In pieces, so that others have the interpreter lock in between: a copy of 60 MB takes 30 ms.
    """

    def __init__(self, seq: int, data: bytes, start: int, stop: int) -> None:
        super().__init__("a large body has to be copied")
        self.seq: Final = seq
        self._data = data
        self._start = start
        self._stop = stop
        self.key: Final = (id(self), 0)
        self.pieces: list[bytes] = []
        self.problem: str = ""

    def run(self) -> None:
        """Copy it."""
        pieces: list[bytes] = []
        for at in range(self._start, self._stop, PIECE):
            pieces.append(self._data[at : min(at + PIECE, self._stop)])
            let_others_run()
        self.pieces = pieces

    def finish(self, error: OSError | None) -> None:
        """Note that it was done, or why that failed."""
        self._data = b""
        if error is not None:
            self.problem = str(error)


Work = LongRead | LongEncoding | LongCut
Again = Callable[[Work], None]
# Who waits for it, and whether they still do: their clients may leave.
Waiter = tuple[Again, Callable[[], bool]]


def _always() -> bool:
    return True


class LongWork:
    """The work in the background of one engine, and who waits for it."""

    def __init__(self, ports: EnginePorts, operations: Operations) -> None:
        self._ports = ports
        self._operations = operations
        # In order: what is to be done, and who waits for it.
        self._queue: dict[tuple[int, int], tuple[Work, list[Waiter]]] = {}
        self._is_running = False

    def wait(self, work: Work, again: Again, is_wanted: Callable[[], bool] = _always) -> None:
        """Call back when something was read or encoded.

        Also without that, once it is not wanted any more: then ``is_wanted`` returns False.
        """
        # The frames that raised it have the message, and are in a cycle with it: they would be
        # freed by the next collection of the garbage, hundreds of messages later.
        work.with_traceback(None)
        known = self._queue.get(work.key)
        if known is None:
            self._queue[work.key] = (work, [(again, is_wanted)])
        else:
            known[1].append((again, is_wanted))

    def has_ready(self) -> bool:
        """Return whether ``start`` has something to do."""
        return bool(self._queue) and not self._is_running and not self._operations.closed

    def start(self, now: int, outbox: Outbox) -> bool:
        """Start the next one: those who waited for the last had a turn. True: it is done."""
        work, waiting = next(iter(self._queue.values()))
        if not any(is_wanted() for _, is_wanted in waiting):
            del self._queue[work.key]
            for again, _ in waiting:
                again(work)
            return True
        self._is_running = True

        def finish(error: OSError | None, _now: int, _outbox: Outbox) -> None:
            self._is_running = False
            del self._queue[work.key]
            work.finish(error)
            for again, _ in reversed(waiting):  # each puts itself first
                again(work)
            self._ports.wake()

        self._ports.run(work.run, finish, now, outbox)
        return not self._is_running
