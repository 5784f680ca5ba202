"""The interface of a connection for monitoring."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from jetspark.server.monitor.traffic import TrafficView


class SubscriptionView(Protocol):
    """One SUB; implemented by the router's ``Subscription``."""

    @property
    def subject(self) -> bytes:
        """The pattern."""
        ...

    @property
    def queue(self) -> bytes:
        """The queue group; empty for none."""
        ...

    @property
    def sid(self) -> bytes:
        """The id chosen by its client."""
        ...

    @property
    def delivered(self) -> int:
        """The number of messages it got."""
        ...

    @property
    def max_msgs(self) -> int:
        """The number of messages after which it ends; 0 for never."""
        ...


class PeerCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A client certificate in ``/connz?auth=1``; digests as hex."""

    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class TlsDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS session of a connection (from `tls.details`)."""

    version: str  # "1.3"
    cipher_suite: str  # the IANA name
    first: bool = False  # the handshake was before INFO
    peer_certs: tuple[PeerCertificate, ...] = ()


class ConnectionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that do not change after CONNECT. Built on demand.

    ``user`` is the name of a user, the public key of an nkey or JWT user, ``[REDACTED]`` for a
    token, or empty. A JWT may be given as it is: a bearer JWT is left out of the answer.
    """

    ip: str
    port: int
    kind: str = "Client"
    type: str = "nats"  # or "websocket"
    name: str = ""
    lang: str = ""
    version: str = ""
    user: str = ""
    account: str = "$G"
    name_tag: str = ""  # of the account; empty: its name
    jwt: str = ""
    issuer_key: str = ""
    tags: tuple[str, ...] = ()
    tls: TlsDetails | None = None


class ConnectionView(Protocol):
    """One connection: the values for sorting and sums, as plain attributes."""

    @property
    def cid(self) -> int:
        """Its id."""
        ...

    @property
    def account(self) -> str:
        """The name of its account."""
        ...

    @property
    def start_ns(self) -> int:
        """When it was accepted."""
        ...

    @property
    def last_ns(self) -> int:
        """The time of the last non-empty chunk, or of the last write; once per chunk."""
        ...

    @property
    def rtt_ns(self) -> int:
        """The time from the server's last PING to its PONG; 0 until there was one."""
        ...

    @property
    def pending_bytes(self) -> int:
        """The bytes that wait in the transport and in the output of this turn."""
        ...

    @property
    def traffic(self) -> TrafficView:
        """Its traffic."""
        ...

    @property
    def stalls(self) -> int:
        """How often reading from it was paused because receivers were slow."""
        ...

    @property
    def subscription_count(self) -> int:
        """The number of its subscriptions."""
        ...

    def details(self) -> ConnectionDetails:
        """Return the facts that do not change."""
        ...

    def subscriptions(self) -> Iterable[SubscriptionView]:
        """Return its subscriptions, in order of creation."""
        ...

    def request_rtt(self) -> None:
        """Send a PING now if none is in flight: `/connz` needs it while ``rtt_ns`` is 0."""
        ...
