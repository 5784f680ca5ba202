"""Errors between the engine and the disk."""

from __future__ import annotations

from typing import Final

from jetspark.errors.base import Error

__all__ = [
    "CorruptRecord",
    "ReadFailed",
    "StorageFault",
    "StoreClosed",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "UnknownRecordKind",
    "WrongStoreFormat",
]


class StorageFault(Error):
    """Base class of the store's errors."""

    @property
    def public(self) -> str:
        """The text for clients, without paths of the store."""
        return str(self)


class StoreFull(StorageFault):
    """No space for the write. Reads continue; writes resume once space is available."""


class StoreClosed(StorageFault):
    """The store was closed while it was in use."""


class StoreReadOnly(StorageFault):
    """A write failed and may have left damage: read-only until the store has been verified."""


class StoreLocked(StorageFault):
    """Another process has the store directory open."""


class WrongStoreFormat(StorageFault):
    """The directory contains something other than a store of this version."""


class CorruptRecord(StorageFault):
    """Stored bytes fail their checksum."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path: Final = path
        self.offset: Final = offset
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.offset}: {self.reason}"

    @property
    def public(self) -> str:
        """The text for clients, without paths of the store."""
        return self.reason


class ReadFailed(StorageFault):
    """The disk fails to read a message; nothing is known about its bytes.

    Not corruption. No reader may skip the message because of it; the read is retried.
    """

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(seq, reason)
        self.seq: Final = seq
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"message {self.seq} cannot be read now: {self.reason}"


class UnknownRecordKind(CorruptRecord):
    """A record of an unknown kind with a valid checksum: a newer version wrote it."""
