"""The public client: ``connect``, publish, subscribe, request."""

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from jetspark.client.arguments import text, whole
from jetspark.client.callbacks.pool import OrderedBy
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.connection.auth import check_before_dialling
from jetspark.client.connection.replicas import ReplicaAddress, find_replicas
from jetspark.client.connection.status import ConnectionStatus
from jetspark.client.contexts import client_options
from jetspark.client.core import ClientCore
from jetspark.client.frames import check_pattern
from jetspark.client.header_input import HeaderInput, header_block
from jetspark.client.message import Message
from jetspark.client.opening import opens
from jetspark.client.options import (
    PUBLISH_ASYNC_MAX,
    PUBLISH_RETRIES,
    ClientOptions,
    check_options,
)
from jetspark.client.pager import Pager
from jetspark.client.requests import ManyReplies
from jetspark.client.stats import ClientStats
from jetspark.client.subscription import (
    PENDING_BYTES_MAX,
    PENDING_MSGS_MAX,
    Callback,
    Subscription,
)
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.clock import SystemClock
from jetspark.errors import NoResponders
from jetspark.headers.status import NO_RESPONDERS
from jetspark.protocol.handshake import ServerInfo

if TYPE_CHECKING:
    from jetspark.client.jetstream.context import JetStream


@opens
async def connect(
    servers: str | Sequence[str] | None = None,
    *,
    context: str = "",
    **options: Unpack[ConnectArguments],
) -> "Client":
    """Connect to the first of ``servers`` that accepts; they are tried in order.

    ``servers`` is one URL, a comma-separated list, or a sequence: ``nats://host:4222``,
    ``tls://host``, ``ws://host:80/path``, ``wss://host``, ``host:port``; a URL may contain
    ``user:password@`` or ``token@``. ``ConnectArguments`` documents the options.

    ``context`` names a context of the ``nats`` command; its server and credentials are used unless
    they are given here. Without servers and context, the environment variable NATS_URL is used,
    then the context selected with ``nats context select``, then ``nats://127.0.0.1:4222``.

    Raises ConnectFailed if none accepts, with the reason of each (AuthorizationFailed if the
    credentials were refused), and ValueError for options that cannot work (BadCredentials for
    keys and credentials files).
    """
    return await connect_with(client_options(servers, context=context, **options))


@opens
async def connect_with(options: ClientOptions) -> "Client":
    """Connect with ``options``, which ``client_options`` creates and which can be pickled."""
    check_options(options)
    check_before_dialling(options)
    return Client(await ClientCore(options).open())


