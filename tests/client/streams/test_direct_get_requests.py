"""ADR-31 on the wire: which request each way of reading sends, seen by another client."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from jetspark import Client, JetStream, Stream, Subscription
from jetspark.errors import MessageNotFound

Connect = Callable[..., AbstractAsyncContextManager[Client]]

LONG_AGO = datetime(2024, 11, 4, 23, 45, 2, 60192, tzinfo=UTC)
TOMORROW = datetime(2099, 1, 1, tzinfo=UTC)


async def filled(js: JetStream, name: str, **settings: Any) -> Stream:
    stream = await js.create_stream(name, subjects=[f"{name}.>"], **settings)
    for n in range(6):
        await js.publish(f"{name}.{'AB'[n % 2]}", b"%d" % n)
    return stream


async def sent(
    nc: Client, requests: Subscription, subject: str, own: Callable[[], Any]
) -> list[tuple[str, dict[str, Any]]]:
    """What ``own`` asked with ``nc``: the subject after ``subject``, and the request."""
    await own()
    # Without a reply subject no server answers it; it comes after everything that was asked.
    nc.publish(requests.subject.replace(">", "end"), b"end")
    found = []
    while (message := await requests.next(timeout=30)).data != b"end":
        request = json.loads(message.data) if message.data else {}
        found.append((message.subject.removeprefix(subject), request))
    return found


async def test_a_get_sends_the_request_of_the_document(client: Connect, name: str) -> None:
    """ADR-31, "Request" and "Subject-Appended Direct Get API"."""
    async with client() as nc, client() as other:
        stream = await filled(nc.jetstream(), name, allow_direct=True)
        api = f"$JS.API.DIRECT.GET.{name}"
        whole = await other.subscribe(api)
        by_subject = await other.subscribe(f"{api}.>")
        await other.flush()
        a = f"{name}.A"

        async def asked(requests: Subscription, **get: Any) -> list[tuple[str, dict[str, Any]]]:
            return await sent(nc, requests, api, lambda: stream.get_msg(**get))

        assert await asked(whole, seq=2) == [("", {"seq": 2})]
        # No payload where the subject says it all: with one it is a 408.
        assert await asked(by_subject, last_by_subject=a) == [(f".{a}", {})]
        # A wildcard cannot be part of the subject of a request.
        assert await asked(whole, last_by_subject=f"{name}.*") == [
            ("", {"last_by_subj": f"{name}.*"})
        ]
        assert await asked(whole, next_by_subject=a) == [("", {"next_by_subj": a})]
        assert await asked(whole, seq=3, next_by_subject=a) == [
            ("", {"seq": 3, "next_by_subj": a})
        ]
        assert await asked(whole, start_time=LONG_AGO) == [
            ("", {"start_time": "2024-11-04T23:45:02.060192Z"})
        ]


async def test_a_batch_sends_the_requests_of_the_document(client: Connect, name: str) -> None:
    """ADR-31, "Batched requests": the six calls."""
    async with client() as nc, client() as other:
        stream = await filled(nc.jetstream(), name, allow_direct=True)
        api = f"$JS.API.DIRECT.GET.{name}"
        requests = await other.subscribe(api)
        await other.flush()
        subject = f"{name}.>"

        async def first(**get: Any) -> dict[str, Any]:
            async def read() -> None:
                assert [m.seq async for m in stream.get_batch(limit=3, batch=3, **get)]

            (_, request), *_ = await sent(nc, requests, api, read)
            return request

        every = {"batch": 3, "next_by_subj": subject}
        time = "2024-11-04T23:45:02.060192Z"
        starts: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, {"seq": 1}),
            ({"seq": 4}, {"seq": 4}),
            ({"start_time": LONG_AGO}, {"start_time": time}),
        ]
        for start, wanted in starts:
            request = await first(next_by_subject=subject, **start)
            assert request.items() >= (every | wanted).items()
            limited = await first(next_by_subject=subject, max_bytes=2002, **start)
            assert limited.items() >= (every | wanted | {"max_bytes": 2002}).items()


async def test_a_read_of_many_subjects_sends_the_requests_of_the_document(
    client: Connect, name: str
) -> None:
    """ADR-31, "Multi-subject requests": the six calls."""
    async with client() as nc, client() as other:
        stream = await filled(nc.jetstream(), name, allow_direct=True)
        api = f"$JS.API.DIRECT.GET.{name}"
        requests = await other.subscribe(api)
        await other.flush()
        subjects = [f"{name}.A", f"{name}.B"]

        async def first(**get: Any) -> dict[str, Any]:
            async def read() -> None:
                assert [m.seq async for m in stream.get_last_many(subjects, **get)]

            (_, request), *_ = await sent(nc, requests, api, read)
            return request

        ends: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({}, {}),
            ({"up_to_seq": 5}, {"up_to_seq": 5}),
            ({"up_to_time": TOMORROW}, {"up_to_time": "2099-01-01T00:00:00Z"}),
        ]
        for end, wanted in ends:
            assert await first(**end) == {"multi_last": subjects} | wanted
            request = await first(batch=2, **end)
            assert request == {"multi_last": subjects, "batch": 2} | wanted


async def test_further_pages_of_many_subjects_show_the_same_point_in_time(
    client: Connect, name: str
) -> None:
    """ADR-31: Nats-UpTo-Sequence of the first page is up_to_seq of those that follow."""
    async with client() as nc, client() as other:
        js = nc.jetstream()
        stream = await filled(js, name, allow_direct=True)
        api = f"$JS.API.DIRECT.GET.{name}"
        requests = await other.subscribe(api)
        await other.flush()

        async def read() -> None:
            found = []
            async for message in stream.get_last_many([f"{name}.>"], batch=1):
                found.append(message.seq)
                await js.publish(f"{name}.A", b"later")
            assert found == [5, 6]

        (_, first), *rest = await sent(nc, requests, api, read)
        assert "up_to_seq" not in first
        assert rest
        assert {request["up_to_seq"] for _, request in rest} == {6}


async def test_a_status_without_a_message_is_an_error_of_its_own(
    client: Connect, name: str
) -> None:
    """ADR-31, "Response Format": 404."""
    async with client() as nc:
        stream = await filled(nc.jetstream(), name, allow_direct=True)

        with pytest.raises(MessageNotFound):
            await stream.get_msg(seq=99)
        with pytest.raises(MessageNotFound):
            await stream.get_msg(last_by_subject=f"{name}.C")
        assert [m async for m in stream.get_batch(next_by_subject=f"{name}.C")] == []
        assert [m async for m in stream.get_last_many([f"{name}.C"])] == []
