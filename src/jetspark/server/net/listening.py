"""Opening a port, on the addresses that nats-server would listen on."""

import errno
import socket
from typing import Final

# All addresses of the machine, IPv4 and IPv6 alike: Go's net.Listen reads both so.
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104
_NO_IPV6: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})
_MAPPED: Final = "::ffff:"


def open_listener(host: str, port: int, backlog: int) -> socket.socket:
    """Listen on an address, or on all for a wildcard. A name means one address, IPv4 if it can.

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
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=backlog)


def shown_address(host: str, port: int) -> str:
    """Host and port as they stand in logs and URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_ip(address: str) -> str:
    """The address of a client; one that came by IPv4 has its IPv4 address."""
    mapped = address.startswith(_MAPPED) and "." in address
    return address[len(_MAPPED) :] if mapped else address
