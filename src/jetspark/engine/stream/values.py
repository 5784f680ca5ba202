"""Names, texts, limits and times of a stream's configuration: bounds and defaults."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from jetspark.api.levels import stored_metadata
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.errors.codes import ErrCode
from jetspark.subjects.tokens import NAME_LENGTH_MAX
from jetspark.units import Nanoseconds, format_duration

DUPLICATE_WINDOW: Final = Nanoseconds(120_000_000_000)
SHORTEST: Final = Nanoseconds(100_000_000)  # of max_age and the duplicate window
DESCRIPTION_MAX: Final = 4096  # wire.md, Limits and timings
METADATA_MAX: Final = 128 * 1024  # wire.md, Limits and timings
REPLICAS_MAX: Final = 5
# Sequences are signed 64-bit: a stream that starts at or moves to this one has as many left.
SEQUENCE_MAX: Final = 2**62
# In the order of the released server's checks. Zero and negative both mean none.
LIMITS: Final = (
    "max_msgs",
    "max_msgs_per_subject",
    "max_bytes",
    "max_msg_size",
    "max_consumers",
)

_NOT_IN_NAMES: Final = re.compile(r"[ \t\r\n\f.*>\\/]")


def invalid(reason: str) -> Refusal:
    """Return the answer to an invalid configuration."""
    return Refusal(ErrCode.STREAM_INVALID_CONFIG, err=reason)


def adjusted(reason: str) -> Refusal:
    """Return the answer to a pedantic request with a value that would have to be adjusted."""
    return Refusal(ErrCode.PEDANTIC, err=reason)


def is_name(name: str) -> bool:
    """Return whether the characters of a stream's name are valid; its length is not checked."""
    return name != "" and _NOT_IN_NAMES.search(name) is None


def with_limits(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Check name, texts and numbers; unset limits become -1."""
    if not is_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if _size(config.name) > NAME_LENGTH_MAX:
        raise invalid(f"stream name is too long, maximum allowed is {NAME_LENGTH_MAX}")
    if _size(config.description) > DESCRIPTION_MAX:
        raise invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_MAX}")
    if metadata_size(config.metadata) > METADATA_MAX:
        raise invalid(f"stream metadata exceeds maximum size of {METADATA_MAX} bytes")
    if config.num_replicas > REPLICAS_MAX:
        raise invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise Refusal(ErrCode.REPLICAS_NEGATIVE)
    if config.first_seq > SEQUENCE_MAX:
        raise invalid(f"first sequence can not be larger than {SEQUENCE_MAX}")
    changes: dict[str, int] = {}
    for name in LIMITS:
        value = getattr(config, name)
        if pedantic and value < -1:
            raise adjusted(f"{name} must be set to -1")
        if value <= 0:
            changes[name] = -1
    if config.num_replicas == 0:
        changes["num_replicas"] = 1
    return msgspec.structs.replace(config, **changes)


def with_window(config: StreamConfig, *, pedantic: bool, most: int) -> StreamConfig:
    """Check the age limit and the duplicate window; an unset window gets its default.

    ``most`` is the server's maximum for a window; 0: none.
    """
    age = config.max_age
    if age < 0:
        raise invalid("max age can not be negative")
    if 0 < age < SHORTEST:
        raise invalid("max age needs to be >= 100ms")
    window = config.duplicate_window
    if window == 0 and config.mirror is None and not config.sources:
        window = Nanoseconds(min(DUPLICATE_WINDOW, most or DUPLICATE_WINDOW))
        if 0 < age < window:
            if pedantic:
                raise adjusted("duplicate window cannot be bigger than max age")
            window = age
    if window < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < age < window:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < window < SHORTEST:
        raise invalid("duplicates window needs to be >= 100ms")
    if 0 < most < window:
        text = format_duration(most)
        raise invalid(f"duplicates window can not be larger then server limit of {text}")
    return msgspec.structs.replace(config, duplicate_window=window)


def metadata_size(metadata: Mapping[str, str]) -> int:
    """Return the size of keys and values, including the level that is stored with them."""
    # A level has one digit, whatever the configuration requires.
    stored = stored_metadata(metadata, 0)
    return _size("".join(stored)) + _size("".join(stored.values()))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
