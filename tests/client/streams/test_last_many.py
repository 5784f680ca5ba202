"""ADR-31, multi-subject requests: the last message of each subject at one point in time."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jetspark import Client, JetStream, Stream, StreamConfig
from jetspark.api.base import Timestamp
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.last_many import LastMany
from jetspark.errors import MinLastSequence, NotSupported

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def users(js: JetStream, name: str, **changes: Any) -> Stream:
    """The example of ADR-31."""
    given: dict[str, Any] = {"allow_direct": True, "max_msgs_per_subject": 5}
    stream = await js.create_stream(
        StreamConfig(name=name, subjects=(f"{name}.>",), **(given | changes))
    )
    for key, value in [
        ("name", b"Bob"),
        ("surname", b"Smith"),
        ("address", b"1 Main Street"),
        ("address", b"10 Oak Lane"),
    ]:
        await js.publish(f"{name}.1234.{key}", value)
    return stream


async def values(stream: Stream, subjects: list[str], **options: Any) -> list[bytes]:
    return [each.data async for each in stream.get_last_many(subjects, **options)]


async def test_the_last_message_of_each_subject(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await users(nc.jetstream(), name)

        assert await values(stream, [f"{name}.1234.>"]) == [b"Bob", b"Smith", b"10 Oak Lane"]
        assert await values(stream, [f"{name}.1234.name", f"{name}.1234.address"]) == [
            b"Bob",
            b"10 Oak Lane",
        ]
        assert await values(stream, [f"{name}.none"]) == []


async def test_as_of_a_sequence_or_a_time(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await users(nc.jetstream(), name)
        fourth = await stream.get_msg(seq=4)
        then = Timestamp(fourth.time_ns - 1)

        past = [b"Bob", b"Smith", b"1 Main Street"]
        assert await values(stream, [f"{name}.>"], up_to_seq=3) == past
        assert await values(stream, [f"{name}.>"], up_to_time=then) == past


async def test_pages_show_one_point_in_time(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await users(js, name)
        seen = []
        async for message in stream.get_last_many([f"{name}.>"], batch=1):
            seen.append(message.data)
            await js.publish(f"{name}.1234.address", b"moved")

        assert seen == [b"Bob", b"Smith", b"10 Oak Lane"]


async def test_too_many_subjects_are_split(client: Connect, name: str) -> None:
    """ADR-31: any more than 1024 is a 413; ours is asked for in parts."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await users(js, name)
        for n in range(2500):
            await js.publish_async(f"{name}.many.{n}", b"%d" % n)
        await js.publish_async_complete()
        found = await values(stream, [f"{name}.many.>"])
        both = await values(stream, [f"{name}.1234.>", f"{name}.many.>"])
        overlapping = await values(stream, [f"{name}.many.*", f"{name}.many.7", f"{name}.*.8"])
        repeated = await values(stream, [f"{name}.many.7"] * 1500)

        assert sorted(map(int, found)) == list(range(2500))
        assert len(both) == 2503
        # One request shows a subject once, whatever matches it; so do the parts of it.
        assert sorted(map(int, overlapping)) == list(range(2500))
        assert repeated == [b"7"]


