"""Deletions: removes from a copy what the leader no longer has.

Mirrors copy messages, not deletes (wire.md, Mirrors and sources). Limits remove the same messages
here as there; the rest is found by comparison: a stream whose first sequence moved has lost its
front, and one with fewer messages at the same last sequence has lost some in between, which it can
list. ADR-53 guarantees nothing about deletes ("requests can flip"); here they stop flipping.
"""

import asyncio
import enum
import logging
from typing import Final

from jetspark.api.stream import STREAM_INFO, StreamInfo, StreamInfoRequest
from jetspark.client.jetstream.api import ApiClient
from jetspark.replica.copied_stream import CopiedStream
from jetspark.replica.local import LocalStreams

log: logging.Logger = logging.getLogger("jetspark.replica")

# Rounds of checking the list of streams before a difference counts as permanent.
ROUNDS: Final = 2
# More deleted messages than this are not requested one by one: the stream is copied again.
NAMED_MAX: Final = 500_000
STEP: Final = 2_000


class Outcome(enum.Enum):
    """The result of comparing a copy with its origin."""

    SAME = enum.auto()  # nothing is left that the leader has removed
    LATER = enum.auto()  # they cannot be compared now, or only in part
    REMAKE = enum.auto()  # it must be copied again


class Deletions:
    """Follows deletes and purges of the leader."""

    def __init__(self, api: ApiClient, local: LocalStreams) -> None:
        self._api = api
        self._local = local

    async def follow(
        self, copied: CopiedStream, info: StreamInfo, *, now: bool = False, reached: int = 0
    ) -> Outcome:
        """Remove what the leader no longer has.

        ``now``: do not wait whether a difference is permanent. ``reached``: what was removed up to
        here must be removed once the copy has reached it, even if the stream never becomes idle.
        """
        stream = self._local.find(copied.name)
        if stream is None or stream.log.access.read_only:
            return Outcome.LATER
        index, state = stream.log.index, info.state
        if index.messages and index.first_seq < state.first_seq <= index.last_seq + 1:
            self._local.purge_before(copied.name, state.first_seq)
            return Outcome.LATER
        if index.last_seq != state.last_seq or stream.log.staged.seq != state.last_seq:
            copied.differs_by(0)
            if not 0 < reached <= index.last_seq or state.num_deleted > NAMED_MAX:
                return Outcome.LATER
            return await self._remove(copied, state.num_deleted)
        copied.differs_by(index.messages - state.messages)
        if copied.surplus and (now or copied.surplus >= ROUNDS):
            return await self._remove(copied, state.num_deleted)
        if copied.lacking > ROUNDS:
            log.error(
                "The copy of %s has %d messages, the leader has %d: the stream is copied again",
                copied.name, index.messages, state.messages,
            )  # fmt: skip
            return Outcome.REMAKE
        return Outcome.SAME

    async def _remove(self, copied: CopiedStream, count: int) -> Outcome:
        if count > NAMED_MAX:
            return Outcome.REMAKE
        info = await self._api.call(
            f"STREAM.INFO.{copied.name}", StreamInfoRequest(deleted_details=True), STREAM_INFO
        )
        deleted = info.state.deleted or ()
        if info.created != copied.created:
            return Outcome.LATER
        removed = 0
        for start in range(0, len(deleted), STEP):
            removed += self._local.delete(copied.name, deleted[start : start + STEP])
            await asyncio.sleep(0)
        if removed:
            log.info("Stream %s: %d messages were deleted at the leader", copied.name, removed)
        copied.differs_by(0)
        # Removed messages are visible until that is on disk.
        return Outcome.LATER if removed else Outcome.SAME
