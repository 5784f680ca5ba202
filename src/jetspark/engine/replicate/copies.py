"""All copies of an engine: their origins, and their turns."""

from collections.abc import Callable
from functools import partial

from jetspark.api.enums import PersistMode
from jetspark.api.stream import StreamConfig
from jetspark.engine.consumer.interest import Interest
from jetspark.engine.consumer.run_queue import RunQueue
from jetspark.engine.failures import Failures
from jetspark.engine.limits import READ_BYTES_PER_TURN, READ_RECORDS_PER_TURN
from jetspark.engine.long_work import LongWork, Work
from jetspark.engine.outbox import Budget
from jetspark.engine.replicate.copy import MORE, STALLED, Copy
from jetspark.engine.replicate.mirror import Mirror
from jetspark.engine.replicate.origin import LocalOrigin
from jetspark.engine.replicate.remotes import RemoteCopies
from jetspark.engine.replicate.source import Source
from jetspark.engine.replicate.upstream import Upstreams
from jetspark.engine.stream.stream import Stream


class Copies:
    """The mirrors and sources of the streams of an account.

    ``Stream.copies`` has those that write to a stream, ``Stream.followers`` those that read it.
    """

    def __init__(
        self,
        streams: dict[str, Stream],
        mark_dirty: Callable[[Stream], None],
        run_queue: RunQueue,
        upstreams: Upstreams,
        interest: Interest,
        failures: Failures,
        long_work: LongWork,
    ) -> None:
        self._long_work = long_work
        # Those that wait for a large message.
        self._reading: set[Copy] = set()
        self._streams = streams
        self._mark_dirty = mark_dirty
        self._run_queue = run_queue
        self._remotes = RemoteCopies(upstreams)
        self._interest = interest
        self._failures = failures
        # By the name of a stream, which need not exist: those that read it.
        self._followers: dict[str, list[Copy]] = {}
        # Those that may continue, each once, in the order in which they became ready.
        self._ready: dict[Copy, None] = {}
        self._stalled: list[Copy] = []
        # A copy is ready and the driver may not know it yet.
        self._unannounced = False

    def added(self, stream: Stream) -> None:
        """Handle a new stream: it may copy others, and others may copy it."""
        for copy in self._followers.get(stream.config.name, []):
            self._follow(copy, stream)
        self.changed(stream)
        self._list(stream.followers)

    def changed(self, stream: Stream) -> None:
        """Handle a changed stream: it may copy others than before, or change its retention."""
        config = stream.config
        for follower in stream.followers:
            follower.origin.keep(self._run_queue)
            follower.report_stored()
        wanted = [config.mirror] if config.mirror is not None else list(config.sources)
        if not wanted and not stream.copies:
            return
        kind = Source if config.mirror is None else Mirror
        kept: dict[object, Copy] = {(type(copy), copy.source): copy for copy in stream.copies}
        copies: list[Copy] = []
        for source in wanted:
            copy = kept.pop((kind, source), None)
            if copy is None:
                copy = kind(stream, source)
                self._begin(copy)
            copies.append(copy)
        for copy in kept.values():
            self._end(copy)
        stream.set_copies(copies)
        self._list(copies)

    def dropped(self, stream: Stream) -> None:
        """Handle a deleted stream."""
        for copy in stream.copies:
            self._end(copy)
        stream.set_copies([])
        for copy in stream.followers:
            copy.set_origin(None)
        self._list(stream.followers)

    def _begin(self, copy: Copy) -> None:
        source = copy.source
        if source.external is not None:
            self._remotes.begin(copy, lambda: self._list([copy]))
            return
        self._followers.setdefault(source.name, []).append(copy)
        origin = self._streams.get(source.name)
        if origin is not None:
            self._follow(copy, origin)
        else:
            copy.set_origin(None)

    def _follow(self, copy: Copy, stream: Stream) -> None:
        if copy not in stream.followers:
            stream.add_follower(copy)
        origin = LocalOrigin(stream, copy.filters, self._mark_dirty)
        origin.keep(self._run_queue)
        copy.set_origin(origin)

    def _end(self, copy: Copy) -> None:
        copy.end()
        if copy in self._stalled:
            self._stalled.remove(copy)
        if copy.source.external is not None:
            self._remotes.end(copy)
            return
        name = copy.source.name
        self._followers[name].remove(copy)
        if not self._followers[name]:
            del self._followers[name]
        origin = copy.origin
        if isinstance(origin, LocalOrigin):
            origin.stream.remove_follower(copy)
            if origin.interest is not None:
                origin.close(for_good=True)
                self._interest.changed(origin.stream)

    def committed(self, stream: Stream) -> None:
        """Handle a commit of a stream: there may be more to copy, or room for more."""
        self._list(stream.followers)
        for copy in stream.copies:
            copy.landed()
        if self._stalled and stream.copies:
            self._continue([copy for copy in self._stalled if copy.stream is stream])

    def failed(self, stream: Stream) -> None:
        """Handle a failed group of a stream: what was staged is forgotten."""
        for copy in stream.copies:
            copy.failed()
        self._list(stream.copies)

    def _list(self, copies: list[Copy]) -> None:
        for copy in copies:
            if copy not in self._ready and copy not in self._reading:
                self._ready[copy] = None
                self._unannounced = True
        if self._unannounced:
            self._run_queue.wake()

    # Turns -------------------------------------------------------------------------------------

    def advance(self, now: int) -> bool:
        """Continue copies, within one turn's budget; True while some can continue at once."""
        self._unannounced = False
        if not self._ready:
            return False
        budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
        for copy in list(self._ready):
            if not budget.left():
                break
            del self._ready[copy]
            self._step(copy, budget, now)
        return bool(self._ready)

    def _step(self, copy: Copy, budget: Budget, now: int) -> None:
        if copy.over:
            return
        log = copy.stream.log
        position = log.staged.position
        try:
            result = copy.advance(budget, now)
        except Exception as error:  # noqa: BLE001 - one copy, not those after it
            what = f"copying {copy.source.name!r} to {copy.stream.config.name!r}"
            self._failures.note(what, error)
            copy.step_failed(error)
            result = STALLED
        copy.note_staged()
        if log.staged.position != position:
            self._mark_dirty(copy.stream)
        if result == MORE:
            self._ready[copy] = None
        elif result == STALLED:
            copy.retry_later(now)
            if copy not in self._stalled:
                self._stalled.append(copy)
        elif (read := copy.take_long_work()) is not None:
            self._reading.add(copy)
            self._long_work.wait(read, partial(self._was_read, copy))

    def _was_read(self, copy: Copy, _work: Work) -> None:
        """Continue a copy for which a large message was read."""
        self._reading.discard(copy)
        self._list([copy])

    def next_deadline(self) -> int | None:
        """Return when ``expire`` has something to do."""
        if self._unannounced:
            return 1
        if not self._stalled:
            return None
        return min((copy.retry_at for copy in self._stalled), default=None)

    def expire(self, now: int) -> None:
        """Retry what could not continue; request a turn."""
        self._continue([copy for copy in self._stalled if copy.retry_at <= now])
        if self._unannounced:
            self._unannounced = False
            self._run_queue.wake()

    def _continue(self, copies: list[Copy]) -> None:
        for copy in copies:
            self._stalled.remove(copy)
        self._list(copies)

    # Reading -----------------------------------------------------------------------------------

    def answering(self, name: str) -> Stream | None:
        """Return the stream that answers direct gets for a name: itself, or a mirror of it.

        A mirror does if the stream does not exist, or is remote, and only if it has every message
        unchanged (decisions.md).
        """
        own = self._streams.get(name)
        if own is not None and own.allow_direct:
            return own
        for copy in (*self._followers.get(name, []), *self._remotes.of(name)):
            stream = copy.stream
            if isinstance(copy, Mirror) and stream.config.mirror_direct and copy.is_whole:
                return stream if own is None or own is stream else None
        return None


def level_of(config: StreamConfig) -> str:
    """Return the durability level of a stream; empty: the store's default.

    A copy is always durable: the lower levels skip sequences, and a mirror's are not its own; and
    they may keep a later step of a copy and lose an earlier one.
    """
    if config.mirror is not None or config.sources:
        return "durable"
    return "async" if config.persist_mode == PersistMode.ASYNC else ""
