"""Reads one stream of a remote server for one copy.

It is read by a consumer, which is at the leader of the stream or reads a follower in the order of
the leader: neither can skip a message. The consumer is ordered: nothing is acknowledged, its
messages are counted, and when one is missing, when heartbeats are missed, or when the connection
was replaced, another one is created after the last message received. Reading the stream's info
before and after shows which stream of that name the consumer reads (a stream that was created
again has its own messages).

One task per feed. The buffer is limited: requests to the remote ask for no more than there is room
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from jetspark.api.base import ApiErrorBody, Timestamp, encode
from jetspark.api.enums import Retention
from jetspark.api.message import MSG_GET, MsgGetRequest, MsgGetResponse
from jetspark.api.stream import (
    STREAM_INFO,
    JetsparkStreamInfo,
    StreamInfo,
    StreamInfoRequest,
)
from jetspark.clock import Clock
from jetspark.engine.replicate.upstream import NOTHING, Chunk, Newest, OriginState
from jetspark.errors import (
    ApiError,
    ConsumerDeleted,
    ConsumerGap,
    ConsumerNotFound,
    Error,
    StreamNotFound,
)
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.replica.readers import DurableReader, OrderedReader
from jetspark.replica.times import LinkTimes

if TYPE_CHECKING:
    from jetspark.client.jetstream.api import ApiClient
    from jetspark.replica.upstream import RemoteUpstream

log: logging.Logger = logging.getLogger("jetspark.replica")

# The buffer limits: more is not requested.
WAITING_CHUNKS: Final = 8
WAITING_BYTES: Final = 8 * 1024 * 1024
# This many checks in a row must find less than was copied: the leader of a cluster may report
# outdated state for a while.
STALE_CHECKS: Final = 2


class TakingNotGranted(Error):
    """Copying would remove messages from a stream, and this account has no permission for that."""

    def __init__(self, stream: str, retention: Retention) -> None:
        super().__init__(
            f"stream {stream} has {retention.value} retention: copying would remove its messages, "
            "and this account may not; set 'take' of the remote in jetspark.remotes"
        )


class RemoteFeed:
    """Implements ``engine.replicate.upstream.Feed`` over the client."""

    def __init__(
        self,
        upstream: RemoteUpstream,
        stream: str,
        filters: Sequence[bytes],
        woken: Callable[[], None],
        *,
        reader: str,
        takes: bool,
        clock: Clock,
        times: LinkTimes,
    ) -> None:
        self.origin: OriginState | None = None
        self.error: bytes = b""
        self.contact_ns: int = 0
        self.diverged: bool = False
        self._upstream = upstream
        self._stream = stream
        self._filters = [each.decode("utf-8", "surrogateescape") for each in filters]
        self._woken = woken
        self._reader_name = reader
        self._takes = takes
        self._clock = clock
        self._times = times
        self._waiting: deque[Chunk] = deque()
        self._bytes = 0
        self._pending = 0
        # From where the copy reads; None until it is set. ``_read`` is what was received so far.
        self._start: tuple[int, int] | None = None
        self._read = 0
        self._started_ns = 0  # when the stream that it reads was created
        self._stored = 0  # what the copy has on disk of that stream
        self._newest = NOTHING  # what was received so far, or what the copy had before
        self._stale_checks = 0  # checks in a row that found the stream at an earlier sequence
        self._room = asyncio.Event()
        self._started = asyncio.Event()
        self._again = asyncio.Event()
        self._closed = self._for_good = False
        self._reader: OrderedReader | None = None
        self._pause = times.retry_first
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"jetspark copy of {stream}"
        )

    @property
    def lag(self) -> int:
        """What the remote has and was not taken, as far as known."""
        return self._pending + sum(len(chunk) for chunk in self._waiting)

    # Called by the engine ----------------------------------------------------------------------

    def start(self, seq: int, time_ns: int = 0, newest: Newest = NOTHING) -> None:
        """Read from a sequence on, or from a time; forget what was read."""
        self._forget()
        self._newest = newest
        self._stale_checks = 0
        self.diverged = False
        self._start = (seq, time_ns)
        self._read = seq - 1
        made_ns = self.origin.created_ns if self.origin is not None else 0
        if made_ns != self._started_ns:
            self._started_ns, self._stored = made_ns, 0
        self._started.set()
        self._room.set()
        self.renew()

    def take(self) -> Chunk | None:
        """Return the next chunk, if any."""
        if not self._waiting:
            return None
        self._room.set()
        chunk = self._waiting.popleft()
        self._bytes -= chunk.size
        return chunk

    def stored(self, seq: int) -> None:
        """Note that everything up to a sequence is durable here."""
        self._stored = seq
        if self._reader is not None:
            with contextlib.suppress(Error):  # without a connection: repeated later
                self._reader.acknowledge(seq)

    def close(self, *, for_good: bool) -> None:
        """Stop reading."""
        self._closed = True
        self._for_good = for_good
        self._woken = _ignore
        self._task.cancel()
        self._upstream.forget(self)

    async def ended(self) -> None:
        """Wait until its task has ended."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def renew(self) -> None:
        """Read again with another consumer, now (the connection was replaced, for example)."""
        self._pause = self._times.retry_first
        self._again.set()
        if self._reader is not None:
            self._reader.stop()

    def disconnected(self, error: Exception) -> None:
        """Note a lost connection; what was being read is read again later."""
        self._note(error)

    # Reading -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._closed:
            self._again.clear()
            try:
                await self._read_on()
            except (ConsumerDeleted, ConsumerGap, ConsumerNotFound) as error:
                if not isinstance(error, ConsumerGap):  # consumers are deleted with their streams
                    self._upstream.doubt(self._stream)
                # Use another consumer; at once, unless the last one got nothing.
                if self._pause > self._times.retry_first:
                    self._note(error)
                else:
                    self._again.set()
                    self._pause = min(self._pause * 2, self._times.retry_max)
            except (Error, OSError) as error:
                self._note(error)
            except Exception as error:  # a feed that died silently would leave a stale copy
                log.exception("Reading stream %r of a remote failed", self._stream)
                self._note(error)
            if not self._again.is_set():
                # Retry after 2 s, then less and less often up to 2 min.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._again.wait()
                self._pause = min(self._pause * 2, self._times.retry_max)

    async def _read_on(self) -> None:
        """Find the stream, create a consumer, and read until that ends."""
        api = await self._upstream.api()
        await self._look(api)
        if not self._started.is_set():
            self._woken()
            await self._started.wait()
        await self._compare(api)
        made_ns = self._started_ns
        assert self._start is not None
        time_ns = self._start[1] if self._read < self._start[0] else 0
        reader = self._new_reader(api, time_ns)
        self._again.clear()
        self._reader = reader
        try:
            await reader.open()
            # The stream is still the one that was looked up before: the consumer reads that.
            await self._look(api)
            if self._started_ns == made_ns:
                await self._pass_on(api, reader)
            self._again.set()
        finally:
            self._reader = None
            await reader.close(for_good=self._for_good)

    def _new_reader(self, api: ApiClient, time_ns: int) -> OrderedReader:
        next_seq = self._read + 1
        filters, times = self._filters, self._times
        if self.origin is not None and self.origin.config.retention != Retention.LIMITS:
            if not self._takes:
                raise TakingNotGranted(self._stream, self.origin.config.retention)
            return DurableReader(
                api,
                self._stream,
                filters,
                times,
                reader=self._reader_name,
                next_seq=next_seq,
                time_ns=time_ns,
                stored=self._stored,
            )
        return OrderedReader(
            api,
            self._stream,
            filters,
            times,
            tag=self._upstream.tag,
            next_seq=next_seq,
            time_ns=time_ns,
        )

    async def _pass_on(self, api: ApiClient, reader: OrderedReader) -> None:
        """Put received messages into the buffer, until something else is to be read."""
        chunk: Chunk | None = None
        if reader.position > self._read:
            chunk = reader.nothing_up_to(reader.position)
        while self._started.is_set() and not reader.stopped:
            self._pending = reader.pending
            if chunk is not None:
                self._put(chunk, reader)
            while len(self._waiting) >= WAITING_CHUNKS or self._bytes >= WAITING_BYTES:
                self._room.clear()
                await self._room.wait()
            chunk = await reader.next_chunk()
            if chunk is None and not reader.stopped:
                await self._look(api)
                chunk = await reader.check_idle(self.origin)
            self._note_contact()
            self._pause = self._times.retry_first

    def _put(self, chunk: Chunk, reader: OrderedReader) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is not None and len(last) < reader.chunk_rows:
            last.extend(chunk)
        else:
            self._waiting.append(chunk)
        self._bytes += chunk.size
        self._read = max(self._read, chunk.through)
        if chunk.sequences:
            latest = max(self._newest.time_ns, *chunk.times)
            self._newest = Newest(chunk.sequences[-1], latest)
        self._woken()

    def _forget(self) -> None:
        self._waiting.clear()
        self._bytes = 0

    async def _look(self, api: ApiClient) -> None:
        """Ask the leader about the stream; a new one is read when the copy sets a start."""
        ours = api.core.server_info.jetspark is not None
        info: StreamInfo = await api.call(
            f"STREAM.INFO.{self._stream}",
            StreamInfoRequest(jetspark=True) if ours else None,
            STREAM_INFO,
        )
        created_ns = int(info.created)
        before = self.origin
        self.origin = OriginState(
            config=info.config,
            created_ns=created_ns,
            first_seq=info.state.first_seq,
            last_seq=info.state.last_seq,
        )
        self._note_contact()
        self.error = b""
        if self._reader is None and not self._filters:
            # An estimate, until a consumer counts.
            behind = max(self._read, info.state.first_seq - 1)
            self._pending = max(info.state.last_seq - behind, 0)
        if self._started.is_set() and created_ns != self._started_ns:
            self._forget()
            self._start = None
            self._started.clear()
            self._upstream.doubt(self._stream)
        elif self._started.is_set():
            if info.jetspark is not None:
                self._compare_beginning(info.jetspark)
            self._look_for_loss(info.state.last_seq)
        if before is not None and before.config.retention != info.config.retention:
            self.renew()
        if before is None or before.created_ns != created_ns or before.config != info.config:
            self._woken()

    def _look_for_loss(self, last_seq: int) -> None:
        """Report that the stream does not have what was copied from it."""
        self._stale_checks = self._stale_checks + 1 if last_seq < self._read else 0
        if self._stale_checks >= STALE_CHECKS:
            self._diverge()
        if self._stale_checks:
            self.error = error_body(
                ErrCode.MIRROR_CONSUMER_SETUP_FAILED,
                err=f"stream {self._stream} of the remote is at sequence {last_seq}, "
                f"and {self._read} was copied from it: it has lost messages; what it stores under "
                "sequences that were copied before is not copied",
            )
        elif self.diverged:
            self.error = error_body(
                ErrCode.MIRROR_CONSUMER_SETUP_FAILED,
                err=f"stream {self._stream} of the remote has lost messages that were copied from "
                "it, and has others under their sequences, which are not copied: delete the copy "
                "and create it again",
            )

    def _compare_beginning(self, ours: JetsparkStreamInfo) -> None:
        """Detect whether the stream went back when it was opened.

        It reports the first message it stored since then. A message copied under that sequence, or
        a later one, is that message or newer; otherwise it no longer exists there.
        """
        seq, time_ns = self._newest
        if ours.began is not None and seq >= ours.began_seq and time_ns < ours.began:
            self._diverge()

    async def _compare(self, api: ApiClient) -> None:
        """Detect whether the stream still has what was copied.

        If it was restored from an older copy of its store it assigned copied sequences to other
        messages, and those are newer than everything that was copied.
        """
        seq, time_ns = self._newest
        if self.diverged or not seq:
            return
        request = MsgGetRequest(start_time=Timestamp(time_ns + 1), next_by_subj=">")
        try:
            answer: MsgGetResponse = await api.call(
                f"STREAM.MSG.GET.{self._stream}", request, MSG_GET
            )
        except Error:
            return  # there is none, or this account may not read it: continue
        found = answer.message
        # A server that ignores the time answers with any message.
        if found is not None and found.seq <= seq and found.time > time_ns:
            self._diverge()

    def _diverge(self) -> None:
        if not self.diverged:
            self.diverged = True
            self._upstream.doubt(self._stream)
            self._woken()

    def _note_contact(self) -> None:
        self.contact_ns = self._clock.now_ns()

    def _note(self, error: Exception) -> None:
        """Show an error."""
        if isinstance(error, ApiError):
            self._note_contact()
            body = ApiErrorBody(
                code=error.code, err_code=error.err_code, description=error.description
            )
            self.error = encode(body)
        else:
            self.error = error_body(
                ErrCode.MIRROR_CONSUMER_SETUP_FAILED, err=self._upstream.explain(error)
            )
        if isinstance(error, StreamNotFound):
            self.origin = None
            self._pending = 0
            self._upstream.doubt(self._stream)
        self._woken()


def _ignore() -> None:
    """Do nothing: the feed was closed."""
