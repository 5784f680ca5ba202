"""How an account is configured, and its subscriptions as numbers, for monitoring."""

from typing import Any

import msgspec


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
