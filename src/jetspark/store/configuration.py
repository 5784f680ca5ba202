"""Configuration and limits of a log: staged and applied.

The body of a configuration record: as of, revision, first sequence that was there, three limits,
document. What lay below the first sequence went for reasons that are in no record, such as its
age.

Not compiled: configurations are few.
"""

from typing import TYPE_CHECKING

import msgspec
from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.store.limits import Limits
from jetspark.store.manifest import Identity
from jetspark.store.record import CONFIGURATION, FIXED, body_end
from jetspark.store.removal import delete_range

if TYPE_CHECKING:
    from jetspark.store.log import StreamLog
    from jetspark.store.staging import Staging


def set_limits(log: "Staging", limits: Limits) -> None:
    """Keep no more than this from now on; ``Staging.set_limits`` says when."""
    log.wanted_limits = limits
    if log.wanted_limits.equals(log.staged_limits):
        log.limits_due = False
    elif log.staged_position > log.durable_position and not log.read_only:
        log.stage_current(log.staged_document)
        return
    else:
        log.limits_due = True
    if log.staged_position == log.durable_position or log.read_only:
        log.limits = log.wanted_limits
        log.limits.enforce(log.index)


def stage_current(log: "Staging", document: bytes) -> None:
    """Stage a configuration record with the limits last set."""
    log.limits_due = False
    log.staged_limits = log.wanted_limits
    log.staged_document = document
    log.staged_revision += 1
    body = BytesWriter()
    write_i64_le(body, log.staged_seq)
    write_i64_le(body, log.staged_revision)
    # What is not on disk yet may be lost, and then what it evicted is there again.
    write_i64_le(body, log.synced_first if log.unsynced else log.index.first_seq)
    write_i64_le(body, log.wanted_limits.max_msgs)
    write_i64_le(body, log.wanted_limits.max_bytes)
    write_i64_le(body, log.wanted_limits.max_per_subject)
    body.write(document)
    body.write(b"\r\n")
    log.stage_record(CONFIGURATION, body.getvalue())


def apply_configuration(log: "StreamLog", data: bytes, at: i64) -> None:
    """A configuration is in force from here on."""
    body = at + FIXED
    revision: int = read_i64_le(data, body + 8)
    delete_range(log.index, 1, read_i64_le(data, body + 16) - 1)
    if revision > log.identity.revision:
        identity: Identity = msgspec.structs.replace(
            log.identity,
            config=msgspec.Raw(data[body + 48 : body_end(data, at)]),
            revision=revision,
            max_msgs=int(read_i64_le(data, body + 24)),
            max_bytes=int(read_i64_le(data, body + 32)),
            max_per_subject=int(read_i64_le(data, body + 40)),
        )
        log.identity = identity
        log.manifest_due = True
    log.limits = Limits(
        read_i64_le(data, body + 24),
        read_i64_le(data, body + 32),
        read_i64_le(data, body + 40),
    )
    log.limits.enforce(log.index)


def adopt_limits(log: "StreamLog", identity: Identity) -> None:
    """These are the configuration and the limits that the log says; nothing is staged."""
    log.identity = identity
    limits = Limits(identity.max_msgs, identity.max_bytes, identity.max_per_subject)
    log.limits = limits
    log.staged_limits = limits
    log.wanted_limits = limits
    log.staged_document = bytes(identity.config)
    log.staged_revision = identity.revision


class _Copied(msgspec.Struct):
    mirror: dict[str, object] | None = None


_copied = msgspec.json.Decoder(_Copied)


def is_copy(identity: Identity) -> bool:
    """Say whether the sequences of a stream are those of another one, which it mirrors.

    All that the store ever asks of a configuration.
    """
    try:
        return _copied.decode(bytes(identity.config)).mirror is not None
    except msgspec.MsgspecError:
        return False  # no stream of an engine
