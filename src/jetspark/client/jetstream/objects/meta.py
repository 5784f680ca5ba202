"""The meta messages of an object store, and the removal of what they no longer name (ADR-20)."""

# Every call has a timeout argument (design.md, "The client").

from typing import Final

import msgspec

from jetspark.api.stream import STREAM_PURGE, PurgeRequest
from jetspark.client.jetstream.api import ApiClient, api_prefix
from jetspark.client.jetstream.direct_get import make_request
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.objects.info import (
    ObjectInfo,
    decode_info,
    encode_info,
    encode_name,
)
from jetspark.client.jetstream.publish import Expect, publish_acked, publish_headers
from jetspark.client.jetstream.streams import Stream
from jetspark.errors import MessageNotFound, WrongLastSequence

ROLLUP: Final = (("Nats-Rollup", "sub"),)


class MetaMessages:
    """Reads and writes what is known about the objects of one store."""

    def __init__(self, stream: Stream, prefix: str, high_water: HighWater) -> None:
        self._stream = stream
        self._api = stream.reader.api
        self._prefix = prefix
        self._high_water = high_water
        # Where messages are removed: at the origin of a mirror.
        self._purge_api, self._purged = self._api, stream.name
        mirror = stream.config.mirror
        if mirror is not None:
            self._purged = mirror.name
            if mirror.external is not None and mirror.external.api:
                far = api_prefix("", mirror.external.api)
                self._purge_api = ApiClient(self._api.core, far, self._api.timeout)

    def wanted(self, min_last_seq: int) -> int:
        """What a read must have reached: what was asked for, or what this handle knows."""
        return max(min_last_seq, self._high_water.wanted(self._stream.name))

    async def find(
        self, name: str, min_last_seq: int = 0, *, timeout: float | None
    ) -> ObjectInfo | None:
        """The meta message of a name, deleted or not; None when there is none."""
        request = make_request(
            last_by_subject=f"{self._prefix}.M.{encode_name(name)}",
            min_last_seq=self.wanted(min_last_seq),
        )
        try:
            message = await self._stream.reader.get(request, self._api.seconds(timeout))
        except MessageNotFound:
            return None
        self._high_water.note(self._stream.name, message.seq)
        return decode_info(message.data, message.seq, message.time_ns)

    async def write(
        self, info: ObjectInfo, *, expected: int | None = None, timeout: float | None
    ) -> ObjectInfo:
        """Write it over the one before; if that has the sequence ``expected``, when given."""
        subject = f"{self._prefix}.M.{encode_name(info.name)}"
        expect = None if expected is None else Expect(last_subject_seq=expected)
        block = publish_headers(ROLLUP, "", expect, None)
        seconds = self._api.seconds(timeout)
        ack = await publish_acked(self._api, subject, block, encode_info(info), seconds)
        self._high_water.note(self._stream.name, ack.seq)
        return msgspec.structs.replace(info, seq=ack.seq)

    async def replace(
        self, info: ObjectInfo, known: ObjectInfo | None, *, timeout: float | None
    ) -> tuple[ObjectInfo, ObjectInfo | None]:
        """Write it over whatever is there, which is returned too; ``known`` is a guess.

        Of two writers at once each learns what it replaced, so that all chunks find somebody
        who removes them.
        """
        loop = self._api.core.loop
        deadline = loop.time() + self._api.seconds(timeout)
        while True:
            expected = 0 if known is None else known.seq
            try:
                return await self.write(info, expected=expected, timeout=timeout), known
            except WrongLastSequence as error:
                if loop.time() >= deadline:
                    raise
                known = await self.find(info.name, error.actual or 0, timeout=timeout)

    async def purge_chunks(self, nuid: str, *, timeout: float | None) -> None:
        """Remove the data of an object."""
        await self._purge(f"C.{nuid}", timeout)

    async def purge_name(self, name: str, *, timeout: float | None) -> None:
        """Remove a meta message without leaving a marker: the object has another name now."""
        await self._purge(f"M.{encode_name(name)}", timeout)

    async def _purge(self, tail: str, timeout: float | None) -> None:
        await self._purge_api.call(
            f"STREAM.PURGE.{self._purged}",
            PurgeRequest(filter=f"{self._prefix}.{tail}"),
            STREAM_PURGE,
            timeout=timeout,
        )
