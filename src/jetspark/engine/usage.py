"""Storage limits and reservations of the accounts of a server (wire.md, API requests).

Reservations are the ``max_bytes`` of streams: one that does not fit is refused when the stream is
created. Usage is counted in staged bytes, per stream, when a group is committed or a guarded
stream accepts a message. A stream is *guarded* while a limit can refuse its messages: its account
has one, or the server is over its limit. All others are never checked.
"""

from collections.abc import Callable
from typing import Protocol

from jetspark.api.account import AccountLimits
from jetspark.api.enums import Storage
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.stream import Stream
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.store.format.record import OVERHEAD

NO_LIMIT = -1


class Usage(Protocol):
    """The usage of an account, as the server's usage needs it."""

    def promised(self, storage: Storage) -> int:
        """Return how much of the server's limit the account may use."""
        ...

    def server_changed(self, storage: Storage) -> None:
        """Handle that the server exceeded its limit, or no longer does."""
        ...


class ServerUsage:
    """The limits of the whole server, shared by its accounts; -1 is no limit."""

    def __init__(self, max_memory: int = NO_LIMIT, max_storage: int = NO_LIMIT) -> None:
        self.limits: dict[Storage, int] = {Storage.MEMORY: max_memory, Storage.FILE: max_storage}
        self.used: dict[Storage, int] = dict.fromkeys(self.limits, 0)
        self.accounts: list[Usage] = []
        # Called at each crossing of a limit, in addition to the accounts.
        self._watchers: list[Callable[[Storage], None]] = []

    def watch(self, changed: Callable[[Storage], None]) -> None:
        """Set the function to call at each crossing of a limit."""
        self._watchers.append(changed)

    def is_over(self, storage: Storage) -> bool:
        """Return whether the limit is exceeded: nothing more is accepted then."""
        return 0 <= self.limits[storage] < self.used[storage]

    def has_room(self, storage: Storage, size: int) -> bool:
        """Return whether this much more can be reserved."""
        limit = self.limits[storage]
        promised = sum(account.promised(storage) for account in self.accounts)
        return limit < 0 or promised + size <= limit

    def add(self, storage: Storage, size: int) -> None:
        """Count what was stored, or removed."""
        if self.limits[storage] < 0:
            self.used[storage] += size
            return
        before = self.is_over(storage)
        self.used[storage] += size
        self._notify(storage, before)

    def set_limit(self, storage: Storage, limit: int) -> None:
        """Apply another limit from now on; what is stored is kept."""
        before = self.is_over(storage)
        self.limits[storage] = limit
        self._notify(storage, before)

    def _notify(self, storage: Storage, before: bool) -> None:
        if self.is_over(storage) != before:
            for account in self.accounts:
                account.server_changed(storage)
            for changed in self._watchers:
                changed(storage)


