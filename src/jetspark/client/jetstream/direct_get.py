"""Reading single messages: DIRECT.GET if the stream allows it, else MSG.GET; read-after-write.

ADR-53 on servers that do not support it (decisions.md, Read-after-write): a reply with
``Nats-Min-Last-Sequence`` is proven; without it, a message at or above the required sequence is
proven too; everything else is requested from the leader, once STREAM.INFO shows that the leader
has reached the sequence.
"""

import asyncio
import contextlib
from collections.abc import Collection, Coroutine
from typing import Any, Final, Self

from jetspark.api.base import Timestamp, encode_request
from jetspark.api.message import MSG_GET, MsgGetRequest, MsgGetResponse
from jetspark.api.stream import STREAM_INFO, StreamConfig, StreamInfoRequest, StreamState
from jetspark.client.arguments import whole
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.pages import Page, parse_count
from jetspark.client.jetstream.stored import StreamMessage, from_direct, from_leader, own_lines
from jetspark.client.message import Message
from jetspark.errors import (
    Error,
    MessageNotFound,
    MinLastSequence,
    NotSupported,
    RequestTimeout,
    status_error,
)
from jetspark.errors.codes import ErrCode
from jetspark.headers.block import find_value
from jetspark.headers.names import MIN_LAST_SEQUENCE
from jetspark.headers.status import (
    NO_RESPONDERS,
    NOT_FOUND,
    PRECONDITION_FAILED,
    TIMEOUT,
    parse_status,
)
from jetspark.subjects.tokens import is_valid_literal

NO_END: Final = 2**63 - 1  # a sequence after all messages
REFUSED_DIRECT_SECONDS: Final = 30.0  # allow_direct may be enabled later
LEADER_POLL_FIRST: Final = 0.01  # seconds between polls of the leader, doubling
LEADER_POLL_MAX: Final = 0.5
# A copy that lags holds a request before it refuses it, unless it already holds too many (ADR-53,
# held reads): a request that was refused sooner is not repeated at once.
REFUSAL_PAUSE: Final = 0.05


