"""Settings of the engines of all accounts of a server (decisions.md, Server)."""

import msgspec

from jetspark.api.account import AccountLimits
from jetspark.engine.consumer.config import Ceilings
from jetspark.engine.limits import APPLIED_PER_TURN, MIN_LAST_SEQ_WAIT_NS, PURGE_STEP
from jetspark.units import Nanoseconds


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the engine; ``jetstream.limits`` among them, where 0 is no limit."""

    min_last_seq_wait: Nanoseconds = Nanoseconds(MIN_LAST_SEQ_WAIT_NS)
    duplicate_window_max: Nanoseconds = Nanoseconds(0)
    max_ack_pending: int = 0
    max_request_batch: int = 0
    purge_step: int = PURGE_STEP
    applied_per_turn: int = APPLIED_PER_TURN


def ceilings_of(settings: EngineSettings, limits: AccountLimits) -> Ceilings:
    """Return the upper bounds for the configuration of consumers."""
    return Ceilings(
        server_max_ack_pending=settings.max_ack_pending,
        server_max_batch=settings.max_request_batch,
        account_max_ack_pending=max(limits.max_ack_pending, 0),
        account_max_consumers=max(limits.max_consumers, 0),
    )
