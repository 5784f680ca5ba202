"""Sequences that a stream never had, said in its log: what a restore finds missing."""

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from jetspark.store.record import SKIP
from jetspark.store.staging import Staging


def stage_gap(log: Staging, last: i64) -> None:
    """Decide that no sequence up to ``last`` is used any more. Raises StoreReadOnly."""
    if last <= log.staged_seq:
        return
    log.stage_prelude()
    body = BytesWriter()
    write_i64_le(body, log.staged_seq + 1)
    write_i64_le(body, last)
    body.write(b"\r\n")
    log.staged_seq = last
    log.stage_record(SKIP, body.getvalue())