class StreamReader:
    """Reads messages of one stream by either API."""

    def __init__(self, api: ApiClient, stream: str, *, allow_direct: bool = True) -> None:
        self.api: Final = api
        self.stream: Final = stream
        self._loop = api.core.loop
        self._probes = LeaderProbes(api, stream)
        self._refused_until = 0.0
        # False if the last known configuration of the stream does not allow direct gets.
        self.allow_direct: bool = allow_direct

    def follow(self, config: StreamConfig) -> None:
        """Note the configuration of the stream."""
        self.allow_direct = config.allow_direct

    @property
    def direct_refused(self) -> bool:
        """Whether direct gets are off, or had no responders within the last 30 seconds."""
        return not self.allow_direct or self._loop.time() < self._refused_until

    @property
    def server_has_min_last_seq(self) -> bool:
        """Whether the connected server supports ADR-53; another server may answer.

        INFO only saves a first attempt; the proof is in the answer.
        """
        jetspark = self.api.core.server_info.jetspark
        return jetspark is not None and jetspark.min_last_seq

    def refuse_direct(self) -> None:
        """Record that direct gets of this stream have no responders."""
        self._refused_until = self._loop.time() + REFUSED_DIRECT_SECONDS

    async def get(self, request: MsgGetRequest, seconds: float) -> StreamMessage:
        """The message for ``request``; MessageNotFound or MinLastSequence if there is none.

        With ``min_last_seq`` only a copy that has reached it answers.
        """
        deadline = self._loop.time() + seconds
        held_back = False
        # Nearly all reads are answered at once: only a read without an answer after half of its
        # time is repeated while the leader is polled.
        probing = request.min_last_seq == 0
        while not self.direct_refused:
            asked = self._loop.time()
            try:
                if not probing:
                    reply = await self._ask_direct(request, (asked + deadline) / 2)
                elif request.min_last_seq == 0:
                    reply = await self._ask_direct(request, deadline)
                else:
                    with self.probe(request.min_last_seq, deadline - asked) as probe:
                        reply = await self._ask_direct(request, deadline)
            except RequestTimeout:
                if not probing:
                    probing = True
                    continue
                if request.min_last_seq == 0:
                    raise
                if held_back or probe.found_lagging:
                    raise lagging(self.stream, request.min_last_seq) from None
                raise RequestTimeout(
                    f"stream {self.stream!r}: no reply to a direct get within {seconds} s"
                ) from None
            code, text = parse_status(reply.header_block)
            if code == NO_RESPONDERS:
                self.refuse_direct()
                break
            if code == PRECONDITION_FAILED and text == b"Min Last Sequence":
                held_back = True
                await self._pause_after(asked, deadline)
                continue
            if code == TIMEOUT and text == b"Empty Request" and request.start_time is not None:
                raise too_old(self.api, "direct gets by start_time")
            if code not in {0, NOT_FOUND}:
                raise status_error(code, text.decode("utf-8", "replace"))
            message = from_direct(reply) if code == 0 else None
            if not self._proven(reply, message, request.min_last_seq):
                break
            if message is None:
                raise self._not_found(request)
            return self._checked(request, message)
        return await self._get_from_leader(request, deadline)

    async def get_from_leader(self, request: MsgGetRequest, seconds: float) -> StreamMessage:
        """The same with MSG.GET only, which the leader answers."""
        return await self._get_from_leader(request, self._loop.time() + seconds)

    async def wait_for_leader(self, sequence: int, deadline: float) -> StreamState:
        """Wait until the leader has ``sequence``; MinLastSequence if it does not reach it.

        RequestTimeout only if the leader never answered.
        """
        pause = LEADER_POLL_FIRST
        reached: int | None = None
        while True:
            try:
                info = await self.api.call(
                    f"STREAM.INFO.{self.stream}",
                    StreamInfoRequest(),
                    STREAM_INFO,
                    timeout=self._left(deadline),
                )
            except RequestTimeout:
                if reached is None:
                    raise
                raise lagging(self.stream, sequence, reached) from None
            reached = info.state.last_seq
            if reached >= sequence:
                return info.state
            if self._loop.time() + pause >= deadline:
                raise lagging(self.stream, sequence, reached)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LEADER_POLL_MAX)

    def probe(self, wanted: int, seconds: float) -> "LeaderProbe | NoProbe":
        """Check, while a read with ``wanted`` waits, whether the leader has not reached it."""
        return _NO_PROBE if wanted == 0 else LeaderProbe(self._probes, wanted, seconds)

    def _ask_direct(self, request: MsgGetRequest, deadline: float) -> Coroutine[Any, Any, Message]:
        verb = f"DIRECT.GET.{self.stream}"
        subject = request.last_by_subj
        if subject and is_valid_literal(subject.encode("utf-8", "surrogateescape")):
            # ADR-31, subject-appended form: permissions can be granted per subject.
            verb = f"{verb}.{subject}"
            request = MsgGetRequest(min_last_seq=request.min_last_seq)
            body = encode_request(request) if request.min_last_seq else b""
        else:
            body = encode_request(request)
        return self.api.core.ask(self.api.subject(verb), b"", body, self._left(deadline))

    async def _get_from_leader(self, request: MsgGetRequest, deadline: float) -> StreamMessage:
        wanted = request.min_last_seq
        if wanted and not self.server_has_min_last_seq:
            await self.wait_for_leader(wanted, deadline)
            request = without_min_last_seq(request)
        held_back = False
        while True:
            asked = self._loop.time()
            try:
                with self.probe(request.min_last_seq, deadline - asked) as probe:
                    answer = await self._ask_leader(request, deadline)
                break
            except MinLastSequence:
                held_back = True
                await self._pause_after(asked, deadline)
            except RequestTimeout:
                if held_back or probe.found_lagging:
                    raise lagging(self.stream, wanted) from None
                raise
            except MessageNotFound:
                raise self._not_found(request) from None
        if request.min_last_seq and answer.min_last_seq < wanted:
            # INFO describes the next hop only: the answering server does not support the field.
            await self.wait_for_leader(wanted, deadline)
            answer = await self._ask_leader(without_min_last_seq(request), deadline)
        if answer.message is None:
            raise self._not_found(request)
        return self._checked(request, from_leader(self.stream, answer.message))

    def request_page(
        self,
        request: MsgGetRequest,
        timeout: float,
        columns: Collection[str],
        last: int = NO_END,
    ) -> tuple[Page, asyncio.Future[None]]:
        """Request a page with the given columns of messages up to ``last``.

        Replies arrive while the caller does something else; the future is done when the page is
        complete, or has failed.
        """
        core = self.api.core
        done: asyncio.Future[None] = self._loop.create_future()
        page = Page(
            self.stream.encode(),
            last,
            "times" in columns,
            "subjects" in columns,
            "data" in columns,
            "headers" in columns,
            lambda: None if done.done() else done.set_result(None),
        )
        page.allow(timeout)
        subject = self.api.subject(f"DIRECT.GET.{self.stream}")
        core.send_request(page, subject, b"", encode_request(request), timeout)
        return page, done

    async def _ask_leader(self, request: MsgGetRequest, deadline: float) -> MsgGetResponse:
        return await self.api.call(
            f"STREAM.MSG.GET.{self.stream}", request, MSG_GET, timeout=self._left(deadline)
        )

    async def _pause_after(self, asked: float, deadline: float) -> None:
        """Wait before a refused request is repeated, if the server did not hold it."""
        now = self._loop.time()
        if now - asked < REFUSAL_PAUSE:
            await asyncio.sleep(min(REFUSAL_PAUSE, max(deadline - now, 0.0)))

    @staticmethod
    def _proven(reply: Message, message: StreamMessage | None, wanted: int) -> bool:
        if not wanted or (message is not None and message.seq >= wanted):
            return True
        # A message's own headers prove nothing: any client may store one with that name. A status
        # reply has no message, so all its lines are the server's.
        lines = reply.header_block if message is None else own_lines(reply.header_block)
        return parse_count(find_value(lines, MIN_LAST_SEQUENCE)) >= wanted

    def _checked(self, request: MsgGetRequest, message: StreamMessage) -> StreamMessage:
        """The message, unless the server did not support the request."""
        if request.start_time is not None and message.time_ns < int(request.start_time):
            raise too_old(self.api, "gets by start_time")
        return message

    def _left(self, deadline: float) -> float:
        left = deadline - self._loop.time()
        if left <= 0:
            raise RequestTimeout(f"reading from stream {self.stream!r} timed out")
        return left

    def _not_found(self, request: MsgGetRequest) -> MessageNotFound:
        return MessageNotFound(
            NOT_FOUND,
            ErrCode.MESSAGE_NOT_FOUND,
            f"no message in stream {self.stream!r} for {describe(request)}",
        )


