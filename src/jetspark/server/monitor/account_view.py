"""What monitoring must know of an account."""

from typing import Any, Protocol

import msgspec


class TrafficView(Protocol):
    """Messages and bytes, seen from the server: ``in`` is what clients published.

    Bytes count what nats-server counts: headers and payload, without subject and line ends. The
    counters of ``server.receiver.Traffic`` are such.
    """

    @property
    def in_msgs(self) -> int:
        """Messages published."""
        ...

    @property
    def in_bytes(self) -> int:
        """Bytes in them."""
        ...

    @property
    def out_msgs(self) -> int:
        """Messages delivered."""
        ...

    @property
    def out_bytes(self) -> int:
        """Bytes in them."""
        ...


class SublistCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The subscriptions of an account as numbers (`subsz.sublist_counts` makes them).

    What the cache of results holds is None where it is not known.
    """

    subscriptions: int = 0
    inserts: int = 0
    removes: int = 0
    cached: int | None = None
    fanout_total: int | None = None
    fanout_max: int | None = None


class MappingDestination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a subject mapping leads."""

    subject: str
    weight: int = 100


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """An export or an import of an account. ``kind`` is ``stream`` or ``service``."""

    subject: str
    kind: str
    account: str = ""  # imports: where from
    local_subject: str = ""  # imports: under which subject
    approved_accounts: tuple[str, ...] = ()  # exports: for whom, empty for everybody
    response_type: str = ""  # service exports
    token_required: bool = False
    share: bool = False  # service imports that show who asks
    invalid: bool = False


class AccountDetails(msgspec.Struct, frozen=True, kw_only=True):
    """How an account is configured; made when ``/accountz?acc=`` asks for it."""

    updated_ns: int
    expired: bool = False
    complete: bool = True
    exports: tuple[Share, ...] = ()
    imports: tuple[Share, ...] = ()
    mappings: dict[str, tuple[MappingDestination, ...]] = {}
    jwt: str = ""
    issuer_key: str = ""
    tags: tuple[str, ...] = ()
    claims: dict[str, Any] | None = None  # the decoded JWT


class AccountView(Protocol):
    """One account."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def name_tag(self) -> str:
        """What people call it; the name itself without a JWT."""
        ...

    @property
    def is_system(self) -> bool:
        """Whether it is the system account."""
        ...

    @property
    def jetstream_enabled(self) -> bool:
        """Whether it may use JetStream."""
        ...

    @property
    def slow_consumers(self) -> int | None:
        """Its clients that were closed for reading too slowly; None if nobody counts them."""
        ...

    @property
    def traffic(self) -> TrafficView:
        """What went through it since the start."""
        ...

    @property
    def connection_count(self) -> int:
        """How many clients it has."""
        ...

    def sublist(self) -> SublistCounts:
        """Its subscriptions as numbers."""
        ...

    def details(self) -> AccountDetails:
        """How it is configured."""
        ...
