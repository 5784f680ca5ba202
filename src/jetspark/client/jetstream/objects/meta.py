"""The meta messages of an object store, and the removal of chunks no longer in use (ADR-20).

Every change is conditional on the message that it was derived from, and is repeated with the newer
one if another client was faster. So concurrent changes never overwrite each other: no object loses
its data to an outdated meta message, and all unused chunks are removed by someone.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.stream import (
    STREAM_INFO,
    STREAM_PURGE,
    PurgeRequest,
    StreamConfig,
    StreamInfoRequest,
)
from jetspark.client.jetstream.api import ApiClient, api_prefix
from jetspark.client.jetstream.direct_get import StreamReader, make_request
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.jetstream_backend import check_exists
from jetspark.client.jetstream.objects.config import STREAM_PREFIX
from jetspark.client.jetstream.objects.info import (
    ObjectInfo,
    decode_info,
    encode_info,
    encode_name,
)
from jetspark.client.jetstream.publishing.publisher import Expect, publish_acked, publish_headers
from jetspark.client.timeouts import Timeout
from jetspark.clock import SystemClock
from jetspark.errors import (
    BucketNotFound,
    MessageNotFound,
    ObjectExists,
    ObjectNotFound,
    ProtocolViolation,
    RequestTimeout,
    StreamNotFound,
    WrongLastSequence,
)

ROLLUP: Final = (("Nats-Rollup", "sub"),)
RENAME_TRIES: Final = 10
TRIES: Final = 3  # for idempotent requests

T = TypeVar("T")

Edit = Callable[[ObjectInfo], ObjectInfo]
Make = Callable[[ObjectInfo | None], ObjectInfo]


class MetaMessages:
    """Reads and writes the metadata of the objects of one store."""

    def __init__(
        self, reader: StreamReader, config: StreamConfig, prefix: str, high_water: HighWater
    ) -> None:
        self._reader = reader
        self._name = reader.stream
        self._bucket = reader.stream.removeprefix(STREAM_PREFIX)
        self._api = reader.api
        self._prefix = prefix
        self._high_water = high_water
        # Where messages are purged: at the origin of a mirror.
        self._purge_api, self._purged = self._api, reader.stream
        mirror = config.mirror
        if mirror is not None:
            self._purged = mirror.name
            if mirror.external is not None and mirror.external.api:
                far = api_prefix("", mirror.external.api)
                self._purge_api = ApiClient(self._api.core, far, self._api.timeout)

    def wanted(self, min_last_seq: int) -> int:
        """The sequence that a read must have reached: the required or the known one."""
        return self._high_water.wanted(self._name, min_last_seq)

    async def find(
        self,
        name: str,
        min_last_seq: int = 0,
        *,
        to_replace: bool = False,
        timeout: Timeout | None,
    ) -> ObjectInfo | None:
        """The meta message of a name, deleted or not; None if there is none.

        Raises ProtocolViolation if it cannot be decoded; with ``to_replace`` returns an object
        without data.
        """
        request = make_request(
            last_by_subject=f"{self._prefix}.M.{encode_name(name)}",
            min_last_seq=self.wanted(min_last_seq),
        )
        try:
            message = await self._reader.get(request, self._api.seconds(timeout))
        except MessageNotFound:
            return None
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None
        self._high_water.note(self._name, message.seq)
        try:
            return decode_info(message.data, message.seq, message.time_ns)
        except ProtocolViolation as error:
            if to_replace:
                return ObjectInfo(name=name, seq=message.seq)
            error.add_note(f"object {name!r}: put it again, or delete it")
            raise

    async def look(self, name: str, *, timeout: Timeout | None) -> ObjectInfo | None:
        """The same for cleaning up, with up to three attempts: requests may be lost."""
        return await again(
            lambda part: self.find(name, to_replace=True, timeout=part), self._api, timeout
        )

    async def write(
        self, info: ObjectInfo, *, expected: int, timeout: Timeout | None
    ) -> ObjectInfo:
        """Write it over the one with sequence ``expected``, 0 for none; WrongLastSequence."""
        subject = f"{self._prefix}.M.{encode_name(info.name)}"
        block = publish_headers(ROLLUP, "", Expect(last_subject_seq=expected), None)
        seconds = self._api.seconds(timeout)
        body = encode_info(info)
        ack = await publish_acked(self._api, subject, block, body, seconds, self._check_exists)
        self._high_water.note(self._name, ack.seq)
        # The server sets the time but does not return it; this is approximately the same.
        now = Timestamp(SystemClock().now_ns())
        return msgspec.structs.replace(info, seq=ack.seq, time_ns=now)

    async def change(
        self,
        name: str,
        make: Make,
        *,
        guess: ObjectInfo | None = None,
        timeout: Timeout | None,
    ) -> tuple[ObjectInfo, ObjectInfo | None]:
        """Write the result of ``make`` for the current message; returns both.

        ``guess`` is the last known message.
        """
        loop = self._api.core.loop
        deadline = loop.time() + self._api.seconds(timeout)
        found = guess or await self.find(name, to_replace=True, timeout=timeout)
        while True:
            expected = 0 if found is None else found.seq
            try:
                return await self.write(make(found), expected=expected, timeout=timeout), found
            except WrongLastSequence as error:
                if loop.time() >= deadline:
                    raise
                reached = error.actual or 0
                found = await self.find(name, reached, to_replace=True, timeout=timeout)

    async def mark_deleted(self, name: str, *, timeout: Timeout | None) -> ObjectInfo:
        """Write a deletion marker, for watchers; returns the previous message. ObjectNotFound."""
        last = ObjectInfo()

        def marker(found: ObjectInfo | None) -> ObjectInfo:
            nonlocal last
            last = self._existing(name, found)
            return deleted(last)

        try:
            await self.change(name, marker, timeout=timeout)
        except RequestTimeout:
            # The answer may be lost although the marker was stored.
            now = await self.look(name, timeout=timeout)
            if now is None or not now.deleted or now.nuid != last.nuid:
                raise
        return last

    async def edit(self, name: str, edit: Edit, *, timeout: Timeout | None) -> ObjectInfo:
        """Change the metadata of an object; ObjectNotFound if it does not exist."""
        stored, _ = await self.change(
            name, lambda found: edit(self._existing(name, found)), timeout=timeout
        )
        return stored

    async def rename(
        self, name: str, target: str, edit: Edit, *, timeout: Timeout | None
    ) -> ObjectInfo:
        """Write it under another name, then a deletion marker under the old one.

        A marker, not a purge: reads with a required sequence see it (ADR-53). If another client
        changed the old one in between, the new one is written again, or withdrawn if it was
        deleted: the data of a name always exists.
        """
        info = self._existing(name, await self.find(name, timeout=timeout))

        def free(found: ObjectInfo | None) -> ObjectInfo:
            if found is not None and not found.deleted:
                raise ObjectExists(info.bucket, target)
            return edit(info)

        stored, _ = await self.change(target, free, timeout=timeout)
        # Other clients remove the data of a name that they overwrite; ours must not be affected.
        own = self._api.nuid.next()
        for tries_left in reversed(range(RENAME_TRIES)):
            marker = msgspec.structs.replace(deleted(info), nuid=own)
            try:
                await self.write(marker, expected=info.seq, timeout=timeout)
            except WrongLastSequence as error:
                newer = await self.find(name, error.actual or 0, timeout=timeout)
                if newer is not None and newer.nuid == own:
                    return stored  # the answer to our marker was lost
                if newer is None or newer.deleted:
                    with suppress(WrongLastSequence):  # another client has taken the name
                        await self.write(deleted(stored), expected=stored.seq, timeout=timeout)
                info = self._existing(name, newer)
                stored = await self.write(edit(info), expected=stored.seq, timeout=timeout)
            except RequestTimeout:
                # Two names for the same data: deleting one would remove it from the other.
                if not tries_left:
                    raise
            else:
                return stored
        raise RequestTimeout(f"object {name!r} kept being changed by other clients: try again")

    async def purge_chunks(self, nuid: str, *, below: int = 0, timeout: Timeout | None) -> int:
        """Remove the data of an object, optionally only below a sequence; the number of chunks."""
        try:
            answer = await self._purge_api.call(
                f"STREAM.PURGE.{self._purged}",
                PurgeRequest(filter=f"{self._prefix}.C.{nuid}", seq=below),
                STREAM_PURGE,
                timeout=timeout,
            )
        except StreamNotFound:
            raise BucketNotFound(self._purged.removeprefix(STREAM_PREFIX)) from None
        return answer.purged

    async def count_chunks(self, nuid: str, *, timeout: Timeout | None) -> int:
        """The number of stored chunks of an object."""
        subject = f"{self._prefix}.C.{nuid}"
        found = await self._purge_api.call(
            f"STREAM.INFO.{self._purged}",
            StreamInfoRequest(subjects_filter=subject),
            STREAM_INFO,
            timeout=timeout,
        )
        return (found.state.subjects or {}).get(subject, 0)

    async def _check_exists(self, seconds: float) -> None:
        """A meta message had no responders: raise BucketNotFound if the store does not exist."""
        await check_exists(self._api, self._name, self._bucket, seconds)

    def _existing(self, name: str, found: ObjectInfo | None) -> ObjectInfo:
        if found is None or found.deleted:
            raise ObjectNotFound(self._bucket, name)
        return found


async def again(
    call: Callable[[float], Awaitable[T]], api: ApiClient, timeout: Timeout | None
) -> T:
    """Try up to three times within ``timeout``; raises the last RequestTimeout."""
    part = api.seconds(timeout) / TRIES
    for _ in range(TRIES - 1):
        with suppress(RequestTimeout):
            return await call(part)
    return await call(part)


def deleted(info: ObjectInfo) -> ObjectInfo:
    """The deletion marker of an object."""
    return msgspec.structs.replace(info, deleted=True, size=0, chunks=0, digest="")