class Client:
    """A connection to a NATS server, created by ``connect``, ended by ``close`` or ``drain``."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    @property
    def server_info(self) -> ServerInfo:
        """The last INFO of the server."""
        return self._core.server_info

    @property
    def status(self) -> ConnectionStatus:
        """The state of the client: connected, reconnecting, draining, closed, ..."""
        return self._core.status

    @property
    def last_error(self) -> Exception | None:
        """The last error passed to the error, disconnected or closed callback, or None."""
        return self._core.last_error

    @property
    def max_payload(self) -> int:
        """Maximum size of headers and data in one message, set by the server."""
        return self._core.max_payload

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed, or lost its connection permanently."""
        return self._core.is_closed

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected now; False while it is reconnecting."""
        return self._core.link.connection is not None

    @property
    def connected_server(self) -> str:
        """``host:port`` of the connected server; empty without a connection."""
        connection = self._core.link.connection
        return connection.address.label if connection is not None else ""

    @property
    def servers(self) -> list[str]:
        """``host:port`` of every known server, including discovered ones."""
        return [address.label for address in self._core.link.pool.addresses]

    @property
    def stats(self) -> ClientStats:
        """Counters of messages and bytes, and what is pending."""
        return self._core.stats()

    def jetstream(
        self,
        *,
        domain: str = "",
        prefix: str = "",
        timeout: Timeout | None = None,
        read_after_write: bool = False,
        publish_async_max: int = PUBLISH_ASYNC_MAX,
        publish_retries: int = PUBLISH_RETRIES,
    ) -> "JetStream":
        """JetStream on this connection.

        ``domain`` or ``prefix`` select the API of another JetStream domain or an import (default:
        ``jetstream_domain`` and ``jetstream_prefix`` of ``connect``); ``timeout`` is the default
        of every call. With ``read_after_write`` the handle tracks the highest sequence per stream
        that it wrote or read, and its gets require at least that sequence. ``publish_async_max``
        limits the publishes of ``publish_async`` that wait for an acknowledgement. A publish
        without responders (a stream that has no leader, or no stream at all) is sent again after a
        quarter of a second, ``publish_retries`` times, before NoResponders is raised.
        """
        # Two thirds of the client's code, not needed by programs that only publish and subscribe.
        from jetspark.client.jetstream.context import JetStream

        if not domain and not prefix:
            options = self._core.options
            domain, prefix = options.jetstream_domain, options.jetstream_prefix
        return JetStream(
            self._core,
            domain=domain,
            prefix=prefix,
            timeout=self._core.seconds(timeout),
            read_after_write=read_after_write,
            publish_async_max=publish_async_max,
            publish_retries=publish_retries,
        )

    def new_inbox(self) -> str:
        """A unique reply subject, covered by the permissions for ``inbox_prefix``."""
        return self._core.new_inbox()

    def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: HeaderInput = None
    ) -> None:
        """Queue a message; it is written at the end of the loop turn. Callable from any thread.

        Raises BadSubject, PayloadTooLarge above the server's max_payload, BufferFull if
        ``write_buffer_bytes`` are waiting to be written (await ``flush`` now and then) or, without
        a connection, ``reconnect_buffer_bytes``, and ConnectionClosed after the client was closed.
        """
        self._core.publish(subject, data, reply=reply, headers=headers)

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        timeout: Timeout | None = None,
    ) -> Message:
        """Publish and wait for one reply.

        Raises NoResponders if ``subject`` has no subscribers, and RequestTimeout if no reply
        arrives within ``timeout`` seconds (default: the client's).
        """
        core = self._core
        block = header_block(headers) if headers is not None else b""
        reply = await core.ask(core.literal(subject), block, data, core.seconds(timeout))
        _check_responders(subject, reply)
        return reply

    def request_many(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        limit: int = 0,
        stall: float | timedelta | None = None,
        sentinel: bool = False,
        timeout: Timeout | None = None,
    ) -> Pager[Message]:
        """Publish and iterate over the replies of all responders.

        Ends after ``limit`` replies (0: any number), when ``stall`` seconds pass without one after
        the first, with ``sentinel`` at an empty reply (which is not yielded), and always after
        ``timeout`` seconds. Raises NoResponders if ``subject`` has no subscribers.
        """
        whole(limit, "limit")
        core = self._core
        block = header_block(headers) if headers is not None else b""
        pause = None if stall is None else call_seconds(stall, 0.0, "stall")
        sink = ManyReplies(core.loop, core)
        core.send_request(sink, core.literal(subject), block, data, core.seconds(timeout))
        return Pager(self._reply_pages(sink, subject, limit, pause, sentinel=sentinel))

    @opens
    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        concurrency: int = 1,
        ordered_by: OrderedBy[Message] = None,
        pending_msgs: int = PENDING_MSGS_MAX,
        pending_bytes: int = PENDING_BYTES_MAX,
    ) -> Subscription:
        """Receive the messages of ``subject`` (``*`` and ``>`` are wildcards).

        Read them with ``async for`` or ``next``, or pass a ``callback``: a plain or coroutine
        function, called from one task with one message at a time, or with up to ``concurrency``
        messages at once. ``ordered_by`` (a function of the message, or "subject") then keeps
        messages with the same key in order. Members of a ``queue`` group share the messages.
        Messages above ``pending_msgs`` or ``pending_bytes`` are dropped, counted in
        ``Subscription.dropped`` and reported to the error callback as SlowConsumer.
        """
        check_pattern(subject, queue)
        core = self._core.add_subscription(
            subject,
            queue,
            pending_msgs=pending_msgs,
            pending_bytes=pending_bytes,
            callback=callback,
            concurrency=concurrency,
            ordered_by=ordered_by,
        )
        return Subscription(core)

    async def flush(self, *, timeout: Timeout | None = None) -> None:
        """Wait until the server has processed everything published so far (a PING and its PONG).

        Without a connection it waits for the next one. Raises RequestTimeout if no PONG arrives
        within ``timeout`` seconds, and ConnectionClosed if the connection breaks meanwhile:
        messages written just before may be lost.
        """
        await self._core.flush(timeout=timeout)

    async def force_reconnect(self, *, timeout: Timeout | None = None) -> None:
        """Drop the connection and wait for a new one, to another server if one is known.

        Without a connection the next attempt starts at once. The effect is that of any lost
        connection: messages written just before may be lost, so ``flush`` first. Raises
        RequestTimeout if there is no connection within ``timeout`` seconds (the client keeps
        trying), ConnectionClosed, and NotSupported with ``allow_reconnect=False``.
        """
        await self._core.force_reconnect(timeout=timeout)

    async def rtt(self, *, timeout: Timeout | None = None) -> float:
        """Round-trip time in seconds: from a PING to its PONG."""
        await self._core.flush(timeout=timeout)  # after everything queued before
        clock = SystemClock()  # the time of a uvloop is rounded to milliseconds
        started = clock.monotonic_ns()
        await self._core.flush(timeout=timeout)
        return (clock.monotonic_ns() - started) / 1e9

    async def replicas(
        self, stream: str = "", *, timeout: Timeout | None = None
    ) -> list[ReplicaAddress]:
        """Find read replicas of this deployment that serve ``stream``, the nearest first.

        Connect to the URL of one to read from it; it forwards what it does not have to the leader.
        Replicas that cannot be reached from here are left out.
        """
        return await find_replicas(self._core, text(stream, "stream"), self._core.seconds(timeout))

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """End all subscriptions, process the messages that have arrived, flush, and close.

        Always closes; raises RequestTimeout if that took longer than ``timeout``. Called inside a
        callback, it returns at once and continues when that callback is done.
        """
        await self._core.drain(timeout=timeout)

    async def close(self) -> None:
        """Write what is queued and close. Idempotent.

        Pending calls, in this task or another, raise ConnectionClosed. Callbacks continue with the
        messages they have, for 2 seconds at most; ``drain`` waits longer.
        """
        await self._core.close()

    async def _reply_pages(
        self,
        sink: ManyReplies,
        subject: str,
        limit: int,
        stall: float | None,
        *,
        sentinel: bool,
    ) -> AsyncGenerator[list[Message], None]:
        count = 0
        try:
            while await sink.wait(stall if count else None):
                page = sink.take()
                _check_responders(subject, page[0])
                ends = [n for n, reply in enumerate(page) if sentinel and not reply.data]
                if limit and count + len(page) >= limit:
                    ends.append(limit - count)
                if ends:
                    yield page[: min(ends)]
                    return
                yield page
                count += len(page)
        finally:
            self._core.drop_request(sink)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        server = f"{self.connected_server!r}, " if self.connected_server else ""
        return f"Client({server}{self.status})"


def _check_responders(subject: str, reply: Message) -> None:
    if not reply.data and reply.status == NO_RESPONDERS:
        raise NoResponders(subject)
