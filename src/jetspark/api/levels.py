"""API levels, and the metadata in which servers record them.

``_nats.req.level`` of a stream or consumer is the API level that a server needs to run it; answers
add the level and version of the answering server. ``_jetspark.*`` is reserved for our own marks,
which answers leave out, because tools would show them as the user's.
"""

from collections.abc import Mapping
from typing import Final

from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import PersistMode, PriorityPolicy
from jetspark.api.stream import StreamConfig

__all__ = [
    "API_LEVEL",
    "API_VERSION",
    "LEVEL_ATOMIC",
    "LEVEL_BATCHED",
    "LEVEL_COUNTER",
    "LEVEL_FAST_RELEASED",
    "LEVEL_MIN_LAST_SEQ",
    "LEVEL_PAUSE",
    "LEVEL_PERSIST_ASYNC",
    "LEVEL_PRIORITY",
    "LEVEL_SCHEDULES",
    "LEVEL_TTL",
    "RESTORING",
    "answered_metadata",
    "consumer_level",
    "own_metadata",
    "stored_metadata",
    "stream_level",
]

# decisions.md, Server: clients enable features by these.
API_LEVEL: Final = 5
API_VERSION: Final = "2.15.1"

LEVEL_TTL: Final = 1  # nats-server 2.11
LEVEL_PAUSE: Final = 1
LEVEL_PRIORITY: Final = 1
LEVEL_COUNTER: Final = 2  # nats-server 2.12
LEVEL_ATOMIC: Final = 2  # ADR-50
LEVEL_SCHEDULES: Final = 2
LEVEL_PERSIST_ASYNC: Final = 2
LEVEL_MIN_LAST_SEQ: Final = 2  # the level required by nats-server's withdrawn code
LEVEL_BATCHED: Final = 3  # ADR-50; the level our server records
LEVEL_FAST_RELEASED: Final = 4  # the level of released fast ingest, which clients check

# Marks a stream whose restore has not finished: it is hidden, and a restart removes it.
RESTORING: Final = "_jetspark.restoring"

_REQUIRED: Final = "_nats.req.level"
_VERSION: Final = "_nats.ver"
_LEVEL: Final = "_nats.level"
_SERVERS: Final = ("_nats.", "_jetspark.")


def stream_level(config: StreamConfig) -> int:
    """Return the API level that ``config`` needs."""
    needed = (
        (config.allow_msg_ttl or config.subject_delete_marker_ttl > 0, LEVEL_TTL),
        (config.allow_msg_counter, LEVEL_COUNTER),
        (config.allow_atomic, LEVEL_ATOMIC),
        (config.allow_msg_schedules, LEVEL_SCHEDULES),
        (config.persist_mode == PersistMode.ASYNC, LEVEL_PERSIST_ASYNC),
        (config.allow_batched, LEVEL_BATCHED),
    )
    return max((level for used, level in needed if used), default=0)


def consumer_level(config: ConsumerConfig) -> int:
    """Return the API level that ``config`` needs."""
    priority = (
        config.priority_policy != PriorityPolicy.NONE
        or config.priority_timeout != 0
        or bool(config.priority_groups)
    )
    needed = (
        (bool(config.pause_until), LEVEL_PAUSE),
        (priority, LEVEL_PRIORITY),
        (config.min_last_seq > 0, LEVEL_MIN_LAST_SEQ),
    )
    return max((level for used, level in needed if used), default=0)


def own_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the user's metadata: the part that counts when configurations are compared."""
    keys = "\n".join(metadata)
    if not any(prefix in keys for prefix in _SERVERS):
        return dict(metadata)  # there may be very many
    return {key: value for key, value in metadata.items() if not key.startswith(_SERVERS)}


def stored_metadata(metadata: Mapping[str, str], level: int) -> dict[str, str]:
    """Return the metadata to store: the user's part and the required level."""
    # The JSON encoder sorts it.
    return {**own_metadata(metadata), _REQUIRED: str(level)}


def answered_metadata(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of an answer: the stored part, this server's level and version."""
    # The JSON encoder sorts it.
    return {**stored, _LEVEL: str(API_LEVEL), _VERSION: API_VERSION}
