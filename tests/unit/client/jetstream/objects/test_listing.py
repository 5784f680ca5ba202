"""The list of the objects of a store that changes while it is read."""

import asyncio
from typing import cast

from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.kv.follow import BucketFollow
from jetspark.client.jetstream.objects.info import ObjectInfo, encode_info
from jetspark.client.jetstream.objects.watching import info_pages


class Delivered:
    """What a consumer delivers: meta messages in parts, the last of which ends the list."""

    def __init__(self, *parts: list[ObjectInfo]) -> None:
        self._parts = list(parts)
        self._revision = 0

    @property
    def initial_done(self) -> bool:
        return not self._parts

    async def start(self, *, timeout: float) -> None:
        """Nothing to prepare."""

    async def next_chunk(self, _count: int) -> list[Stored]:
        chunk = []
        for info in self._parts.pop(0):
            self._revision += 1
            chunk.append(Stored(info.name, encode_info(info), self._revision, 0))
        return chunk

    async def stop(self) -> None:
        """Nothing to release."""


def _info(name: str, size: int, *, deleted: bool = False) -> ObjectInfo:
    return ObjectInfo(name=name, bucket="B", nuid=f"{name}{size}", size=size, deleted=deleted)


def test_an_object_that_is_replaced_while_it_is_listed_is_listed_once() -> None:
    """Its new meta message follows the old one: readers of the list got both."""
    delivered = Delivered(
        [_info("a", 1), _info("b", 1), _info("c", 1), _info("b", 2), _info("c", 1, deleted=True)],
        [_info("a", 2), _info("d", 1), _info("d", 1, deleted=True)],
        [_info("d", 2), _info("d", 3), _info("a", 3)],
    )

    async def listed() -> list[tuple[str, int]]:
        pages = info_pages(cast("BucketFollow", delivered), print, timeout=1.0)
        return [(info.name, info.size) async for page in pages for info in page]

    assert asyncio.run(listed()) == [("a", 1), ("b", 2), ("d", 3)]
