"""Presence: members of a group announce themselves, and expire when they stop (ADR-8 2.0).

A member is a key ``<group>.<member>`` with a time to live, written three times as often. A member
that dies disappears after that time.
"""

import asyncio
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from jetspark.client.arguments import text
from jetspark.client.jetstream.kv.lock import is_gone
from jetspark.client.jetstream.kv.watch import Watches
from jetspark.client.opening import opens
from jetspark.client.timeouts import Timeout
from jetspark.errors import BadName, ConnectionClosed
from jetspark.subjects.tokens import key_problem

if TYPE_CHECKING:
    from jetspark.client.jetstream.kv.bucket import KeyValue

ANNOUNCEMENTS: Final = 3  # per time to live
SILENCE: Final = 1.5  # times to live without an announcement before a member is checked


class MemberChange(msgspec.Struct, frozen=True):
    """A member joined or left; ``data`` is what it announced."""

    member: str
    present: bool
    data: bytes = b""


class Membership:
    """One member, announced until it leaves. ``async with`` leaves at the end."""

    def __init__(self, bucket: "KeyValue", key: str, data: bytes, ttl: float) -> None:
        self._bucket = bucket
        self._key = key
        self._data = data
        self._ttl = ttl
        self._task: asyncio.Task[None] | None = None

    async def announce(self, data: bytes | None = None, *, timeout: Timeout | None = None) -> None:
        """Announce now, with new ``data`` if given."""
        if data is not None:
            self._data = data
        await self._bucket.put(self._key, self._data, ttl=self._ttl, timeout=timeout)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._repeat(), name=f"jetspark member {self._key}"
            )

    async def close(self, *, timeout: Timeout | None = None) -> None:
        """Leave: stop announcing and delete the key."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        # The marker expires too: names of members that never return would accumulate.
        await self._bucket.purge(self._key, ttl=self._ttl, timeout=timeout)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._ttl / ANNOUNCEMENTS)
            try:
                await self._bucket.put(self._key, self._data, ttl=self._ttl, timeout=self._ttl)
            except ConnectionClosed:
                return  # permanently
            except Exception:  # noqa: BLE001, S112 - any backend: the next attempt may succeed
                continue

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Membership({self._key!r})"


class Members:
    """The members of a group, from ``KeyValue.members``."""

    def __init__(self, bucket: "KeyValue", watches: Watches, group: str, ttl: float) -> None:
        if ttl < 1:
            raise ValueError(f"ttl={ttl}: expected at least 1 second")
        problem = key_problem(text(group, "group"))
        if problem is not None:
            raise BadName("group", group, problem)
        self._bucket = bucket
        self._watches = watches
        self._group = group
        self._ttl = ttl

    @opens
    async def join(
        self, member: str, data: bytes = b"", *, timeout: Timeout | None = None
    ) -> Membership:
        """Become a member; ``data`` is what the others need, such as an address."""
        text(member, "member")
        if not member or "." in member:
            raise BadName("member", member, "expected one token: a name without dots")
        membership = Membership(self._bucket, f"{self._group}.{member}", data, self._ttl)
        await membership.announce(timeout=timeout)
        return membership

    async def list(self, *, timeout: Timeout | None = None) -> dict[str, bytes]:
        """The current members, and what they announce."""
        entries = self._bucket.snapshot(f"{self._group}.*", timeout=timeout)
        skip = len(self._group) + 1
        return {entry.key[skip:]: entry.value async for entry in entries}

    async def watch(self) -> AsyncGenerator[MemberChange, None]:
        """Yield the current members, then who joins, leaves, or changes its data."""
        skip = len(self._group) + 1
        overdue_at: dict[str, float] = {}
        known: dict[str, bytes] = {}
        loop = asyncio.get_running_loop()
        feed = await self._watches.entries((f"{self._group}.*",))
        try:
            while True:
                for member in [each for each, until in overdue_at.items() if until <= loop.time()]:
                    # Checked, because members may have a longer time to live than this handle.
                    if await is_gone(self._bucket, f"{self._group}.{member}"):
                        del overdue_at[member], known[member]
                        yield MemberChange(member, present=False)
                    else:
                        overdue_at[member] = loop.time() + self._ttl * SILENCE
                wait = min(overdue_at.values(), default=None)
                chunk = await feed.next_within(None if wait is None else wait - loop.time())
                if chunk is None:
                    continue
                if not chunk:
                    return
                for entry in chunk:
                    if entry is None:
                        continue
                    member = entry.key[skip:]
                    if entry.is_put:
                        overdue_at[member] = loop.time() + self._ttl * SILENCE
                        if known.get(member) != entry.value:
                            known[member] = entry.value
                            yield MemberChange(member, present=True, data=entry.value)
                    elif known.pop(member, None) is not None:
                        del overdue_at[member]
                        yield MemberChange(member, present=False)
        finally:
            await self._watches.stop(feed)

    def __repr__(self) -> str:
        return f"Members({self._group!r})"
