"""Who gets a run of messages, and whether anybody does (wire.md, Consumers)."""

from __future__ import annotations

from jetspark.engine.outbox import Outlet
from jetspark.server.routing.outlets import push_outlet, reply_outlet
from jetspark.server.routing.receiver import Pending, Receiver, Subscription
from jetspark.server.routing.router import Router


def subscribed(router: Router, subject: bytes, queue: bytes = b"") -> Receiver:
    receiver = Receiver(Pending())
    router.sublist.insert(subject, queue, Subscription(receiver, subject, queue, b"1"))
    return receiver


def test_a_consumer_without_a_group_needs_a_plain_subscriber() -> None:
    router = Router()
    subscribed(router, b"d", b"g")

    assert push_outlet(router, b"d", b"") is None
    subscribed(router, b">")
    assert push_outlet(router, b"d", b"") is None
    subscribed(router, b"d")
    assert push_outlet(router, b"d", b"") is not None


def test_a_group_needs_one_of_its_members() -> None:
    router = Router()
    subscribed(router, b"d")
    subscribed(router, b"d", b"other")

    assert push_outlet(router, b"d", b"g") is None
    subscribed(router, b"d", b"g")
    assert push_outlet(router, b"d", b"g") is not None


def test_every_responder_is_yielded() -> None:
    router = Router()
    requester = subscribed(router, b"_INBOX.x.*")
    watcher = subscribed(router, b">")

    outlet = reply_outlet(router, b"_INBOX.x.1")

    assert outlet is not None
    outlet.write(b"s.a", b"", b"", b"hello")
    assert requester.take_output() == watcher.take_output() == b"MSG s.a 1 5\r\nhello\r\n"


def test_one_member_of_a_group_gets_a_message() -> None:
    router = Router()
    members = [subscribed(router, b"d", b"g") for _ in range(3)]
    outlet = push_outlet(router, b"d", b"g")

    assert outlet is not None
    for _ in range(30):
        outlet.write(b"s.a", b"", b"", b"x")

    counts = [member.take_output().count(b"MSG") for member in members]
    assert sum(counts) == 30


def test_a_subscriber_that_comes_later_is_seen() -> None:
    router = Router()
    subscribed(router, b"d")
    outlet = push_outlet(router, b"d", b"")
    assert outlet is not None

    late = subscribed(router, b"d")
    outlet.write(b"s.a", b"", b"", b"x")

    assert late.take_output() == b"MSG s.a 1 1\r\nx\r\n"


def test_a_receiver_that_is_paused_is_full() -> None:
    router = Router()
    receiver = subscribed(router, b"d")
    outlet = push_outlet(router, b"d", b"")
    assert outlet is not None
    assert not outlet.full()

    receiver.pause()

    assert outlet.full()


def test_one_that_reads_is_not_held_up_by_one_that_does_not() -> None:
    router = Router()
    subscribed(router, b"d")
    idle = subscribed(router, b">")
    outlet = push_outlet(router, b"d", b"")
    assert outlet is not None

    idle.paused = True

    assert not outlet.full()


def crowd(router: Router, subject: bytes) -> list[Subscription]:
    """So many subscriptions of one client that messages reach them in steps."""
    receiver = Receiver(Pending())
    found = [Subscription(receiver, subject, b"", b"%d" % sid) for sid in range(300)]
    for each in found:
        router.sublist.insert(subject, b"", each)
    return found


def leave(router: Router, subscriptions: list[Subscription]) -> None:
    for each in subscriptions:
        each.closed = True
        router.sublist.remove(each.subject, each.queue, each)


def write_until_full(outlet: Outlet) -> int:
    count = 0
    while not outlet.full():
        outlet.write(b"s", b"", b"", b"%03d" % count)
        count += 1
        assert count < 1000
    return count


def numbers(receiver: Receiver) -> list[int]:
    return [int(line) for line in receiver.take_output().split(b"\r\n")[1::2]]


def test_a_run_does_not_pass_its_own_message_that_waits_when_the_crowd_leaves() -> None:
    router = Router()
    others = crowd(router, b"d")
    stays = subscribed(router, b"d")
    outlet = push_outlet(router, b"d", b"")
    assert outlet is not None
    count = write_until_full(outlet)

    leave(router, others)

    assert outlet.full(), "the last message is still on its way"
    router.deliver(router.route(b"d"), None, b"s", b"", b"", b"%03d" % count)
    while router.fan_out():
        pass
    assert not outlet.full()
    outlet.write(b"s", b"", b"", b"%03d" % (count + 1))
    assert numbers(stays) == list(range(count + 2))


def test_a_second_pull_does_not_pass_a_message_of_the_first_that_waits() -> None:
    router = Router()
    others = crowd(router, b">")
    stays = subscribed(router, b"_INBOX.x")
    first = reply_outlet(router, b"_INBOX.x")
    assert first is not None
    count = write_until_full(first)

    leave(router, others)
    second = reply_outlet(router, b"_INBOX.x")

    assert second is not None
    assert second.full(), "the last message is still on its way"
    while router.fan_out():
        pass
    assert not second.full()
    second.write(b"s", b"", b"", b"%03d" % count)
    assert numbers(stays) == list(range(count + 1))


def test_a_client_that_returns_gets_the_rest_of_a_run() -> None:
    router = Router()
    receiver = Receiver(Pending())
    before = Subscription(receiver, b"_INBOX.x.*", b"", b"1")
    router.sublist.insert(before.subject, b"", before)
    outlet = reply_outlet(router, b"_INBOX.x.1")
    assert outlet is not None

    before.close()
    router.sublist.remove(before.subject, b"", before)
    assert outlet.gone()

    returned = subscribed(router, b"_INBOX.x.*")
    assert not outlet.gone()
    outlet.write(b"s.a", b"", b"", b"hello")
    assert not outlet.full()
    assert returned.take_output() == b"MSG s.a 1 5\r\nhello\r\n"
    assert receiver.take_output() == b""