class AccountUsage:
    """The limits of one account, and the usage of its streams."""

    def __init__(
        self, limits: AccountLimits | None = None, server: ServerUsage | None = None
    ) -> None:
        self.limits: AccountLimits = limits or AccountLimits()
        self.used: dict[Storage, int] = {Storage.MEMORY: 0, Storage.FILE: 0}
        self._server = server or ServerUsage()
        self._server.accounts.append(self)
        self._streams: dict[Stream, None] = {}
        # What each stream reserves, and the sums: a creation must not cost more the more exist.
        self._reserves: dict[Stream, int] = {}
        self._reserved: dict[Storage, int] = dict.fromkeys(self.used, 0)
        # The ``max_bytes`` that a stream gives up by a change that the disk may fail to store.
        self._kept: dict[Stream, int] = {}

    def limit(self, storage: Storage) -> int:
        """Return how much the account may store; -1: no limit of its own."""
        limits = self.limits
        return limits.max_memory if storage == Storage.MEMORY else limits.max_storage

    def change(self, limits: AccountLimits) -> None:
        """Apply other limits from now on; what is stored is kept."""
        self.limits = limits
        for storage in self.used:
            self.server_changed(storage)

    # Promises ----------------------------------------------------------------------------------

    def admit(self, config: StreamConfig, old: StreamConfig | None = None) -> None:
        """Raise Refusal if a stream cannot be created, or changed, within the limits."""
        limits = self.limits
        if old is None and 0 <= limits.max_streams <= len(self._streams):
            raise Refusal(ErrCode.STREAMS_LIMIT_REACHED)
        in_memory = config.storage == Storage.MEMORY
        # A stream without a limit needs at least some room, as in nats-server.
        size = max(config.max_bytes, 1) if old is None else config.max_bytes - old.max_bytes
        if (old is None or size > 0) and not self._has_room(config.storage, size):
            raise Refusal(ErrCode.MEMORY_EXCEEDED if in_memory else ErrCode.STORAGE_EXCEEDED)
        if limits.max_bytes_required and config.max_bytes <= 0:
            raise Refusal(ErrCode.STREAM_MAX_BYTES_REQUIRED)
        largest = limits.memory_max_stream_bytes if in_memory else limits.storage_max_stream_bytes
        if 0 < largest < config.max_bytes:
            raise Refusal(ErrCode.STREAM_MAX_BYTES_EXCEEDED)

    def check_room(self, storage: Storage, size: int) -> None:
        """Raise Refusal if the account or the server has no room for this many more bytes."""
        if self._server.is_over(storage):
            raise Refusal(ErrCode.INSUFFICIENT_RESOURCES)
        if 0 <= self.limit(storage) < self.used[storage] + size:
            raise Refusal(ErrCode.ACCOUNT_RESOURCES_EXCEEDED)

    def reserved(self, storage: Storage) -> int:
        """Return the sum of the streams' ``max_bytes``."""
        return self._reserved[storage]

    def reserve(self, stream: Stream) -> None:
        """Reserve what the configuration of a stream says, from now on."""
        if stream not in self._streams:
            return  # it is hidden, or was removed
        size = max(stream.config.max_bytes, self._kept.get(stream, 0), 0)
        self._reserved[stream.config.storage] += size - self._reserves.get(stream, 0)
        self._reserves[stream] = size

    def keep(self, stream: Stream, size: int) -> None:
        """Keep the previous ``max_bytes`` of a stream whose change may still fail."""
        self._kept[stream] = size
        self.reserve(stream)

    def settle(self, stream: Stream) -> None:
        """Settle a change that is durable or failed: the configuration counts again."""
        self._kept.pop(stream, None)
        self.reserve(stream)

    def frees(self, stream: Stream) -> bool:
        """Return whether a change of a stream frees room once it is durable."""
        return self._kept.get(stream, 0) > max(stream.config.max_bytes, 0)

    def promised(self, storage: Storage) -> int:
        """Return how much of the server's limit the account may use."""
        limit = self.limit(storage)
        return limit if limit > 0 else self.reserved(storage)

    def _has_room(self, storage: Storage, size: int) -> bool:
        limit = self.limit(storage)
        if limit >= 0:
            # The account's whole limit was subtracted from the server's at the start.
            return self.reserved(storage) + size <= limit
        return self._server.has_room(storage, size)

    # Use ---------------------------------------------------------------------------------------

    def add(self, stream: Stream) -> None:
        """Add a stream."""
        self._streams[stream] = None
        self.reserve(stream)
        self.note(stream)
        self._guard(stream)

    def note(self, stream: Stream) -> None:
        """Count what a stream has now, including staged messages."""
        self.count(stream.config.storage, int(stream.take_growth()))

    def remove(self, stream: Stream) -> None:
        """Remove a stream."""
        self.count(stream.config.storage, -int(stream.take_counted()))
        del self._streams[stream]
        self._reserved[stream.config.storage] -= self._reserves.pop(stream)
        self._kept.pop(stream, None)

    def count(self, storage: Storage, size: int) -> None:
        """Count by how much streams have grown (``Stream.take_growth``)."""
        if size:
            self.used[storage] += size
            self._server.add(storage, size)

    def server_changed(self, storage: Storage) -> None:
        """Check every stream again: the server exceeded its limit, or no longer does."""
        for stream in self._streams:
            if stream.config.storage == storage:
                self._guard(stream)

    def _guard(self, stream: Stream) -> None:
        storage = stream.config.storage
        guarded = self.limit(storage) >= 0 or self._server.is_over(storage)
        if guarded or stream.checks.quota is not None:
            stream.guard(Quota(self, stream) if guarded else None)

    def problem(self, stream: Stream, size: int) -> bytes:
        """Return the error for a message of this size; empty if it may be stored."""
        self.note(stream)
        storage = stream.config.storage
        limit = self.limit(storage)
        if self._server.is_over(storage):
            return error_body(ErrCode.INSUFFICIENT_RESOURCES)
        if 0 <= limit < self.used[storage] + size:
            return error_body(ErrCode.ACCOUNT_RESOURCES_EXCEEDED)
        return b""


class Quota:
    """The check of a guarded stream before it accepts a message."""

    def __init__(self, usage: AccountUsage, stream: Stream) -> None:
        self._usage = usage
        self._stream = stream

    def problem(self, subject: bytes, headers_length: int, body_length: int) -> bytes:
        """Return the error for a message; empty if it may be stored."""
        length = OVERHEAD + len(subject) + headers_length + body_length
        size = int(self._stream.log.codec.size_of(length, headers_length))
        return self._usage.problem(self._stream, size)
