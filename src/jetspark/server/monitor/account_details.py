"""The configuration of an account, and its subscription counts, for monitoring."""

from typing import Any

import msgspec


class SublistCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The subscription counts of an account (from `subsz.sublist_counts`).

    The counts of the result cache are None if unknown.
    """

    subscriptions: int = 0
    inserts: int = 0
    removes: int = 0
    cached: int | None = None
    fanout_total: int | None = None
    fanout_max: int | None = None


class MappingDestination(msgspec.Struct, frozen=True, kw_only=True):
    """A destination of a subject mapping."""

    subject: str
    weight: int = 100


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """An export or an import of an account. ``kind`` is ``stream`` or ``service``."""

    subject: str
    kind: str
    account: str = ""  # imports: the exporting account
    local_subject: str = ""  # imports: the local subject
    approved_accounts: tuple[str, ...] = ()  # exports: the allowed accounts, empty for all
    response_type: str = ""  # service exports
    token_required: bool = False
    share: bool = False  # service imports that reveal the requester
    invalid: bool = False


class AccountDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an account; built for ``/accountz?acc=``."""

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
