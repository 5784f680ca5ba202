"""What monitoring must know of a connection."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from jetspark.server.monitor.traffic import TrafficView


class SubscriptionView(Protocol):
    """One SUB; the router's ``Subscription`` is one."""

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
        """The id its client chose."""
        ...

    @property
    def delivered(self) -> int:
        """Messages it got."""
        ...

    @property
    def max_msgs(self) -> int:
        """After how many it ends; 0 for never."""
        ...


class PeerCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What ``/connz?auth=1`` says about a client certificate; digests as hex."""

    subject: str = ""
    spki_sha256: str = ""
    cert_sha256: str = ""


class TlsDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS session of a connection (`tls.details` makes it from a transport)."""

    version: str  # "1.3"
    cipher_suite: str  # the IANA name
    first: bool = False  # the handshake came before INFO
    peer_certs: tuple[PeerCertificate, ...] = ()


class ConnectionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change once a client said CONNECT. Made when asked for.

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
    """One connection: what lists are sorted by and sums are made of, as plain attributes."""

    @property
    def cid(self) -> int:
        """Its number."""
        ...

    @property
    def account(self) -> str:
        """The name of its account."""
        ...

    @property
    def start_ns(self) -> int:
        """When it was made."""
        ...

    @property
    def last_ns(self) -> int:
        """The last chunk with something in it, or the last write; once per chunk."""
        ...

    @property
    def rtt_ns(self) -> int:
        """From the server's last PING to its PONG; 0 until there was one."""
        ...

    @property
    def pending_bytes(self) -> int:
        """What waits in the transport and in the output of this turn."""
        ...

    @property
    def traffic(self) -> TrafficView:
        """What went through it."""
        ...

    @property
    def stalls(self) -> int:
        """How often reading from it was paused because receivers were slow."""
        ...

    @property
    def subscription_count(self) -> int:
        """How many subscriptions it has."""
        ...

    def details(self) -> ConnectionDetails:
        """What does not change."""
        ...

    def subscriptions(self) -> Iterable[SubscriptionView]:
        """Its subscriptions, in the order they were made."""
        ...

    def request_rtt(self) -> None:
        """Send a PING now if none is under way: `/connz` asks for it while ``rtt_ns`` is 0."""
        ...
