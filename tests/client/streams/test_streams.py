"""Streams: management, publishing and reading over a real server (wire.md)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.support.servers import ServerProcess

from jetspark import (
    Client,
    ConsumerConfig,
    Expect,
    JetStream,
    Message,
    Stream,
    StreamConfig,
    connect,
)
from jetspark.api.base import Timestamp
from jetspark.errors import (
    AmbiguousSubject,
    ApiError,
    BadName,
    BadSubject,
    MessageNotFound,
    NoResponders,
    NotSupported,
    PermissionsViolation,
    ProtocolViolation,
    RequestTimeout,
    StreamExists,
    StreamNotFound,
    SubjectsOverlap,
    WrongLastSequence,
)

Connect = Callable[..., AbstractAsyncContextManager[Client]]


def config(name: str, **changes: Any) -> StreamConfig:
    given: dict[str, Any] = {"subjects": (f"{name}.>",), "allow_direct": True}
    return StreamConfig(name=name, **(given | changes))


async def filled(js: JetStream, name: str, count: int, **changes: Any) -> Stream:
    """A stream with ``count`` messages on ten subjects; message n has payload n."""
    stream = await js.create_stream(config(name, **changes))
    for n in range(1, count + 1):
        await js.publish_async(f"{name}.{n % 10}", b"%d" % n)
    await js.publish_async_complete()
    return stream


async def test_a_stream_is_created_found_and_deleted(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        created = await js.create_stream(config(name, description="test"))
        again = await js.create_stream(config(name, description="test"))
        found = await js.stream(name)
        assert created.name == again.name == found.name == name
        assert found.config.description == "test"
        assert found.config.allow_direct

        await js.delete_stream(name)
        with pytest.raises(StreamNotFound):
            await js.stream(name)
        with pytest.raises(StreamNotFound):
            await js.delete_stream(name)


async def test_another_configuration_under_the_same_name_is_refused(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))

        with pytest.raises(StreamExists):
            await js.create_stream(config(name, max_msgs=5))


async def test_subjects_of_another_stream_are_refused(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))

        with pytest.raises(SubjectsOverlap):
            await js.create_stream(config(f"{name}-2", subjects=(f"{name}.a",)))


async def test_a_stream_is_updated_or_created(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        with pytest.raises(StreamNotFound):
            await js.update_stream(config(name))
        await js.create_or_update_stream(config(name))
        changed = await js.create_or_update_stream(config(name, max_msgs=7))

        assert changed.config.max_msgs == 7
        assert (await js.stream(name)).config.max_msgs == 7


@pytest.mark.parametrize("bad", ["", "a.b", "a b", "a*", "a>", "a/b"])
async def test_a_bad_name_is_refused_before_it_is_sent(client: Connect, bad: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        for call in (js.stream(bad), js.delete_stream(bad), js.create_stream(config(bad))):
            with pytest.raises(BadName):
                await call


async def test_streams_are_listed_by_subject(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        mine = [f"{name}-{n}" for n in range(3)]
        for each in mine:
            await js.create_stream(config(each))

        names = [each async for each in js.stream_names()]
        infos = [info.config.name async for info in js.streams()]
        of_subject = [each async for each in js.stream_names(subject=f"{mine[1]}.>")]

    assert set(mine) <= set(names)
    assert set(mine) <= set(infos)
    assert of_subject == [mine[1]]


class SmallPages:
    """Passes requests of the API on, and two entries of every list that is the answer."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self.asked = 0

    async def answer(self, message: Message) -> None:
        self.asked += 1
        verb = message.subject.partition(".")[2]
        found = msgspec.json.decode((await self._nc.request(f"$JS.API.{verb}", message.data)).data)
        for name in ("streams", "consumers"):
            if name in found:
                found[name] = found[name][:2]
        if subjects := found.get("state", {}).get("subjects"):
            found["state"]["subjects"] = dict(sorted(subjects.items())[:2])
        message.respond(msgspec.json.encode(found))


