"""A remote server: one connection for all copies of its streams (docs/mirrors.md).

The connection is opened when the first copy needs it, and reestablished for as long as one does. A
remote that refuses our credentials is retried too, now and then: they may be corrected there.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from jetspark.client.connection.auth import check_before_dialling
from jetspark.client.contexts import client_options
from jetspark.client.core import ClientCore
from jetspark.client.jetstream.api import DEFAULT_PREFIX, ApiClient
from jetspark.client.options import ClientOptions, check_options
from jetspark.clock import Clock
from jetspark.errors import ConnectFailed, ConnectionClosed, RequestTimeout
from jetspark.replica.feed import RemoteFeed
from jetspark.replica.own_traffic import OwnTraffic
from jetspark.replica.times import LinkTimes
from jetspark.server.config.blocks.jetspark import Remote
from jetspark.server.config.blocks.tls import CIPHER_SUITES, INSECURE_CIPHER_SUITES, Tls

log: logging.Logger = logging.getLogger("jetspark.replica")

_DEFAULT_TIMES: Final = LinkTimes()


def connect_remote(
    remote: Remote, clock: Clock, times: LinkTimes = _DEFAULT_TIMES
) -> RemoteUpstream:
    """Create the upstream of a remote; it connects when the first stream is copied from it.

    An argument for ``jetspark.Server(upstreams=...)``.
    """
    return RemoteUpstream(remote, clock, times)


class RemoteUpstream:
    """Implements ``engine.replicate.upstream.Upstream`` over the client."""

    def __init__(
        self,
        remote: Remote,
        clock: Clock,
        times: LinkTimes,
        own: OwnTraffic | None = None,
        on_doubt: Callable[[str], None] | None = None,
    ) -> None:
        """``on_doubt`` is called with a stream that may no longer be the one that was copied."""
        self._remote = remote
        self._own = own
        self._clock = clock
        self._times = times
        self._feeds: set[RemoteFeed] = set()
        self._core: ClientCore | None = None
        self._api: ApiClient | None = None
        self._opening = asyncio.Lock()
        # Why the last connection attempt failed.
        self._trouble = ""
        self._on_doubt = on_doubt

    @property
    def connected(self) -> bool:
        """Whether it is connected."""
        return self._core is not None and self._core.link.connection is not None

    @property
    def trouble(self) -> str:
        """Why it is not connected; empty if it is, or no copy needs it."""
        return "" if self.connected else self._trouble

    def doubt(self, stream: str) -> None:
        """Note that a stream may no longer be the one that was copied."""
        if self._on_doubt is not None:
            self._on_doubt(stream)

    @property
    def tag(self) -> str:
        """The prefix of the names of this server's consumers."""
        return self._own.tag if self._own is not None else ""

    @property
    def copies(self) -> int:
        """The number of copies that read from it."""
        return len(self._feeds)

    def open(
        self,
        stream: str,
        filters: Sequence[bytes],
        reader: str,
        woken: Callable[[], None],
        *,
        takes: bool,
    ) -> RemoteFeed:
        """Start to find out about a stream."""
        feed = RemoteFeed(
            self,
            stream,
            filters,
            woken,
            reader=reader,
            takes=takes,
            clock=self._clock,
            times=self._times,
        )
        self._feeds.add(feed)
        return feed

    def forget(self, feed: RemoteFeed) -> None:
        """Remove a closed feed."""
        self._feeds.discard(feed)

    async def close(self) -> None:
        """End all feeds and the connection."""
        feeds = list(self._feeds)
        for feed in feeds:
            feed.close(for_good=False)
        for feed in feeds:
            await feed.ended()
        core, self._core = self._core, None
        if core is not None:
            await core.close()

    async def api(self) -> ApiClient:
        """Return the API of the remote, once connected; raises why it is not."""
        async with self._opening:
            if self._core is None or self._core.is_closed:
                options = check_options(self._options())
                check_before_dialling(options)
                self._core = await ClientCore(options).open()
                self._core.up_listeners.add(self._on_up)
                self._api = ApiClient(self._core, DEFAULT_PREFIX, self._times.request)
        core, api = self._core, self._api
        assert api is not None
        if core.link.connection is None:
            try:
                await core.flush(timeout=self._times.connect)
            except (RequestTimeout, ConnectionClosed):
                raise ConnectFailed(self._trouble or "no server accepts a connection") from None
        return api

    def explain(self, error: Exception) -> str:
        """Describe an error for people who know the remote by its name."""
        text = str(error) or type(error).__name__
        if isinstance(error, ConnectionClosed) and self._trouble:
            text = self._trouble
        return f"remote {self._remote.name}: {text}"

    def _on_up(self) -> None:
        """Read everything again: messages may have been sent to the lost connection."""
        self._trouble = ""
        log.info("Remote %r is connected again", self._remote.name)
        for feed in list(self._feeds):
            feed.renew()

    def _on_lost(self, error: Exception) -> None:
        self._trouble = str(error)
        log.warning("Remote %r: no connection: %s", self._remote.name, error)
        for feed in list(self._feeds):
            feed.disconnected(error)

    def _on_error(self, error: Exception) -> None:
        log.debug("Remote %r: %s", self._remote.name, error)

    def _options(self) -> ClientOptions:
        options = remote_options(
            self._remote, self._times, f"jetspark copies ({self._remote.name})"
        )
        if self._own is not None:
            options = msgspec.structs.replace(options, inbox_prefix=self._own.inbox)
        return msgspec.structs.replace(
            options, disconnected_callback=self._on_lost, error_callback=self._on_error
        )


def remote_options(remote: Remote, times: LinkTimes, name: str) -> ClientOptions:
    """Return the options to connect to a remote: retrying forever."""
    return client_options(
        remote.url,
        name=name,
        inbox_prefix=remote.inbox_prefix,
        user=remote.user,
        password=remote.password.value,
        token=remote.token.value,
        nkey_seed=Path(remote.nkey).read_text().strip() if remote.nkey else "",
        credentials=remote.credentials,
        tls=_context(remote.tls) if remote.tls is not None else None,
        tls_first=remote.tls is not None and remote.tls.handshake_first,
        connect_timeout=times.connect,
        timeout=times.request,
        ping_interval=times.ping,
        max_reconnects=-1,
        reconnect_wait=times.reconnect_first,
        reconnect_wait_max=times.reconnect_max,
        retry_on_failed_connect=True,
    )


def _context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context: trusted CAs and our certificate."""
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    for pair in tls.pairs():
        context.load_cert_chain(pair.cert_file, pair.key_file)
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.min_version == "1.3":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    suites = [(CIPHER_SUITES | INSECURE_CIPHER_SUITES)[name] for name in tls.cipher_suites]
    if any(suites):
        context.set_ciphers(":".join(name for name in suites if name))
    return context
