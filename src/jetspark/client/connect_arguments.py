"""The keyword arguments of ``connect``, and their meaning."""

import os
import ssl
from collections.abc import Callable
from datetime import timedelta
from typing import TypedDict

from jetspark.client.connection.tls import TlsFiles
from jetspark.client.options import (
    ClosedCallback,
    DiscoveredCallback,
    ErrorCallback,
    ServerCallback,
)
from jetspark.client.timeouts import Timeout


class ConnectArguments(TypedDict, total=False):
    """The options of ``connect``; the defaults are those of ``ClientOptions``.

    *Identity*: ``name`` is shown by the server's monitoring. One of ``user`` and ``password``,
    ``token``, ``nkey_seed``, ``credentials`` (the path of a credentials file, or its text; read
    again for every connection), ``nkey`` (the public key) with ``signature_callback``, or
    ``jwt_callback`` with ``signature_callback``: the first returns the user's JWT, the second
    signs the server's nonce. Credentials in a server's URL take precedence for that server.

    *TLS*: ``tls`` is True (the system's certificates), a ``TlsFiles`` (which pickles) or an SSL
    context; ``tls_hostname`` is the name in the certificate when it is not the one dialled;
    ``tls_first`` starts TLS before the server's INFO, and implies ``tls``.
    ``websocket_headers`` are sent with the opening request to ``ws://`` and ``wss://`` servers.

    *Times* are seconds or ``timedelta``: ``connect_timeout`` limits each attempt, ``timeout`` is
    the default of every call. A PING is sent every ``ping_interval``; after
    ``pings_outstanding_max`` without an answer the connection is considered lost.

    *Reconnecting*: a lost connection is replaced unless ``allow_reconnect`` is False: first at
    once, then after ``reconnect_wait``, doubled for each round over all servers up to
    ``reconnect_wait_max``, plus a random time up to ``reconnect_jitter``. A server is dropped
    after ``max_reconnects`` failures in a row (-1: never) or if it refused the credentials
    twice. With ``retry_on_failed_connect`` the first connection is attempted in the same way, in
    the background. Servers announced by the cluster are tried too, unless ``ignore_discovered``;
    ``randomize`` shuffles the given servers.

    *Buffers*: up to ``write_buffer_bytes`` may wait to be written, ``reconnect_buffer_bytes``
    without a connection (0: publishing then raises at once).

    *Callbacks* are plain or coroutine functions on the client's loop. ``error_callback`` gets
    errors that no call can raise (slow consumers, permission violations, errors of subscription
    callbacks), ``disconnected_callback`` the reason why a connection was lost,
    ``reconnected_callback`` and ``lame_duck_callback`` the server's INFO,
    ``discovered_callback`` the new ``host:port`` strings, ``closed_callback`` the reason why the
    client closed (None: by ``close``).

    ``inbox_prefix`` is the prefix of reply subjects; ``echo=False`` hides the client's own
    messages from its subscriptions. ``jetstream_domain`` and ``jetstream_prefix`` are the
    defaults of ``jetstream()``.
    """

    name: str
    user: str
    password: str
    token: str
    nkey_seed: str
    nkey: str
    credentials: str | os.PathLike[str]
    jwt_callback: Callable[[], str] | None
    signature_callback: Callable[[bytes], bytes] | None
    tls: ssl.SSLContext | TlsFiles | bool | None
    tls_hostname: str
    tls_first: bool
    websocket_headers: dict[str, str] | None
    inbox_prefix: str
    jetstream_domain: str
    jetstream_prefix: str
    echo: bool
    connect_timeout: Timeout
    timeout: Timeout
    ping_interval: float | timedelta
    pings_outstanding_max: int
    allow_reconnect: bool
    max_reconnects: int
    reconnect_wait: float | timedelta
    reconnect_wait_max: float | timedelta
    reconnect_jitter: float | timedelta
    retry_on_failed_connect: bool
    randomize: bool
    ignore_discovered: bool
    write_buffer_bytes: int
    reconnect_buffer_bytes: int
    error_callback: ErrorCallback | None
    disconnected_callback: ErrorCallback | None
    reconnected_callback: ServerCallback | None
    closed_callback: ClosedCallback | None
    lame_duck_callback: ServerCallback | None
    discovered_callback: DiscoveredCallback | None
