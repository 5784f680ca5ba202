"""Exceptions of the client other than API errors."""

from __future__ import annotations

from typing import Any, Final

from jetspark.errors.base import Error

__all__ = [
    "AlreadyClaimed",
    "AlreadyEnded",
    "AuthorizationFailed",
    "BackupFailed",
    "BadCredentials",
    "BadName",
    "BadSubject",
    "BucketExists",
    "BucketNotFound",
    "BufferFull",
    "CodecFailed",
    "ConnectFailed",
    "ConnectionClosed",
    "ConsumerDeleted",
    "ConsumerGap",
    "DigestMismatch",
    "HeartbeatMissed",
    "InvalidState",
    "KeyExists",
    "KeyNotFound",
    "NoResponders",
    "NotJetStreamMessage",
    "NotSupported",
    "ObjectExists",
    "ObjectIncomplete",
    "ObjectNotFound",
    "PayloadTooLarge",
    "PermissionsViolation",
    "PinIdMismatch",
    "ProtocolViolation",
    "PullRefused",
    "ReadOnly",
    "RequestTimeout",
    "ServerRefused",
    "SlowConsumer",
    "StatusReceived",
    "SubscribeRefused",
]


class ConnectionClosed(Error):
    """The connection is closed, or was closed while the call was waiting."""

    transient = True


class InvalidState(Error):
    """Not possible in the current state: not started or committed yet, not held, or in use."""


class AlreadyClaimed(InvalidState):
    """A callback receives what the call would read: pass no callback, or do not read."""


class AlreadyEnded(InvalidState):
    """Already ended: a subscription, watch, iteration, reader, batch or transaction."""


class ConnectFailed(Error):
    """No server could be reached; the message lists the error of each."""

    transient = True


class AuthorizationFailed(ConnectFailed):
    """A server rejected the credentials."""

    transient = False


class BadCredentials(ConnectFailed, ValueError):
    """An invalid seed, key or credentials file; nothing was sent."""

    transient = False


class ServerRefused(Error):
    """The server sent ``-ERR`` about a subscription or publish; the connection stays open."""


class PermissionsViolation(ServerRefused):
    """The user may not publish or subscribe to that subject."""


class ProtocolViolation(Error):
    """The peer sent bytes that violate the protocol."""


class BufferFull(Error):
    """Publishing is faster than the connection: flush, or raise the limit."""


class PayloadTooLarge(Error, ValueError):
    """The message is larger than the server's ``max_payload``; nothing was sent."""

    def __init__(self, size: int, max_payload: int) -> None:
        super().__init__(size, max_payload)
        self.size: Final = size
        self.max_payload: Final = max_payload

    def __str__(self) -> str:
        return (
            f"the message has {self.size} bytes with its headers, "
            f"the server's max_payload is {self.max_payload}"
        )


class BadSubject(Error, ValueError):
    """A subject that is not valid for the call."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(subject, reason)
        self.subject: Final = subject
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"bad subject {self.subject!r}: {self.reason}"


class BadName(Error, ValueError):
    """An invalid name of a stream, consumer, bucket, key or object; ``kind`` says which."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(kind, name, reason)
        self.kind: Final = kind
        self.name: Final = name
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"bad {self.kind} name {self.name!r}: {self.reason}"


class RequestTimeout(Error, TimeoutError):
    """No answer arrived in time. It is unknown whether the request had an effect."""

    transient = True


class NoResponders(Error):
    """No subscriber on the subject of the request (status 503)."""

    transient = True  # a stream that has no leader yet, or a responder that restarts

    def __init__(self, subject: str = "") -> None:
        super().__init__(subject)
        self.subject: Final = subject

    def __str__(self) -> str:
        return f"no responders on {self.subject!r}" if self.subject else "no responders"


class SlowConsumer(Error):
    """A subscription did not keep up and messages were dropped; ``dropped`` counts them."""

    def __init__(self, subject: str, dropped: int) -> None:
        super().__init__(subject, dropped)
        self.subject: Final = subject
        self.dropped: Final = dropped

    def __str__(self) -> str:
        return f"slow consumer on {self.subject!r}: {self.dropped} messages dropped"


class NotSupported(Error):
    """The server, or the stream as configured, does not support this; the message says why."""


class ReadOnly(Error):
    """The handle was opened read-only."""


class AmbiguousSubject(Error):
    """Several streams match ``subject``, which has wildcards; ``streams`` are their names."""

    def __init__(self, subject: str, streams: tuple[str, ...]) -> None:
        super().__init__(subject, streams)
        self.subject: Final = subject
        self.streams: Final = streams

    def __str__(self) -> str:
        names = ", ".join(self.streams)
        return f"several streams match {self.subject!r}: {names}; pass a stream name"


class SubscribeRefused(Error):
    """The existing consumer does not match the requested configuration (ADR-15)."""


class HeartbeatMissed(Error):
    """Neither a message nor a heartbeat arrived for three intervals (ADR-15)."""


