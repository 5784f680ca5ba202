"""The options of reads and writes of format ``jetstream``."""

from collections.abc import Mapping
from typing import Final

from jetspark.spark.connection_settings import CONNECTION_OPTIONS
from jetspark.spark.option_reader import STREAMING_WRITE_OPTIONS, Use

_READ: Final = (
    *CONNECTION_OPTIONS,
    "stream",
    "subject",
    "startingOffsets",
    "startingTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "batchSize",
    "maxBatchBytes",
    "minLastSeq",
    "readMode",
    "pushDown",
)
_WRITE: Final = (
    *CONNECTION_OPTIONS,
    "stream",
    "streams",
    "subject",
    "publishMode",
    "delivery",
    "idSource",
    "atomicScope",
    "ledgerSubject",
    "ledgerBucket",
    "failOnReplayGaps",
    "keepCommittedEpoch",
    "maxInFlight",
    "ackTimeoutMs",
    "retries",
    "allowPurge",
)

OPTIONS: Final[Mapping[Use, tuple[str, ...]]] = {
    Use.READ: (*_READ, "endingOffsets", "endingTimestamp", "ledgerBucket"),
    Use.READ_STREAM: (
        *_READ,
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "onCommit",
        "onRecreate",
    ),
    Use.WRITE: (*_WRITE, "txnAppId", "txnVersion"),
    Use.WRITE_STREAM: (*_WRITE, "idPrefix", *STREAMING_WRITE_OPTIONS),
}
