"""What can go wrong between the engine and the disk."""

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
    """Root of the store's errors."""

    @property
    def public(self) -> str:
        """The text for clients, who need not know where the store lies."""
        return str(self)


class StoreFull(StorageFault):
    """There is no space for the write. Reading goes on; writing resumes when there is space."""


class StoreClosed(StorageFault):
    """The store was closed while somebody still used it."""


class StoreReadOnly(StorageFault):
    """A write failed and may have left damage: read-only until the store was verified."""


class StoreLocked(StorageFault):
    """Another process has the store directory open."""


class WrongStoreFormat(StorageFault):
    """The directory holds something else than a store of this version."""


class CorruptRecord(StorageFault):
    """Stored bytes do not check."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(path, offset, reason)
        self.path: Final = path
        self.offset: Final = offset
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.offset}: {self.reason}"

    @property
    def public(self) -> str:
        """The text for clients, who need not know where the store lies."""
        return self.reason


class ReadFailed(StorageFault):
    """The disk refuses to read a message now: nothing is known about its bytes.

    Not damage. Nobody may go past the message for it; reading is tried again.
    """

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(seq, reason)
        self.seq: Final = seq
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"message {self.seq} cannot be read now: {self.reason}"


class UnknownRecordKind(CorruptRecord):
    """A record checks but its kind is unknown: a newer version wrote it."""