class ConsumerGap(Error):
    """Consumer sequences are missing: ``got`` arrived instead of ``expected`` (ADR-15)."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(expected, got)
        self.expected: Final = expected
        self.got: Final = got

    def __str__(self) -> str:
        return f"got consumer sequence {self.got} instead of {self.expected}"


class NotJetStreamMessage(Error, ValueError):
    """The message has no JetStream acknowledgement subject (ADR-15, JSAck)."""


class StatusReceived(Error):
    """A status message that no other class covers."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code: Final = code
        self.text: Final = text

    def __str__(self) -> str:
        return f"status {self.code} {self.text}".rstrip()


class PullRefused(StatusReceived):
    """A pull request was refused or ended early (status 400 or 409)."""


class ConsumerDeleted(PullRefused):
    """The consumer was deleted while a pull request was waiting."""


class PinIdMismatch(StatusReceived):
    """Another client is pinned to the priority group (status 423)."""


class BucketNotFound(Error, LookupError):
    """No key-value bucket or object store has that name."""

    def __init__(self, bucket: str) -> None:
        super().__init__(bucket)
        self.bucket: Final = bucket

    def __str__(self) -> str:
        return f"bucket {self.bucket!r} not found"


class BucketExists(Error):
    """A bucket of that name exists with another configuration; ``detail`` says what differs."""

    def __init__(self, bucket: str, detail: str = "") -> None:
        super().__init__(bucket, detail)
        self.bucket: Final = bucket
        self.detail: Final = detail

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"bucket {self.bucket!r} exists with another configuration{detail}"


class KeyNotFound(Error, LookupError):
    """The key has no value; ``revision`` is that of its delete marker, or 0 if it has none."""

    def __init__(self, bucket: str, key: str, revision: int = 0) -> None:
        super().__init__(bucket, key, revision)
        self.bucket: Final = bucket
        self.key: Final = key
        self.revision: Final = revision

    def __str__(self) -> str:
        deleted = f" (deleted at revision {self.revision})" if self.revision else ""
        return f"key {self.key!r} not found in bucket {self.bucket!r}{deleted}"


class KeyExists(Error):
    """The key already has a value; ``revision`` is its revision, or 0 if that is unknown."""

    def __init__(self, bucket: str, key: str, revision: int = 0) -> None:
        super().__init__(bucket, key, revision)
        self.bucket: Final = bucket
        self.key: Final = key
        self.revision: Final = revision

    def __str__(self) -> str:
        at = f" at revision {self.revision}" if self.revision else ""
        return f"key {self.key!r} exists in bucket {self.bucket!r}{at}"


class CodecFailed(Error, ValueError):
    """A stored key or value cannot be decoded with the codec, or as the type, of this handle."""


class ObjectNotFound(Error, LookupError):
    """No object has that name."""

    def __init__(self, bucket: str, name: str) -> None:
        super().__init__(bucket, name)
        self.bucket: Final = bucket
        self.name: Final = name

    def __str__(self) -> str:
        return f"object {self.name!r} not found in bucket {self.bucket!r}"


class ObjectExists(Error):
    """An object of that name exists: delete it first."""

    def __init__(self, bucket: str, name: str) -> None:
        super().__init__(bucket, name)
        self.bucket: Final = bucket
        self.name: Final = name

    def __str__(self) -> str:
        return f"object {self.name!r} exists in bucket {self.bucket!r}: delete it first"


class FolderRefused(Error, ValueError):
    """A folder cannot be copied to or from an object store; nothing was changed."""

    SHOWN = 3

    def __init__(self, folder: str, problems: list[str]) -> None:
        super().__init__(folder, problems)
        self.folder: Final = folder
        self.problems: Final = problems

    def __str__(self) -> str:
        more = len(self.problems) - self.SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        return (
            f"nothing was copied between the folder {self.folder!r} and the object store: "
            f"{'; '.join(self.problems[: self.SHOWN])}{rest}"
        )


class BackupFailed(Error):
    """A backup cannot be written or read: the folder does not have the expected content."""


class DigestMismatch(Error):
    """The bytes of an object do not match its stored digest."""

    def __init__(self, bucket: str, name: str) -> None:
        super().__init__(bucket, name)
        self.bucket: Final = bucket
        self.name: Final = name

    def __str__(self) -> str:
        return f"object {self.name!r} in bucket {self.bucket!r} does not match its stored digest"


class ObjectIncomplete(DigestMismatch):
    """Chunks of an object are missing: only ``found`` of its ``size`` bytes exist."""

    def __init__(self, bucket: str, name: str, found: int, size: int) -> None:
        super().__init__(bucket, name)
        self.args: tuple[Any, ...] = (bucket, name, found, size)
        self.found: Final = found
        self.size: Final = size

    def __str__(self) -> str:
        return (
            f"object {self.name!r} in bucket {self.bucket!r} is damaged: only {self.found} of its "
            f"{self.size} bytes exist; put it again, or delete it"
        )
