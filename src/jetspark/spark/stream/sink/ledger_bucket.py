"""The bucket that holds ledgers of exactly-once writes."""

import logging

from jetspark import sync
from jetspark.client.jetstream.kv.config import KeyValueConfig, stream_name
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamConfig
from jetspark.errors import (
    BucketExists,
    ConnectFailed,
    ConnectionClosed,
    Error,
    StreamNotFound,
)
from jetspark.units import format_duration

_log = logging.getLogger(__name__)


class LedgerUnusable(Error):
    """A bucket that cannot be the ledger; the text says why."""


def ensure_ledger(
    jetstream: sync.JetStream, bucket: str, *, named: bool, replicas: int = 1
) -> None:
    """Check the bucket of a ledger; one that the user has not ``named`` is created if missing.

    Raises ``LedgerUnusable``, or the error of a connection that was lost.
    """
    try:
        config = jetstream.stream(stream_name(bucket)).cached_info.config
    except StreamNotFound:
        if named:
            raise LedgerUnusable(f"bucket {bucket!r} for the ledger does not exist") from None
    except (ConnectionClosed, ConnectFailed):
        raise
    except Error as error:
        raise LedgerUnusable(
            f"the ledger of exactly-once writes cannot be read ({error})"
        ) from None
    else:
        problem = _problem(config)
        if problem:
            raise LedgerUnusable(f"the bucket {bucket!r} cannot be the ledger: it {problem}")
        return
    wanted = KeyValueConfig(
        bucket=bucket,
        description="epochs that jetspark's Spark sinks have committed",
        replicas=replicas,
    )
    try:
        jetstream.create_key_value(wanted)
    except BucketExists:
        return  # created concurrently by another query
    except (ConnectionClosed, ConnectFailed):
        raise
    except Error as error:
        raise LedgerUnusable(
            f"the ledger of exactly-once writes cannot be created ({error})"
        ) from None
    _log.info("created the bucket %r for the ledger of exactly-once writes", bucket)


def _problem(config: StreamConfig) -> str:
    """Return why a bucket cannot be the ledger; empty if it can."""
    if config.max_msgs_per_subject < 1:
        return "is a stream that keeps every message, not a key-value bucket"
    if config.max_age:
        return (
            f"has a ttl of {format_duration(to_wire(config).max_age)}, after which commits are "
            "forgotten, so rows would be stored twice"
        )
    if config.mirror is not None:
        return f"is a mirror of {config.mirror.name!r}, which may lag"
    return ""
