"""The parts of JetStream that ``/varz`` and ``/jsz`` share."""

from jetspark.api.account import ApiStats
from jetspark.api.base import ApiStruct, shown


class JetStreamConfig(ApiStruct, frozen=True, kw_only=True):
    """The configuration of JetStream."""

    max_memory: int = shown(0)
    max_storage: int = shown(0)
    store_dir: str = ""
    sync_interval: int = 0
    sync_always: bool = False
    domain: str = ""
    strict: bool = False


class JetStreamLimits(ApiStruct, frozen=True, kw_only=True):
    """Configured limits."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_duplicate_window: int = 0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: int = 0
    default_max_consumers: int = 0


class JetStreamStats(ApiStruct, frozen=True, kw_only=True):
    """The usage of JetStream."""

    memory: int = shown(0)
    storage: int = shown(0)
    reserved_memory: int = shown(0)
    reserved_storage: int = shown(0)
    accounts: int = shown(0)
    ha_assets: int = shown(0)
    api: ApiStats = shown(ApiStats())
