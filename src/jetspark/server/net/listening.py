"""Opens a port on the addresses that nats-server would listen on, and accepts connections."""

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Final

from jetspark.server.net.crowd import Crowd

log: logging.Logger = logging.getLogger("jetspark.server")

# All addresses of the machine, IPv4 and IPv6 alike, as in Go's net.Listen.
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104
_NO_IPV6: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})
_MAPPED: Final = "::ffff:"

# Connections that wait to be accepted. With fewer, a burst of them makes later ones wait for the
# system's retries: seconds.
BACKLOG: Final = 4096
# This many connections are accepted per turn of the loop.
ACCEPTED_PER_TURN: Final = 64
# This many TLS handshakes of a monitoring port may be unfinished.
HANDSHAKES_MAX: Final = 1_000
# If the system has no file descriptor for a connection, accepting is retried this much later.
RETRY_S: Final = 1.0
# That is logged at most this often.
LOGGED_EVERY_S: Final = 60.0
# Connections that ended before they were accepted, and network errors that Linux reports there.
_OF_ONE_CONNECTION: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EPROTO,
        errno.EPERM,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENOPROTOOPT,
        errno.ENONET,
        errno.EOPNOTSUPP,
    }
)


def open_listener(host: str, port: int, backlog: int) -> socket.socket:
    """Listen on an address, or on all for a wildcard. A name means one address, preferably IPv4.

    Raises OSError.
    """
    listener = _on_all(port, backlog) if host in WILDCARDS else _on_one(host, port, backlog)
    listener.setblocking(False)
    return listener


def _on_all(port: int, backlog: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("", port), backlog=backlog)


def _on_one(host: str, port: int, backlog: int) -> socket.socket:
    # As bytes: for a string Python loads the IDNA codec first.
    name = host.encode() if host.isascii() else host
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=backlog)


def shown_address(host: str, port: int) -> str:
    """Return host and port as shown in logs and URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_ip(address: str) -> str:
    """Return the address of a client; an IPv4-mapped one as IPv4."""
    mapped = address.startswith(_MAPPED) and "." in address
    return address[len(_MAPPED) :] if mapped else address


def network_of(address: str) -> str:
    """Return what limits per address count: an IPv4 address, or 64 bits of an IPv6 address.

    Every IPv6 host has at least such a network, and may use any address of it.
    """
    if ":" not in address:
        return address
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


class Acceptor:
    """Accepts the connections to an open port.

    asyncio's own reports each connection that exceeds the file limit with a traceback, 4,096 of
    them in one turn with a backlog of that size; uvloop's closes such connections silently. This
    one leaves them in the backlog, logs it once, and continues when there are descriptors again.
    """

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        what: str,
        *,
        tls: ssl.SSLContext | None = None,
        handshake_s: float | None = None,
    ) -> None:
        """Start accepting; ``what`` names the clients, in the log."""
        self._listener = listener
        self._protocol = protocol
        self._what = what
        self._tls = tls
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        # Accepted connections that are not served yet, by the task that starts them.
        self._beginning: dict[asyncio.Task[None], socket.socket] = {}
        # Those whose TLS handshake is not finished.
        self._greeting: Crowd[asyncio.Task[None]] = Crowd()
        self._retry: asyncio.TimerHandle | None = None
        # The log says that connections are refused, and not yet that they are accepted again.
        self._refused = False
        self._log_from = 0.0
        self._open = True
        self.port: int = int(listener.getsockname()[1])
        self._loop.add_reader(listener.fileno(), self._accept_some)

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._open

    def close(self) -> None:
        """Accept no more connections; idempotent."""
        if not self._open:
            return
        self._open = False
        if self._retry is not None:
            self._retry.cancel()
        else:
            self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    async def wait_closed(self) -> None:
        """Close connections that are accepted and not served yet; none is served after this."""
        beginning = list(self._beginning)
        for task in beginning:
            task.cancel()
        await asyncio.gather(*beginning, return_exceptions=True)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OF_ONE_CONNECTION:
                    continue
                self._pause(error)
                return
            if self._refused:
                self._refused = False
                log.info("Connections of %s are accepted again", self._what)
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted))
            self._beginning[task] = accepted
            task.add_done_callback(self._started)
            if self._tls is not None:
                self._bound_handshakes(task, network_of(peer_ip(str(address[0]))))

    def _bound_handshakes(self, task: asyncio.Task[None], network: str) -> None:
        """Add a TLS handshake; if there are too many, the busiest address loses its oldest."""
        self._greeting.add(task, network)
        if len(self._greeting) > HANDSHAKES_MAX:
            oldest = self._greeting.oldest(self._greeting.busiest())
            assert oldest is not None
            self._greeting.discard(oldest)
            oldest.cancel()

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=self._handshake_s,
            )
        except OSError:
            accepted.close()  # it disconnected already, or does not use TLS
        except BaseException:
            accepted.close()
            raise

    def _started(self, task: asyncio.Task[None]) -> None:
        accepted = self._beginning.pop(task)
        self._greeting.discard(task)
        if task.cancelled():
            accepted.close()  # its task may not even have started
        elif task.exception() is not None:
            log.error("A connection could not be served", exc_info=task.exception())

    def _pause(self, error: OSError) -> None:
        """Leave connections in the backlog for a while: the system has no descriptor for them."""
        self._loop.remove_reader(self._listener.fileno())
        self._retry = self._loop.call_later(RETRY_S, self._resume)
        if self._loop.time() < self._log_from:
            return
        self._log_from = self._loop.time() + LOGGED_EVERY_S
        self._refused = True
        log.error(
            "Connections of %s cannot be accepted: %s. They wait; retrying every second",
            self._what,
            shortage(error),
        )

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener.fileno(), self._accept_some)


def shortage(error: OSError) -> str:
    """Return why the system has no file or socket, and what to do about it."""
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"all {limit} files that this process may have open are in use; raise that limit "
            "(ulimit -n, LimitNOFILE= of a systemd unit), or set max_connections below it"
        )
    if error.errno == errno.ENFILE:
        return "the system-wide limit of open files is reached; raise it (sysctl fs.file-max)"
    return f"{error.strerror or error} (errno {error.errno})"
