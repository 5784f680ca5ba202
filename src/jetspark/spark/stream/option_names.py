"""The options of reads and writes of format ``jetstream``."""

from collections.abc import Mapping
from typing import Final

from jetspark.spark.connection_settings import CONNECTION_OPTIONS
from jetspark.spark.option_reader import STREAMING_WRITE_OPTIONS, Use

_READ: Final = (
    *CONNECTION_OPTIONS,
    "stream",
    "streams",
    "streamPattern",
    "subject",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
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
    Use.READ: (
        *_READ,
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "ledgerBucket",
    ),
    Use.READ_STREAM: (
        *_READ,
        "maxOffsetsPerTrigger",
        "maxBytesPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "onCommit",
        "onRecreate",
        "progressConsumer",
    ),
    Use.WRITE: (*_WRITE, "txnAppId", "txnVersion"),
    Use.WRITE_STREAM: (*_WRITE, "idPrefix", *STREAMING_WRITE_OPTIONS),
}

# Options of Spark's Kafka source and sink that have another name here, in lower case.
KAFKA_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "streams",
    "subscribepattern": "streamPattern",
    "assign": "streams; a stream has no partitions to assign",
    "kafka.group.id": "progressConsumer",
    "groupidprefix": "progressConsumer",
    "startingoffsetsbytimestampstrategy": (
        "nothing: a time after the last message starts with the next one"
    ),
    "fetchoffset.numretries": "nothing: a query waits up to 60 s for its server",
    "fetchoffset.retryintervalms": "nothing: a query waits up to 60 s for its server",
    "kafkaconsumer.polltimeoutms": "nothing: a query waits up to 60 s for its server",
}
KAFKA_SINK_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.bootstrap.servers": "servers",
    "topic": "stream, or streams with a column 'stream'",
    "kafka.acks": "nothing: a row counts once the server has stored it",
    "kafka.enable.idempotence": "delivery",
}
