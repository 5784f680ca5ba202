"""The ``jetstream`` block: streams on or off, their folder, their limits."""

import re
from enum import StrEnum
from typing import Any, Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_block
from jetspark.server.config.secret import Secret
from jetspark.server.config.values import (
    INT32_MAX,
    boolean,
    duration,
    duration_text,
    integer_in,
    limit,
    one_of,
    or_default,
    secret,
    storage_size,
    string,
)
from jetspark.units import ByteCount, Nanoseconds, minutes, seconds

STORE_DIR_DEFAULT: Final = "jetspark-data"
ALL_OF_IT: Final = -1

_DOMAIN_REFUSED: Final = re.compile(r"[\s.*>]")


class Durability(StrEnum):
    """What an acknowledgement guarantees."""

    DURABLE = "durable"
    INTERVAL = "interval"
    ASYNC = "async"


class AtomicLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of atomic batches: ``jetstream.limits.batch``, and ``jetspark.atomic``."""

    messages: int = 1000
    per_stream: int = 50
    per_server: int = 1000
    timeout: Nanoseconds = seconds(10)


class JetStreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``jetstream.limits``; 0: only the built-in limit."""

    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window: Nanoseconds = Nanoseconds(0)
    batch: AtomicLimits = AtomicLimits()


class JetStream(msgspec.Struct, frozen=True, kw_only=True):
    """A ``jetstream`` block. ``max_mem`` and ``max_file`` -1: from the machine's resources."""

    enabled: bool = False
    store_dir: str = ""
    max_mem: ByteCount = ByteCount(ALL_OF_IT)
    max_file: ByteCount = ByteCount(ALL_OF_IT)
    domain: str = ""
    strict: bool = True
    durability: Durability = Durability.DURABLE  # nats-server acknowledges before it syncs
    sync_interval: Nanoseconds = minutes(2)  # used at level ``interval`` only
    key: Secret = Secret()
    prev_key: Secret = Secret()
    cipher: str = ""
    max_buffered_size: ByteCount = ByteCount(128 * 1024 * 1024)
    max_buffered_msgs: int = 100_000
    limits: JetStreamLimits = JetStreamLimits()


def read_jetstream(setting: Setting) -> JetStream:
    """Read the block, or true, false, enabled, disabled."""
    value = setting.node.value
    if isinstance(value, bool):
        return JetStream(enabled=value)
    if isinstance(value, str):
        if value.lower() in {"enabled", "enable"}:
            return JetStream(enabled=True)
        if value.lower() in {"disabled", "disable"}:
            return JetStream(enabled=False)
        raise setting.refused(f"Expected 'enabled' or 'disabled', got '{value}'")
    if not isinstance(value, dict):
        raise setting.wrong("true, false, enabled, disabled or a block")
    values = read_block(setting, _FIELDS)
    interval = values.pop("sync_interval", None)
    if interval is not None:
        # decisions.md, Server: a period lowers the level.
        values.update(sync_interval=interval, durability=Durability.INTERVAL)
    return JetStream(**{"enabled": True, **values})


def _sync_interval(setting: Setting) -> Any:
    value = setting.node.value
    if isinstance(value, str) and value.lower() == "always":
        return msgspec.UNSET
    interval = duration(setting)
    if interval == 0:
        raise setting.refused("expected 'always' or a duration above 0")
    setting.report.mention(setting.path, setting.name, setting.node.place)
    return interval


def _domain(setting: Setting) -> str:
    domain = string(setting)
    if _DOMAIN_REFUSED.search(domain):
        raise setting.refused(f"invalid domain name '{domain}': may not contain blanks, ., * or >")
    return domain


def _limits(setting: Setting) -> JetStreamLimits:
    return JetStreamLimits(**read_block(setting, _LIMITS))


def _batch(setting: Setting) -> AtomicLimits:
    values = read_block(setting, _BATCH)
    return AtomicLimits(**{_BATCH_NAMES[name]: value for name, value in values.items()})


def _budget(setting: Setting) -> ByteCount:
    size = storage_size(setting)
    if size < ALL_OF_IT:
        raise setting.refused(f"expected a size, or -1 for what the machine has, got {size}")
    return size


def _buffer(setting: Setting) -> ByteCount:
    size = storage_size(setting)
    if size < 0:
        raise setting.refused(f"expected a size that is not negative, got {size}")
    return size


def _store_dir(setting: Setting) -> str:
    path = string(setting)
    if not path:
        raise setting.refused("expected a folder, got an empty string")
    return path


_COUNT: Final = integer_in(0, INT32_MAX)
_POSITIVE: Final = or_default(_COUNT)
_CIPHERS: Final = {"chacha": "chacha", "chachapoly": "chacha", "aes": "aes"}
_BATCH: Final = {
    "max_msgs": Field(_POSITIVE),
    "max_inflight_per_stream": Field(_POSITIVE),
    "max_inflight_total": Field(_POSITIVE),
    "timeout": Field(or_default(duration_text)),
}
_BATCH_NAMES: Final = {
    "max_msgs": "messages",
    "max_inflight_per_stream": "per_stream",
    "max_inflight_total": "per_server",
    "timeout": "timeout",
}
_LIMITS: Final = {
    "max_ack_pending": Field(limit),
    "max_request_batch": Field(limit),
    "duplicate_window": Field(duration_text),
    "batch": Field(_batch),
}
_FIELDS: Final = {
    "enabled": Field(boolean, ("enable",)),
    "store_dir": Field(_store_dir, ("store", "storedir")),
    "max_mem": Field(_budget, ("max_memory_store", "max_mem_store")),
    "max_file": Field(_budget, ("max_file_store",)),
    "domain": Field(_domain),
    "strict": Field(boolean),
    "sync_interval": Field(_sync_interval, ("sync",), silent=True),
    "key": Field(secret, ("ek", "encryption_key")),
    "prev_key": Field(secret, ("prev_ek", "prev_encryption_key")),
    "cipher": Field(one_of(_CIPHERS)),
    "max_buffered_size": Field(or_default(_buffer)),
    "max_buffered_msgs": Field(_POSITIVE),
    "limits": Field(_limits),
}
