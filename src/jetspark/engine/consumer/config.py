"""Preparing a consumer's configuration: fills in defaults and validates.

Defaults are set before validation, and both in the order of the released server (wire.md,
Consumers), because a configuration with two errors is answered with the first. The rules for
updates of an existing consumer are in ``config_update.py``.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from jetspark.api.base import decoder
from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import AckPolicy, PriorityPolicy
from jetspark.api.levels import consumer_level, stored_metadata
from jetspark.api.stream import StreamConfig
from jetspark.engine.consumer.config_checks import (
    CheckedFilters,
    check_config,
    checking_filters,
)
from jetspark.engine.stream.values import adjusted
from jetspark.steps import at_once
from jetspark.units import Nanoseconds

__all__ = [
    "ACK_WAIT",
    "INACTIVE_THRESHOLD",
    "MAX_ACK_PENDING",
    "MAX_WAITING",
    "PINNED_TTL",
    "Ceilings",
    "decode_consumer_config",
    "is_durable",
    "prepare_config",
    "with_level",
    "with_threshold",
]

# wire.md, Limits and timings
ACK_WAIT: Final = Nanoseconds(30_000_000_000)
MAX_ACK_PENDING: Final = 1000
MAX_WAITING: Final = 512
INACTIVE_THRESHOLD: Final = Nanoseconds(5_000_000_000)  # of ephemeral consumers
PINNED_TTL: Final = Nanoseconds(120_000_000_000)

# In the order of the released server, with its texts for a pedantic request. Lower values become
# the least value.
_LEAST: Final[tuple[tuple[str, int, str], ...]] = (
    ("max_waiting", 0, "max_waiting must not be negative"),
    ("max_ack_pending", -1, "max_ack_pending must be set to -1"),
    ("max_batch", 0, "max_batch must not be negative"),
    ("max_expires", 0, "max_expires must not be negative"),
    ("max_bytes", 0, "max_bytes must not be negative"),
    ("idle_heartbeat", 0, "idle_heartbeat must not be negative"),
    ("inactive_threshold", 0, "inactive_threshold must not be negative"),
    ("priority_timeout", 0, "priority_timeout must not be negative"),
)

_decoder = decoder(ConsumerConfig)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The maximum values of the server and the account; 0 is no limit."""

    server_max_ack_pending: int = 0
    server_max_batch: int = 0
    account_max_ack_pending: int = 0
    account_max_consumers: int = 0


NO_CEILINGS: Final = Ceilings()


def prepare_config(
    config: ConsumerConfig,
    stream: StreamConfig,
    ceilings: Ceilings = NO_CEILINGS,
    *,
    pedantic: bool = False,
    filters: CheckedFilters | None = None,
) -> ConsumerConfig:
    """Return the configuration with its defaults; raise Refusal for the first error.

    ``filters`` may have been checked before. ``pedantic`` refuses what would be adjusted. The
    inactive threshold of an ephemeral consumer is set when it is created (``with_threshold``):
    until then the released server compares configurations without it.
    """
    config = _with_least_values(config, pedantic=pedantic)
    config = _with_defaults(config, stream, ceilings, pedantic=pedantic)
    check_config(
        config,
        stream,
        most_ack_pending=(ceilings.server_max_ack_pending, ceilings.account_max_ack_pending),
        most_batch=ceilings.server_max_batch,
        filters=filters or at_once(checking_filters(config)),
    )
    return with_level(config)


def with_threshold(config: ConsumerConfig) -> ConsumerConfig:
    """Return the configuration of a new consumer: ephemeral ones always have a threshold."""
    if is_durable(config) or config.inactive_threshold > 0:
        return config
    return msgspec.structs.replace(config, inactive_threshold=INACTIVE_THRESHOLD)


def is_durable(config: ConsumerConfig) -> bool:
    """Return whether a consumer is kept while it is unused."""
    return config.durable_name != ""


def decode_consumer_config(document: bytes) -> ConsumerConfig:
    """Decode a stored configuration."""
    return with_level(_decoder.decode(document))


def _with_least_values(config: ConsumerConfig, *, pedantic: bool) -> ConsumerConfig:
    changes: dict[str, int] = {}
    if config.max_deliver == 0 or config.max_deliver < -1:
        if pedantic and config.max_deliver < -1:
            raise adjusted("max_deliver must be set to -1")
        changes["max_deliver"] = -1
    for name, least, text in _LEAST:
        if getattr(config, name) < least:
            if pedantic:
                raise adjusted(text)
            changes[name] = least
    return msgspec.structs.replace(config, **changes)


def _with_defaults(
    config: ConsumerConfig, stream: StreamConfig, ceilings: Ceilings, *, pedantic: bool
) -> ConsumerConfig:
    changes: dict[str, int] = {}
    pull = not config.deliver_subject
    acks = config.ack_policy != AckPolicy.NONE
    limits = stream.consumer_limits
    if pull and config.max_waiting == 0:
        changes["max_waiting"] = MAX_WAITING
    ack_wait = config.ack_wait
    if ack_wait == 0 and acks:
        ack_wait = ACK_WAIT
    if config.backoff:
        if pedantic and ack_wait != config.backoff[0]:
            raise adjusted("first backoff value has to equal batch AckWait")
        ack_wait = config.backoff[0]
    changes["ack_wait"] = ack_wait
    pending = config.max_ack_pending
    if pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise adjusted("max_ack_pending must be set if it's configured in stream limits")
        pending = limits.max_ack_pending
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise adjusted("inactive_threshold must be set if it's configured in stream limits")
        changes["inactive_threshold"] = limits.inactive_threshold
    if pending == 0 and acks:
        most = (ceilings.server_max_ack_pending, ceilings.account_max_ack_pending)
        pending = min([MAX_ACK_PENDING, *(limit for limit in most if limit > 0)])
    changes["max_ack_pending"] = pending
    if pull and config.max_batch == 0 and ceilings.server_max_batch > 0:
        if pedantic:
            raise adjusted("max_request_batch must be set if it's JetStream limits are set")
        changes["max_batch"] = ceilings.server_max_batch
    if config.priority_policy == PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        changes["priority_timeout"] = PINNED_TTL
    return msgspec.structs.replace(config, **changes)


def with_level(config: ConsumerConfig) -> ConsumerConfig:
    """Keep the user's metadata and the required level; answers add the rest (levels.py)."""
    kept = stored_metadata(config.metadata, consumer_level(config))
    return msgspec.structs.replace(config, metadata=kept)