async def test_lists_follow_their_pages(client: Connect, name: str) -> None:
    async with client() as nc:
        plain = await filled(nc.jetstream(), name, 5)
        others = [f"{name}-{n}" for n in range(4)]
        for each in others:
            await nc.jetstream().create_stream(config(each, subjects=(f"{name}-x.{each}",)))
            await plain.create_consumer(ConsumerConfig(durable=each))
        pages = SmallPages(nc)
        await nc.subscribe(f"{name}-pages.>", callback=pages.answer)
        js = nc.jetstream(prefix=f"{name}-pages")
        stream = await js.stream(name)
        pages.asked = 0

        assert [each async for each in js.stream_names(subject=f"{name}-x.>")] == others
        assert [i.config.name async for i in js.streams(subject=f"{name}-x.>")] == others
        assert [each async for each in stream.consumer_names()] == others
        assert [info.name async for info in stream.consumers()] == others
        assert pages.asked == 8
        subjects = (await stream.info(subjects_filter=">")).state.subjects
        assert subjects == {f"{name}.{n}": 1 for n in range(1, 6)}
        assert pages.asked == 11


async def test_the_stream_of_a_subject(client: Connect, name: str) -> None:
    """ADR-15: exactly one match or an error."""
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(f"{name}-1", subjects=(f"{name}.a",)))
        await js.create_stream(config(f"{name}-2", subjects=(f"{name}.b",)))

        assert await js.stream_name_by_subject(f"{name}.b") == f"{name}-2"
        with pytest.raises(StreamNotFound, match="no stream stores the subject"):
            await js.stream_name_by_subject(f"{name}.c")
        with pytest.raises(AmbiguousSubject, match=f"{name}-1, {name}-2; pass a stream name"):
            await js.stream_name_by_subject(f"{name}.*")
        for bad in ("", "a b", "a..b"):
            # The server would answer with all streams, or none.
            with pytest.raises(BadSubject):
                await js.stream_name_by_subject(bad)


async def test_account_information(client: Connect) -> None:
    async with client() as nc:
        info = await nc.jetstream().account_info()

    assert info.api.level >= 1


async def test_information_counts_subjects_and_deleted_messages(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 30)
        await stream.delete_msg(7)
        plain = await stream.info()
        detailed = await stream.info(subjects_filter=">", deleted_details=True)

    assert (plain.state.messages, plain.state.last_seq, plain.state.num_deleted) == (29, 30, 1)
    assert detailed.state.subjects is not None
    assert detailed.state.subjects[f"{name}.7"] == 2
    assert detailed.state.subjects[f"{name}.8"] == 3
    assert detailed.state.deleted == (7,)


async def test_purge_by_subject_sequence_and_count(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 30)

        assert await stream.purge(subject=f"{name}.3") == 3
        assert await stream.purge(seq=11) == 9
        assert await stream.purge(keep=5) == 13
        assert await stream.purge() == 5
        with pytest.raises(ValueError, match="mutually exclusive"):
            await stream.purge(seq=1, keep=1)


async def test_a_deleted_message_cannot_be_read(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        await stream.delete_msg(2)

        with pytest.raises(MessageNotFound):
            await stream.get_msg(seq=2)
        with pytest.raises(MessageNotFound):
            await stream.delete_msg(2)
        with pytest.raises(MessageNotFound, match="sequence 99 not found"):
            await stream.delete_msg(99)  # servers call it "stream store EOF"
        with pytest.raises(ValueError, match="seq=0: expected at least 1"):
            await stream.delete_msg(0)


# Publishing.


async def test_a_publish_is_acknowledged_with_stream_and_sequence(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))
        acks = [await js.publish(f"{name}.a", b"x") for _ in range(3)]

    assert [(ack.stream, ack.seq) for ack in acks] == [(name, 1), (name, 2), (name, 3)]


async def test_the_same_message_id_is_stored_once(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))
        first = await js.publish(f"{name}.a", b"x", msg_id="m1")
        second = await js.publish(f"{name}.a", b"x", msg_id="m1")

    assert (first.seq, first.duplicate) == (1, False)
    assert (second.seq, second.duplicate) == (1, True)


