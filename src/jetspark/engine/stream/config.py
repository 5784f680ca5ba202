"""Preparing a stream's configuration: fills in defaults and validates.

The checks run in the order of the released server, because a configuration with two errors is
answered with the first.
"""

from collections.abc import Callable, Generator

import msgspec

from jetspark.api.base import decoder
from jetspark.api.levels import API_LEVEL, stored_metadata, stream_level
from jetspark.api.stream import Placement, StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.copies import check_mirror, check_sources
from jetspark.engine.stream.subject_rules import republished, with_subjects
from jetspark.engine.stream.values import invalid, with_limits, with_window
from jetspark.errors.codes import ErrCode
from jetspark.steps import at_once, rest

__all__ = [
    "API_LEVEL",
    "checked",
    "checking",
    "decode_config",
    "invalid",
    "prepared",
]

# Returns the configuration of a stream of the account by name.
Find = Callable[[str], StreamConfig | None]

_decoder = decoder(StreamConfig)


def _find_none(_name: str) -> StreamConfig | None:
    return None


def prepared(
    config: StreamConfig,
    *,
    pedantic: bool = False,
    find: Find = _find_none,
    window_max: int = 0,
) -> StreamConfig:
    """Return the configuration with its defaults; raise Refusal if it is invalid.

    ``pedantic`` refuses what would otherwise be adjusted.
    """
    return checked(config, pedantic=pedantic, find=find, window_max=window_max)


def checked(
    config: StreamConfig, *, pedantic: bool, find: Find, window_max: int = 0
) -> StreamConfig:
    """Return the validated configuration with its defaults, in one go."""
    return at_once(checking(config, pedantic=pedantic, find=find, window_max=window_max))


def checking(
    config: StreamConfig, *, pedantic: bool, find: Find, window_max: int = 0
) -> Generator[None, None, StreamConfig]:
    """Return the validated configuration with its defaults, in steps.

    ``window_max`` is the server's maximum for a duplicate window; 0: none.
    """
    config = with_limits(config, pedantic=pedantic)
    yield from rest(len(config.metadata))
    config = with_window(config, pedantic=pedantic, most=window_max)
    config = _with_flags(config, pedantic=pedantic)
    if config.mirror is not None:
        config = yield from check_mirror(config, config.mirror, find, pedantic=pedantic)
    yield from check_sources(config, find)
    config = yield from with_subjects(config)
    config = yield from republished(config, pedantic=pedantic)
    if config.placement == Placement():
        config = msgspec.structs.replace(config, placement=None)
    if config.placement is not None and config.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    if config.num_replicas > 1:
        raise Refusal(ErrCode.REPLICAS_NOT_SUPPORTED)
    config = _with_metadata(config)
    yield from rest(len(config.metadata))
    return config


def decode_config(document: bytes) -> StreamConfig:
    """Decode a stored configuration."""
    return _with_metadata(_decoder.decode(document))


def _with_flags(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    if config.allow_msg_counter:
        _check_counter(config)
    if config.discard_new_per_subject:
        if config.discard != "new":
            raise invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            raise invalid("discard new per subject requires max msgs per subject > 0")
    config = _with_markers(config, pedantic=pedantic)
    if config.allow_msg_schedules:
        if config.discard == "new":
            raise invalid("message scheduling cannot use discard new")
        if not config.allow_rollup_hdrs:
            if pedantic:
                raise invalid("message scheduling cannot be set if roll-ups are disabled")
            config = msgspec.structs.replace(config, allow_rollup_hdrs=True, deny_purge=False)
    if config.persist_mode == "async":
        if config.storage != "file":
            raise invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid("async persist mode is not supported with atomic batch publish")
    # ADR-31, over an explicit false too (decisions.md).
    if config.max_msgs_per_subject > 0 and not config.allow_direct:
        config = msgspec.structs.replace(config, allow_direct=True)
    return config


def _check_counter(config: StreamConfig) -> None:
    if config.discard == "new":
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention != "limits":
        raise invalid("counter stream can only use limits retention")


def _with_markers(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    ttl = config.subject_delete_marker_ttl
    if ttl == 0:
        return config
    if ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if ttl < 1_000_000_000:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if pedantic and not config.allow_msg_ttl:
        raise invalid("subject delete marker cannot be set if message TTLs are disabled")
    if pedantic and not config.allow_rollup_hdrs:
        raise invalid("subject delete marker cannot be set if roll-ups are disabled")
    changes: dict[str, bool] = {"allow_msg_ttl": True}
    if not config.allow_rollup_hdrs:
        changes |= {"allow_rollup_hdrs": True, "deny_purge": False}
    return msgspec.structs.replace(config, **changes)


def _with_metadata(config: StreamConfig) -> StreamConfig:
    """Keep the user's metadata and the required level; answers add the rest (levels.py)."""
    kept = stored_metadata(config.metadata, stream_level(config))
    return msgspec.structs.replace(config, metadata=kept)


def evicting(config: StreamConfig) -> tuple[int, int, int]:
    """Return the limits that evict old messages: with discard new only the one per subject."""
    if config.discard == "old":
        return config.max_msgs, config.max_bytes, config.max_msgs_per_subject
    return 0, 0, 0 if config.discard_new_per_subject else config.max_msgs_per_subject
