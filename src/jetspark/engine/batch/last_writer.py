"""Whether a fast batch was the last to write to a subject (ADR-50, expected sequences).

ADR-50: an expected subject sequence can only be checked if no earlier message of the batch wrote
to that subject. A batch has no maximum length, so nothing is remembered per subject: messages of
the header dialect are stored with the id of their batch, and the last one of the subject shows it.
"""

from jetspark.engine.batch.members import FastBatch
from jetspark.engine.stream.checks import Checks
from jetspark.errors.storage import CorruptRecord
from jetspark.headers.block import find_value
from jetspark.headers.names import FAST_BATCH_ID
from jetspark.store.format.record import (
    MESSAGE,
    headers_end,
    record_kind,
    record_length,
    record_sequence,
    subject_end,
)
from jetspark.store.log.staged import READ_UNITS
from jetspark.store.log.stream_log import StreamLog


def wrote_last(checks: Checks, batch: FastBatch, subject: bytes) -> bool:
    """Return whether the newest message of a subject came with this batch.

    Raises LongLook if the newest message of a pattern takes several turns to find.
    """
    log = checks.log
    seq = int(checks.last_of(subject))
    if batch.first_seq == 0 or seq < batch.first_seq:
        return False
    block = _durable_block(log, seq) if seq <= log.index.last_seq else _staged_block(log, seq)
    return find_value(block, FAST_BATCH_ID) == batch.batch_id


def _durable_block(log: StreamLog, seq: int) -> bytes:
    try:
        data, at = log.reader.locate(seq)
    except CorruptRecord:
        return b""
    return data[subject_end(data, at) : headers_end(data, at)] if data else b""


def _staged_block(log: StreamLog, seq: int) -> bytes:
    for blob in log.staged.records():
        at = 0
        while at < len(blob):
            log.index.turn.spend(READ_UNITS)
            if record_kind(blob, at) == MESSAGE and record_sequence(blob, at) == seq:
                return blob[subject_end(blob, at) : headers_end(blob, at)]
            at += int(record_length(blob, at))
    return b""
