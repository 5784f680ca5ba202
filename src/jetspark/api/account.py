"""``$JS.API.INFO``: usage and limits of an account."""

from typing import Final

from jetspark.api.base import ApiStruct, Response, shown

__all__ = ["ACCOUNT_INFO", "AccountInfo", "AccountLimits", "ApiStats", "Tier"]


class AccountLimits(ApiStruct, frozen=True, kw_only=True):
    """The limits of an account; -1 is no limit."""

    max_memory: int = shown(-1)
    max_storage: int = shown(-1)
    max_streams: int = shown(-1)
    max_consumers: int = shown(-1)
    max_ack_pending: int = shown(-1)
    memory_max_stream_bytes: int = shown(-1)
    storage_max_stream_bytes: int = shown(-1)
    max_bytes_required: bool = shown(False)


class ApiStats(ApiStruct, frozen=True, kw_only=True):
    """The API level of the server, and its request counts."""

    level: int = shown(0)
    total: int = shown(0)
    errors: int = shown(0)
    inflight: int = 0


class Tier(ApiStruct, frozen=True, kw_only=True):
    """The usage of an account in one tier of replication."""

    memory: int = shown(0)
    storage: int = shown(0)
    reserved_memory: int = shown(0)
    reserved_storage: int = shown(0)
    streams: int = shown(0)
    consumers: int = shown(0)
    limits: AccountLimits = shown(AccountLimits())


class AccountInfo(Tier, frozen=True, kw_only=True):
    """The usage and limits of an account."""

    domain: str = ""
    api: ApiStats = shown(ApiStats())
    tiers: dict[str, Tier] | None = None


ACCOUNT_INFO: Final = Response("account_info", AccountInfo)