class LeaderProbes:
    """Reads that wait for a sequence, and one timer for all: nearly all end before it fires."""

    def __init__(self, api: ApiClient, stream: str) -> None:
        self.api: ApiClient = api
        self.stream: str = stream
        self._waiting: set[LeaderProbe] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, probe: "LeaderProbe") -> None:
        """A read waits; it may have less time than those before it."""
        self._waiting.add(probe)
        timer = self._timer
        if timer is not None:
            if timer.when() <= probe.due:
                return
            timer.cancel()
        self._timer = self.api.core.loop.call_at(probe.due, self._look)

    def remove(self, probe: "LeaderProbe") -> None:
        """A read ended."""
        self._waiting.discard(probe)

    def _look(self) -> None:
        self._timer = None
        now = self.api.core.loop.time()
        later = [probe.due for probe in list(self._waiting) if not probe.begin(now)]
        if later:
            self._timer = self.api.core.loop.call_at(min(later), self._look)


class LeaderProbe:
    """Why a read with ``min_last_seq`` has no answer: the stream lags, or no server responds.

    A server with ADR-53 holds such a read for a while, which may be longer than the caller's
    timeout. So after half of that, the leader is asked for its last sequence.
    """

    def __init__(self, probes: LeaderProbes, wanted: int, seconds: float) -> None:
        self._probes = probes
        self._wanted = wanted
        self.seconds: float = max(seconds, 0.0)
        self.due: float = probes.api.core.loop.time() + self.seconds / 2
        self._asking: asyncio.Task[None] | None = None
        # Whether the leader has not reached the sequence.
        self.found_lagging: bool = False

    def __enter__(self) -> Self:
        self._probes.add(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self._probes.remove(self)
        if self._asking is not None:
            self._asking.cancel()

    def begin(self, now: float) -> bool:
        """Ask the leader if it is time; True if it was asked."""
        if self._asking is None and self.due <= now:
            self._asking = self._probes.api.core.loop.create_task(self._ask())
        return self._asking is not None

    async def _ask(self) -> None:
        probes = self._probes
        with contextlib.suppress(Error):
            info = await probes.api.call(
                f"STREAM.INFO.{probes.stream}",
                StreamInfoRequest(),
                STREAM_INFO,
                timeout=max(self.seconds / 2, 0.001),
            )
            self.found_lagging = info.state.last_seq < self._wanted


class NoProbe:
    """For reads without a required sequence."""

    found_lagging: Final = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


_NO_PROBE: Final = NoProbe()


def too_old(api: ApiClient, what: str) -> NotSupported:
    """The error for a server that does not support the request."""
    info = api.core.server_info
    return NotSupported(
        f"the server that answered does not support {what}: nats-server 2.11 or later does; "
        f"connected to {info.server_name or info.server_id!r}, version {info.version}"
    )


def make_request(
    *,
    seq: int = 0,
    last_by_subject: str = "",
    next_by_subject: str = "",
    start_time_ns: int | None = None,
    min_last_seq: int = 0,
) -> MsgGetRequest:
    """Check the arguments that select a message (ADR-31, legal forms); raises ValueError."""
    whole(seq, "seq")
    whole(min_last_seq, "min_last_seq")
    if last_by_subject and (seq or next_by_subject or start_time_ns is not None):
        raise ValueError(
            "last_by_subject excludes seq, next_by_subject and start_time: leave those out"
        )
    if seq and start_time_ns is not None:
        raise ValueError("seq and start_time are mutually exclusive: both set the start")
    if not (seq or last_by_subject or next_by_subject or start_time_ns is not None):
        raise ValueError(
            "no message selected: give seq, last_by_subject, next_by_subject or start_time"
        )
    return MsgGetRequest(
        seq=seq,
        last_by_subj=last_by_subject,
        next_by_subj=next_by_subject,
        start_time=None if start_time_ns is None else Timestamp(start_time_ns),
        min_last_seq=min_last_seq,
    )


def without_min_last_seq(request: MsgGetRequest) -> MsgGetRequest:
    """The same request for a server that refuses the field (nats-server: 10025)."""
    return MsgGetRequest(
        seq=request.seq,
        last_by_subj=request.last_by_subj,
        next_by_subj=request.next_by_subj,
        start_time=request.start_time,
    )


def describe(request: MsgGetRequest) -> str:
    """The request for error messages."""
    parts = []
    if request.seq:
        parts.append(f"seq {request.seq}" + (" and on" if request.next_by_subj else ""))
    if request.last_by_subj:
        parts.append(f"last on {request.last_by_subj!r}")
    if request.next_by_subj:
        parts.append(f"next on {request.next_by_subj!r}")
    if request.start_time is not None:
        parts.append(f"from {request.start_time}")
    return ", ".join(parts)


def lagging(stream: str, wanted: int, reached: int | None = None) -> MinLastSequence:
    """No answering server has reached ``wanted``."""
    where = "" if reached is None else f": its leader is at {reached}"
    error = MinLastSequence(
        PRECONDITION_FAILED,
        ErrCode.MIN_LAST_SEQUENCE,
        f"stream {stream!r} did not reach sequence {wanted} in time{where}",
    )
    error.add_note("if it was deleted and created again, its sequences restarted: open it again")
    return error
