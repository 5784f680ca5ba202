"""``published``: what clients published, and failures that show it."""

import pytest

from jetspark.testing import Server, SyncServer
from jetspark.testing.published import Expectation, PublishLog


async def test_messages_are_found_by_subject_data_and_headers() -> None:
    async with Server() as server, server.connect() as client:
        client.publish("orders.new", b'{"id": 1}', headers={"a": "1"}, reply="answer")
        client.publish("orders.paid", b"\xff")
        await client.jetstream().create_key_value("b")

        first, second = await server.published("orders.>", count=2)
        assert (first.subject, first.json(), first.headers["a"], first.reply) == (
            "orders.new", {"id": 1}, "1", "answer",
        )  # fmt: skip
        assert second.data == b"\xff"
        assert await server.published("orders.*", headers={"a": "1"}) == [first]
        assert await server.published(data=b"\xff") == [second]
        assert await server.published(data='{"id": 1}') == [first]
        assert await server.published("stock", count=0) == []


async def test_a_message_that_arrives_later_is_waited_for() -> None:
    async with Server() as server, server.connect() as client:
        await server.lag(0.05)
        client.publish("late", b"1")
        assert len(await server.published("late")) == 1


def test_an_exact_number_counts_what_a_client_has_just_published() -> None:
    with SyncServer() as server, server.connect() as client:
        client.publish("sms", b"1")
        with pytest.raises(AssertionError, match="expected no message on 'sms', found 1"):
            server.published("sms", count=0)

        server.forget_published()
        client.publish("sms", b"2")
        server.published("sms")
        client.publish("sms", b"3")
        with pytest.raises(AssertionError, match="expected 1 message on 'sms', found 2"):
            server.published("sms", count=1)


async def forgets_to_await(error: type[Exception] | None = None) -> None:
    async with Server() as server:
        server.published("never", count=1)  # type: ignore[unused-coroutine]
        server.advance(60)  # type: ignore[unused-coroutine]
        await server.published("never", count=0)
        if error is not None:
            raise error


async def test_a_call_that_is_not_awaited_fails_the_test_at_its_end() -> None:
    with pytest.raises(AssertionError, match=r"did not await published\(\), advance\(\) of its"):
        await forgets_to_await()
    with pytest.raises(ZeroDivisionError):
        await forgets_to_await(ZeroDivisionError)


def test_a_timeout_below_zero_is_refused() -> None:
    with SyncServer() as server, pytest.raises(ValueError, match="timeout=-1: expected seconds"):
        server.published("a", timeout=-1)


async def test_a_large_message_in_many_pieces_is_one_message() -> None:
    async with Server() as server, server.connect() as client:
        client.publish("large", b"x" * 900_000)
        (message,) = await server.published("large", timeout=20)
        assert message.data == b"x" * 900_000
        assert str(message).endswith("... (900000 bytes)")


async def test_requests_without_a_responder_still_fail() -> None:
    import jetspark

    async with Server() as server, server.connect() as client:
        with pytest.raises(jetspark.errors.NoResponders):
            await client.request("unheard", b"")
        assert len(await server.published("unheard")) == 1


def test_a_failure_lists_what_was_published() -> None:
    with SyncServer() as server, server.connect() as client:
        client.jetstream().create_key_value("b").put("k", b"v")
        client.publish("orders.new", b"1", headers={"a": "b"})
        client.publish("orders.new", b"2")
        with pytest.raises(AssertionError) as failure:
            server.published("orders.new", data=b"2", count=2, timeout=0.1)

        assert str(failure.value).splitlines() == [
            "expected 2 messages on 'orders.new' with data b'2', found 1 after 0.1 s",
            "matching (1):",
            "  orders.new  2",
            "also published (2):",
            "  $KV.b.k  v",
            "  orders.new  1  a: b",
        ]
        with pytest.raises(AssertionError, match=r"expected no message on 'orders.>', found 2\n"):
            server.published("orders.>", count=0)


def test_nothing_published_is_said() -> None:
    with (
        SyncServer() as server,
        pytest.raises(AssertionError, match=r"found 0 after 0.01 s\nnothing was published"),
    ):
        server.published("orders", timeout=0.01)


async def test_a_long_list_is_shortened_and_a_lost_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = PublishLog()
    log.record(1, b"PUB a 1\r\nx\r\n" * 30)
    with pytest.raises(AssertionError, match=r"  and 10 more"):
        await log.expect(Expectation("a", 1, None, None), 0)

    monkeypatch.setattr("jetspark.testing.published.KEPT_BYTES", 10)
    log.record(2, b"PUB a 1\r\nx\r\n")
    with pytest.raises(AssertionError, match="21 messages are no longer known"):
        await log.expect(Expectation("a", 10, None, None), 0)
