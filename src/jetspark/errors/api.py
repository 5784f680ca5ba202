"""API errors that callers handle: one class per reaction, not per code."""

from __future__ import annotations

from jetspark.errors.base import ApiError

__all__ = [
    "ApiLevelRequired",
    "BadRequest",
    "BatchDuplicate",
    "BatchIncomplete",
    "BatchNotEnabled",
    "BatchRejected",
    "BatchTooLarge",
    "ConsumerExists",
    "ConsumerNotFound",
    "ExpectationFailed",
    "InsufficientResources",
    "JetStreamNotEnabled",
    "MessageNotFound",
    "MessageTooLarge",
    "MinLastSequence",
    "NotFound",
    "StoreFailed",
    "StreamExists",
    "StreamFull",
    "StreamNotFound",
    "StreamSealed",
    "SubjectsOverlap",
    "TemporarilyUnavailable",
    "TooManyBatches",
    "TooManyRequests",
    "TooManyResults",
    "WrongLastMsgId",
    "WrongLastSequence",
    "WrongStream",
]


class BadRequest(ApiError, err_codes=(10003, 10025, 10038)):
    """The server could not read the request, or it contradicts itself."""


class JetStreamNotEnabled(ApiError, err_codes=(10039, 10076)):
    """JetStream is not enabled on the server or for this account."""


class NotFound(ApiError):
    """The requested item does not exist."""


class StreamNotFound(NotFound, err_codes=(10059,)):
    """No stream has that name."""


class ConsumerNotFound(NotFound, err_codes=(10014, 10149)):
    """No consumer has that name."""


class MessageNotFound(NotFound, err_codes=(10037, 10043)):
    """The stream does not have the message."""


class StreamExists(ApiError, err_codes=(10058, 10130)):
    """A stream of that name exists with another configuration."""


class SubjectsOverlap(ApiError, err_codes=(10065,)):
    """Another stream already stores some of these subjects."""


class ConsumerExists(ApiError, err_codes=(10013, 10105, 10148)):
    """A consumer of that name exists, with another configuration or with an active subscriber."""


class ExpectationFailed(ApiError):
    """A ``Nats-Expected-*`` header did not hold, and nothing was stored."""


class WrongLastSequence(ExpectationFailed, err_codes=(10071, 10164)):
    """An expected-last-sequence check failed; ``actual`` is set if the server reports it."""

    @property
    def actual(self) -> int | None:
        """The sequence on the server; None for 10164, of batches and clusters, which lacks it."""
        _, _, tail = self.description.partition("wrong last sequence: ")
        return int(tail) if tail.isascii() and tail.isdecimal() else None


class WrongLastMsgId(ExpectationFailed, err_codes=(10070,)):
    """The last message of the stream has another ``Nats-Msg-Id``."""


class WrongStream(ExpectationFailed, err_codes=(10060,)):
    """The subject belongs to another stream than the one expected."""


class MinLastSequence(ApiError, err_codes=(10180,)):
    """No copy reached ``min_last_seq`` in time (ADR-53). The server has waited: try again."""


class ApiLevelRequired(ApiError, err_codes=(10185,)):
    """The request needs a newer server (``Nats-Required-Api-Level``)."""


class MessageTooLarge(ApiError, err_codes=(10054, 10097)):
    """The message or its headers are larger than the stream allows."""


class StreamSealed(ApiError, err_codes=(10109,)):
    """The stream is sealed: it is read-only."""


class StoreFailed(ApiError, err_codes=(10077,)):
    """The stream could not store the message: check the server's disk and its log."""

    @classmethod
    def _of_description(cls, description: str) -> type[ApiError]:
        """A limit that was reached has the same code, and its own text."""
        return StreamFull if description.startswith("maximum ") else cls


class StreamFull(ApiError):
    """A limit of a stream with ``discard: new`` was reached: messages, bytes, or per subject.

    Remove messages, raise ``max_msgs``, ``max_bytes`` or ``max_msgs_per_subject``, or let the
    stream discard old ones.
    """


class InsufficientResources(ApiError, err_codes=(10002, 10023, 10028, 10047)):
    """The server or the account has no space left."""


class TooManyRequests(ApiError, err_codes=(10167,)):
    """The server is overloaded; try again later."""

    transient = True


class TemporarilyUnavailable(ApiError, err_codes=(10008, 10118, 10119, 10158, 10163)):
    """Unavailable now: no leader yet, an asset is offline, or the message id is being stored."""

    transient = True


class TooManyResults(ApiError):
    """A ``multi_last`` get matched more subjects than one answer may have (ADR-31, status 413)."""


class BatchRejected(ApiError, err_codes=(10175, 10177, 10179, 10200, 10202, 10206, 10207)):
    """The server refused an atomic or fast batch (ADR-50)."""


class BatchNotEnabled(BatchRejected, err_codes=(10174, 10205)):
    """The stream does not allow such batches: set ``allow_atomic`` or ``allow_batched``."""


class BatchIncomplete(BatchRejected, err_codes=(10176, 10208)):
    """Messages of the batch were lost, or it was abandoned: send the whole batch again."""

    transient = True


class BatchTooLarge(BatchRejected, err_codes=(10199,)):
    """The batch has more messages than the server allows: make it smaller."""


class BatchDuplicate(BatchRejected, err_codes=(10201,)):
    """A message id of the batch is already stored, or occurs twice in the batch."""


class TooManyBatches(BatchRejected, err_codes=(10210, 10211)):
    """Too many batches are open on the stream or the server: try again later."""

    transient = True
