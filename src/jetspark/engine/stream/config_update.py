"""Which updates of a stream's configuration are legal."""

import msgspec

from jetspark.api.enums import Discard
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.values import invalid
from jetspark.errors.codes import ErrCode
from jetspark.units import Nanoseconds


def updated(old: StreamConfig, new: StreamConfig) -> StreamConfig:
    """Return the updated configuration; ``new`` was validated on its own (config.py) before.

    Raises Refusal for an update that is not allowed (wire.md, Streams).
    """
    if new.name != old.name:
        raise invalid("stream configuration name must match original")
    if new.storage != old.storage:
        raise invalid("stream configuration update can not change storage type")
    if new.retention != old.retention and "workqueue" in {new.retention, old.retention}:
        raise invalid(
            "stream configuration update can not change retention policy to/from workqueue"
        )
    cancelled = (
        ("sealed", "stream configuration update can not unseal a sealed stream"),
        ("deny_delete", "stream configuration update can not cancel deny message deletes"),
        ("deny_purge", "stream configuration update can not cancel deny purge"),
    )
    for name, text in cancelled:
        if getattr(old, name) and not getattr(new, name):
            raise invalid(text)
    # Removing the mirror turns it into an ordinary stream; any other change is refused.
    if new.mirror is not None and new.mirror != old.mirror:
        raise Refusal(ErrCode.MIRROR_NOT_UPDATABLE)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if new.persist_mode != old.persist_mode:
        raise invalid("stream configuration update can not change persist mode")
    if new.sealed:
        new = msgspec.structs.replace(
            new,
            max_age=Nanoseconds(0),
            discard=Discard.NEW,
            deny_delete=True,
            deny_purge=True,
            allow_rollup_hdrs=False,
        )
    return new