@pytest.mark.parametrize(
    "expect",
    [Expect(last_seq=5), Expect(last_subject_seq=5)],
    ids=["last_seq", "last_subject_seq"],
)
async def test_an_expectation_that_does_not_hold_says_what_is(
    client: Connect, name: str, expect: Expect
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await filled(js, name, 1)
        await js.publish(f"{name}.1", expect=Expect(last_seq=1, last_subject_seq=1))

        with pytest.raises(WrongLastSequence) as caught:
            await js.publish(f"{name}.1", expect=expect)
        assert caught.value.actual == 2


async def test_a_subject_without_a_stream_fails_at_once(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream(publish_retries=0)
        with pytest.raises(NoResponders, match=name):
            await js.publish(name, timeout=30)
        with pytest.raises(NoResponders, match=name):
            await (await js.publish_async(name, timeout=30))
        with pytest.raises(ValueError, match="publish_retries=-1"):
            nc.jetstream(publish_retries=-1)


async def test_a_publish_without_responders_is_repeated(client: Connect, name: str) -> None:
    """Retries on no-responders; such a message cannot have been stored."""
    async with client() as nc:
        js = nc.jetstream()
        waiting = asyncio.ensure_future(js.publish(f"{name}.a", b"1"))
        window = await js.publish_async(f"{name}.a", b"2", headers={"n": "2"})
        await nc.flush()
        assert not waiting.done()
        stream = await js.create_stream(config(name))

        assert sorted([(await waiting).seq, (await window).seq]) == [1, 2]
        found = {m.data: m async for m in stream.get_batch()}
        assert found.keys() == {b"1", b"2"}
        assert found[b"2"].headers["n"] == "2"
        assert js.publish_async_pending == 0


async def test_a_publish_is_not_repeated_for_ever(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream(publish_retries=1)
        before = nc.stats.out_msgs
        window = await js.publish_async(name)
        with pytest.raises(NoResponders, match=name):
            await js.publish(name)
        with pytest.raises(NoResponders, match=name):
            await window
        with pytest.raises(NoResponders, match=name):
            await js.publish(name, timeout=0.2)

        assert nc.stats.out_msgs - before == 2 + 2 + 1  # the last has no time for another try


async def test_acks_of_windowed_publishes_come_in_order(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream(publish_async_max=16)
        await js.create_stream(config(name))
        acks = [await js.publish_async(f"{name}.a", b"%d" % n) for n in range(200)]

        assert js.publish_async_pending <= 16
        assert [(await ack).seq for ack in acks] == list(range(1, 201))
        assert js.publish_async_pending == 0
        await js.publish_async_complete()


async def test_a_refused_windowed_publish_is_raised_by_its_ack(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))
        good = await js.publish_async(f"{name}.a")
        bad = await js.publish_async(f"{name}.a", expect=Expect(last_seq=9))

        assert (await good).seq == 1
        with pytest.raises(WrongLastSequence):
            await bad
        assert isinstance(bad.exception(), WrongLastSequence)
        # Someone has looked at it: it is not raised again.
        await js.publish_async_complete()


async def test_failures_that_were_not_read_are_raised_at_the_end(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))
        for _ in range(3):
            await js.publish_async(f"{name}.a", expect=Expect(last_seq=9))

        with pytest.raises(WrongLastSequence) as caught:
            await js.publish_async_complete()
        assert caught.value.__notes__ == ["3 publishes failed; this is the first"]
        await js.publish_async_complete()


@pytest.mark.parametrize("read_after_write", [False, True])
async def test_an_answer_that_is_no_ack_is_reported_and_nothing_else_suffers(
    client: Connect, name: str, read_after_write: bool
) -> None:
    """Someone else listens on the subject and answers."""
    async with client(allow_reconnect=False) as nc:
        js = nc.jetstream(read_after_write=read_after_write)
        await nc.subscribe(name, callback=lambda message: message.respond(b"hello"))
        await nc.flush()
        await js.publish_async(name, b"1")

        with pytest.raises(ProtocolViolation, match=r": b'hello'"):
            await js.publish_async_complete()
        with pytest.raises(ProtocolViolation, match=r": b'hello'"):
            await js.publish(name, b"1")
        await nc.flush()


async def test_a_publish_without_an_ack_says_what_is_known(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        await nc.subscribe(name)
        await nc.flush()

        with pytest.raises(RequestTimeout, match="whether it was stored is unknown"):
            await js.publish(name, b"1", timeout=0.05)
        ack = await js.publish_async(name, b"1", timeout=0.05)
        with pytest.raises(RequestTimeout, match="whether it was stored is unknown"):
            await ack


async def test_large_windowed_publishes_wait_for_the_buffer(client: Connect, name: str) -> None:
    """Back-pressure: a window of large messages is bounded by the buffer, not refused."""
    async with client(write_buffer_bytes=2 << 20) as nc:
        js = nc.jetstream()
        await js.create_stream(config(name))
        acks = [await js.publish_async(f"{name}.a", bytes(500_000)) for _ in range(30)]

        assert [(await ack).seq for ack in acks] == list(range(1, 31))


async def test_a_full_window_times_out_when_no_ack_comes(client: Connect, name: str) -> None:
    async with client() as nc:
        await nc.subscribe(name)
        js = nc.jetstream(publish_async_max=2)
        acks = [await js.publish_async(name, timeout=0.2) for _ in range(2)]

        with pytest.raises(RequestTimeout, match="2 publishes are waiting for an ack"):
            await js.publish_async(name, timeout=0.05)
        with pytest.raises(RequestTimeout, match="whether it was stored is unknown"):
            await acks[0]


@pytest.mark.parametrize("offered", [False, True])
async def test_a_waiting_publisher_that_gives_up_leaves_its_place_to_the_next(
    client: Connect, name: str, offered: bool
) -> None:
    """Before the place was offered to it, or after, when it has not taken it yet."""
    async with client() as nc:
        js = nc.jetstream(publish_async_max=1)
        await js.create_stream(config(name))
        first = await js.publish_async(f"{name}.a")
        waiting = [asyncio.ensure_future(js.publish_async(f"{name}.a")) for _ in range(3)]
        await asyncio.sleep(0)
        if offered:
            await first
            waiting[0].cancel()
        else:
            waiting[0].cancel()
            await first
        acks = await asyncio.gather(*waiting[1:])

        assert [(await ack).seq for ack in acks] == [2, 3]


# Reading one message.


async def test_every_form_of_a_get(client: Connect, name: str) -> None:
    """ADR-31, request."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 25)
        third = await stream.get_msg(seq=3)
        by_form = {
            "last": await stream.get_msg(last_by_subject=f"{name}.3"),
            "last wildcard": await stream.get_msg(last_by_subject=f"{name}.*"),
            "next": await stream.get_msg(next_by_subject=f"{name}.3"),
            "next from": await stream.get_msg(next_by_subject=f"{name}.3", seq=4),
            "time": await stream.get_msg(start_time=Timestamp(third.time_ns)),
            "time and next": await stream.get_msg(
                start_time=third.time - timedelta(days=1), next_by_subject=f"{name}.4"
            ),
        }

    assert (third.subject, third.data, third.stream) == (f"{name}.3", b"3", name)
    assert abs(third.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert {form: message.seq for form, message in by_form.items()} == {
        "last": 23,
        "last wildcard": 25,
        "next": 3,
        "next from": 13,
        "time": 3,
        "time and next": 4,
    }


async def test_headers_come_back_as_they_were(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(config(name))
        await js.publish(f"{name}.a", b"x", headers=[("k", "1"), ("k", "2")])
        direct = await stream.get_msg(seq=1)

    assert direct.headers.items() == [("k", "1"), ("k", "2")]


async def test_a_missing_message_is_described(client: Connect, name: str) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)

        with pytest.raises(MessageNotFound, match=f"{name}.* for seq 9"):
            await stream.get_msg(seq=9)
        with pytest.raises(MessageNotFound, match=r"last on 'nothing\.here'"):
            await stream.get_msg(last_by_subject="nothing.here")


async def test_a_stream_without_direct_get_is_read_from_its_leader(
    client: Connect, name: str
) -> None:
    """503 falls back to MSG.GET and is remembered for 30 s."""
    async with client() as nc:
        js = nc.jetstream()
        stream = await js.create_stream(config(name, allow_direct=False))
        await js.publish(f"{name}.a", b"x", headers={"k": "v"})
        await js.publish(f"{name}.b", b"")
        first = await stream.get_msg(seq=1)
        sent = nc.stats.out_msgs
        second = await stream.get_msg(last_by_subject=f"{name}.b")

        assert nc.stats.out_msgs == sent + 1
        with pytest.raises(MessageNotFound, match="for seq 9"):
            await stream.get_msg(seq=9)
        assert [row.seq async for row in stream.get_batch()] == [1, 2]

    assert (first.data, first.headers["k"], first.seq) == (b"x", "v", 1)
    assert (second.data, second.subject, second.seq) == (b"", f"{name}.b", 2)


async def test_a_get_of_a_deleted_stream_says_so(client: Connect, name: str) -> None:
    async with client() as nc:
        js = nc.jetstream()
        stream = await filled(js, name, 1)
        await js.delete_stream(name)

        with pytest.raises(StreamNotFound):
            await stream.get_msg(seq=1)
        with pytest.raises(StreamNotFound):
            await stream.info()


async def test_jetstream_of_an_unknown_domain_is_not_there(client: Connect) -> None:
    async with client() as nc:
        js = nc.jetstream(domain="nowhere")

        with pytest.raises(ApiError, match="domain/prefix is wrong"):
            await js.account_info(timeout=2)
        with pytest.raises(ValueError, match="both given"):
            nc.jetstream(domain="a", prefix="b")


async def test_reads_that_make_no_sense_are_refused_before_they_are_sent(
    client: Connect, name: str
) -> None:
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        wrong: Any = "nearest"

        for bad in ("a b", "a..b", ">.a"):
            with pytest.raises(BadSubject):
                await stream.get_msg(last_by_subject=bad)
            with pytest.raises(BadSubject):
                await stream.get_msg(next_by_subject=bad)
            with pytest.raises(BadSubject):
                stream.get_last_many([f"{name}.a", bad])
            with pytest.raises(BadSubject):
                await stream.purge(subject=bad)
        with pytest.raises(ValueError, match="seq=-1: expected at least 0"):
            await stream.purge(seq=-1)
        with pytest.raises(ValueError, match="limit=-1"):
            stream.get_batch(limit=-1)
        with pytest.raises(ValueError, match="seq=-5"):
            stream.get_batch(seq=-5)
        with pytest.raises(ValueError, match="copies='nearest': expected 'stream' or 'any'"):
            stream.get_batch(copies=wrong)
        with pytest.raises(ValueError, match="copies='nearest': expected 'stream' or 'any'"):
            stream.get_last_many([">"], copies=wrong)
        with pytest.raises(TypeError, match="expected a datetime with a time zone"):
            await stream.get_msg(start_time=wrong)
        assert (await stream.info()).state.messages == 3


async def test_a_user_who_may_read_one_subject_gets_its_messages(
    nats_server: Callable[[str], ServerProcess],
) -> None:
    """ADR-31: the subject-appended form exists for permissions by subject."""
    server = nats_server(
        """jetstream: enabled
        accounts { A { jetstream: enabled, users [
            { user: admin, password: p }
            { user: reader, password: p, permissions: {
                publish: ["$JS.API.STREAM.INFO.S", "$JS.API.DIRECT.GET.S.S.open"] } }
        ] } }"""
    )
    async with await connect(server.url, user="admin", password="p") as nc:
        js = nc.jetstream()
        await js.create_stream(config("S"))
        for subject in ("S.open", "S.closed"):
            await js.publish(subject, subject.encode())
    async with await connect(server.url, user="reader", password="p") as nc:
        stream = await nc.jetstream().stream("S")

        assert (await stream.get_msg(last_by_subject="S.open")).data == b"S.open"
        with pytest.raises(PermissionsViolation, match=r"DIRECT\.GET\.S\.S\.closed"):
            await stream.get_msg(last_by_subject="S.closed")
        with pytest.raises(PermissionsViolation):
            await stream.get_msg(seq=1)


class OldServer:
    """Answers direct gets as nats-server 2.10: fields that it does not know are not there."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def answer(self, message: Message) -> None:
        """Pass a request on, without what came with 2.11."""
        verb = message.subject.partition(".")[2]
        body = msgspec.json.decode(message.data) if message.data else {}
        for new in ("batch", "max_bytes", "start_time", "multi_last", "up_to_seq", "up_to_time"):
            body.pop(new, None)
        reply = await self._nc.request(f"$JS.API.{verb}", msgspec.json.encode(body))
        self._nc._core.send_message(message.reply.encode(), b"", reply.header_block, reply.data)


async def test_a_server_that_is_too_old_is_named(client: Connect, name: str) -> None:
    """ADR-31: it is known by the missing Nats-Num-Pending."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, 3)
        old = OldServer(nc)
        await nc.subscribe("old.>", callback=old.answer)
        seen = await nc.jetstream(prefix="old").stream(name)
        later = (await stream.get_msg(seq=3)).time_ns
        version = nc.server_info.version

        with pytest.raises(NotSupported, match=f"batched direct gets: .* version {version}"):
            [each async for each in seen.get_batch()]
        with pytest.raises(NotSupported, match=f"multi_last direct gets: .* version {version}"):
            [each async for each in seen.get_last_many([">"])]
        with pytest.raises(NotSupported, match=f"by start_time: .* version {version}"):
            await seen.get_msg(start_time=Timestamp(later))
        with pytest.raises(NotSupported, match=f"by start_time: .* version {version}"):
            await seen.get_msg(next_by_subject=f"{name}.>", start_time=Timestamp(later))
        assert (await seen.get_msg(seq=2)).seq == 2
