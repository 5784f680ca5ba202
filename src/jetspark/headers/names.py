"""The header names that servers and clients interpret, grouped by the document they are from."""

from typing import Final

# Publishing (wire.md, Publishing).
MSG_ID: Final = b"Nats-Msg-Id"
EXPECTED_STREAM: Final = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE: Final = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID: Final = b"Nats-Expected-Last-Msg-Id"
EXPECTED_PREFIX: Final = b"Nats-Expected-"
ROLLUP: Final = b"Nats-Rollup"
TTL: Final = b"Nats-TTL"
INCR: Final = b"Nats-Incr"
COUNTER_SOURCES: Final = b"Nats-Counter-Sources"
STREAM_SOURCE: Final = b"Nats-Stream-Source"
MARKER_REASON: Final = b"Nats-Marker-Reason"

# Scheduled messages (wire.md, Publishing).
SCHEDULE: Final = b"Nats-Schedule"
SCHEDULE_TARGET: Final = b"Nats-Schedule-Target"
SCHEDULE_SOURCE: Final = b"Nats-Schedule-Source"
SCHEDULE_TTL: Final = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP: Final = b"Nats-Schedule-Rollup"
SCHEDULE_TIME_ZONE: Final = b"Nats-Schedule-Time-Zone"
SCHEDULE_NEXT: Final = b"Nats-Schedule-Next"
SCHEDULER: Final = b"Nats-Scheduler"

# Batches: ADR-50, and its fast ingest in the header dialect (decisions.md).
BATCH_ID: Final = b"Nats-Batch-Id"
BATCH_SEQUENCE: Final = b"Nats-Batch-Sequence"
BATCH_COMMIT: Final = b"Nats-Batch-Commit"
FAST_BATCH_ID: Final = b"Nats-Fast-Batch-Id"
BATCH_GAP: Final = b"Nats-Batch-Gap"
FLOW: Final = b"Nats-Flow"

# Stored messages in replies: ADR-31 direct get, republish (wire.md, Publishing).
STREAM: Final = b"Nats-Stream"
SUBJECT: Final = b"Nats-Subject"
SEQUENCE: Final = b"Nats-Sequence"
TIME_STAMP: Final = b"Nats-Time-Stamp"
LAST_SEQUENCE: Final = b"Nats-Last-Sequence"
NUM_PENDING: Final = b"Nats-Num-Pending"
UP_TO_SEQUENCE: Final = b"Nats-UpTo-Sequence"
MSG_SIZE: Final = b"Nats-Msg-Size"

# Read after write: ADR-53 and our proof of it (decisions.md).
MIN_LAST_SEQUENCE: Final = b"Nats-Min-Last-Sequence"
FORWARDED: Final = b"Nats-Forwarded"

# Consumers (wire.md, Consumers).
PENDING_MESSAGES: Final = b"Nats-Pending-Messages"
PENDING_BYTES: Final = b"Nats-Pending-Bytes"
LAST_CONSUMER: Final = b"Nats-Last-Consumer"
LAST_STREAM: Final = b"Nats-Last-Stream"
CONSUMER_STALLED: Final = b"Nats-Consumer-Stalled"
PIN_ID: Final = b"Nats-Pin-Id"

# API requests (wire.md, API requests) and their replies.
REQUIRED_API_LEVEL: Final = b"Nats-Required-Api-Level"
RESPONSE_TYPE: Final = b"Nats-Response-Type"
REQUEST_INFO: Final = b"Nats-Request-Info"
SERVER_XKEY: Final = b"Nats-Server-Xkey"

# Message tracing.
TRACE_DEST: Final = b"Nats-Trace-Dest"
TRACE_ONLY: Final = b"Nats-Trace-Only"
TRACE_HOP: Final = b"Nats-Trace-Hop"
TRACE_ORIGIN_ACCOUNT: Final = b"Nats-Trace-Origin-Account"

# Key-value: ADR-8.
KV_OPERATION: Final = b"KV-Operation"

NATS_PREFIX: Final = b"Nats-"
"""The prefix of names that servers reserve; a message without any skips all checks."""
