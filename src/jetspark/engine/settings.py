"""What a server sets for the engines of all its accounts (decisions.md, our settings)."""

import msgspec

from jetspark.engine.limits import MIN_LAST_SEQ_WAIT_NS, PURGE_STEP
from jetspark.units import Nanoseconds


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the engine; ``jetstream.limits`` among them, where 0 is no limit."""

    min_last_seq_wait: Nanoseconds = Nanoseconds(MIN_LAST_SEQ_WAIT_NS)
    duplicate_window_max: Nanoseconds = Nanoseconds(0)
    max_ack_pending: int = 0
    max_request_batch: int = 0
    purge_step: int = PURGE_STEP