async def test_the_parts_of_a_split_request_show_one_point_in_time(
    client: Connect, name: str
) -> None:
    """What is written while it is read belongs to a later point in time, in any part."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await users(js, name)
        for n in range(2500):
            await js.publish_async(f"{name}.many.{n}", b"old")
        await js.publish_async_complete()
        found: list[bytes] = []
        async for message in stream.get_last_many([f"{name}.many.>"]):
            if not found:
                for n in range(0, 2500, 100):
                    await js.publish(f"{name}.many.{n}", b"new")
            found.append(message.data)

        assert found == [b"old"] * 2500


async def test_a_stream_without_direct_get_is_read_from_its_leader(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await users(nc.jetstream(), name, allow_direct=False, max_msgs_per_subject=-1)

        found = await values(stream, [f"{name}.1234.*", f"{name}.1234.name"])
        assert sorted(found) == sorted([b"Bob", b"Smith", b"10 Oak Lane"])
        with pytest.raises(NotSupported, match="allow_direct"):
            await values(stream, [f"{name}.>"], up_to_seq=2)


async def test_a_sequence_that_must_be_there_is_waited_for(client: Connect, name: str) -> None:
    """ADR-53: never a silent stale read."""
    async with client() as nc:
        stream = await users(nc.jetstream(), name)

        assert len(await values(stream, [f"{name}.>"], min_last_seq=4)) == 3
        assert len(await values(stream, [f"{name}.>"], min_last_seq=4, up_to_seq=2)) == 2
        assert await values(stream, [f"{name}.none"], min_last_seq=4) == []
        with pytest.raises(MinLastSequence):
            await values(stream, [f"{name}.>"], min_last_seq=5, timeout=0.8)


async def test_what_makes_no_sense_is_refused(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await users(nc.jetstream(), name)

        with pytest.raises(ValueError, match="no subjects"):
            stream.get_last_many([])
        with pytest.raises(TypeError, match="expected a list of str"):
            stream.get_last_many("foo")
        with pytest.raises(ValueError, match="mutually exclusive"):
            stream.get_last_many(["foo"], up_to_seq=1, up_to_time=Timestamp(1))
        with pytest.raises(ValueError, match="batch=-1: expected at least 0"):
            stream.get_last_many(["foo"], batch=-1)


# With a consumer: several copies on a server that cannot prove how new one is
# (decisions.md, Read-after-write). test_late_follower.py has the real thing; here pages are simply
# not believed.


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastMany, "_is_proven", lambda *_: False)
    monkeypatch.setattr(LastMany, "_can_trust_one_copy", refuse)


async def refuse(*_: object) -> bool:
    return False


@pytest.mark.usefixtures("unproven")
async def test_what_pages_cannot_prove_is_read_with_a_consumer(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await users(nc.jetstream(), name)
        fourth = await stream.get_msg(seq=4)
        past = [b"Bob", b"Smith", b"1 Main Street"]

        assert await values(stream, [f"{name}.>"]) == [b"Bob", b"Smith", b"10 Oak Lane"]
        assert await values(stream, [f"{name}.1234.address", f"{name}.1234.name"]) == [
            b"Bob",
            b"10 Oak Lane",
        ]
        assert await values(stream, [f"{name}.>"], up_to_seq=3) == past
        assert (
            await values(stream, [f"{name}.>"], up_to_time=Timestamp(fourth.time_ns - 1)) == past
        )
        assert await values(stream, [f"{name}.none"], min_last_seq=4) == []
        with pytest.raises(MinLastSequence):
            await values(stream, [f"{name}.>"], min_last_seq=5, timeout=0.7)


@pytest.mark.usefixtures("unproven")
async def test_a_consumer_that_starts_late_still_shows_the_same_point_in_time(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published between the bound and the consumer is not shown; what existed is."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await users(js, name)
        start = Follow.start
        late = iter([f"{name}.1234.address", f"{name}.1234.new"])

        async def start_late(self: Follow, **options: Any) -> None:
            for subject in late:
                await js.publish(subject, b"late")
            await start(self, **options)

        monkeypatch.setattr(Follow, "start", start_late)

        assert await values(stream, [f"{name}.>"]) == [b"Bob", b"Smith", b"10 Oak Lane"]


async def test_pages_after_a_proven_one_are_read_with_a_consumer(
    client: Connect, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LastMany, "_is_proven", lambda _self, _page, cursor: not cursor)
    monkeypatch.setattr(LastMany, "_can_trust_one_copy", refuse)
    async with client() as nc:
        js = nc.jetstream()
        stream = await users(js, name)
        seen = []
        async for message in stream.get_last_many([f"{name}.>"], batch=1):
            seen.append(message.data)
            await js.publish(f"{name}.1234.address", b"moved")

        assert seen == [b"Bob", b"Smith", b"10 Oak Lane"]
