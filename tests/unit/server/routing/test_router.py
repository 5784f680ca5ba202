"""Who gets a message, and in which bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from jetspark.engine.advisories import Requester
from jetspark.engine.target import PUBLISH, REQUEST, Target
from jetspark.frame import Frame
from jetspark.protocol.parser import ServerParser
from jetspark.server.routing.account_engine import ServerWithoutJetStream
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.receiver import Pending, Receiver
from jetspark.server.routing.route import NARROW_MAX, Route, is_compact
from jetspark.server.routing.router import WAITING_MAX, Router
from jetspark.subjects.sublist import Sublist


class Resolving(ServerWithoutJetStream):
    """An engine that wants some subjects."""

    def __init__(self, find: Callable[[bytes], Target | None]) -> None:
        self._find = find

    def resolve(self, subject: bytes, /) -> Target | None:
        return self._find(subject)


class Settled:
    """A session of a client that said CONNECT long ago."""

    settled = True
    checking = False


class Account:
    """One account, with as many clients as a test wants."""

    def __init__(self) -> None:
        self.router = Router()
        self.pending = Pending()

    def client(self, *, headers: bool = True, echo: bool = True) -> ConnectedClient:
        receiver = Receiver(self.pending)
        receiver.headers = headers
        receiver.echo = echo
        made = ConnectedClient(self.router, receiver, 4096, 1 << 20)
        made.verbose = made.pedantic = False
        made.parser.headers = headers
        made.session = Settled()
        return made


@pytest.fixture
def account() -> Account:
    return Account()


def got(client: ConnectedClient) -> bytes:
    return client.receiver.take_output()


def test_a_frame_is_forwarded_as_it_came(account: Account) -> None:
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"SUB a.* 7\r\n")

    writer.parser.feed(b"PUB a.b 2\r\nhi\r\nPUB a.b reply.to 2\r\nho\r\n")

    assert got(reader) == b"MSG a.b 7 2\r\nhi\r\nMSG a.b 7 reply.to 2\r\nho\r\n"


def test_messages_that_wait_for_another_turn_arrive_as_they_were_sent(account: Account) -> None:
    """The parser continues with the same frame: what is held must not change with it."""
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"SUB > 7\r\n")
    writer.pause()
    writer.parser.feed(b"PUB a 5\r\nfirst\r\nHPUB b.c to 12 18\r\nNATS/1.0\r\n\r\nsecond\r\nPUB d")
    writer.parser.feed(b" 5\r\nthi")
    writer.parser.feed(b"rd\r\nPING\r\n")
    assert got(reader) == b""

    writer.resume()

    assert got(reader) == (
        b"MSG a 7 5\r\nfirst\r\n"
        b"HMSG b.c 7 to 12 18\r\nNATS/1.0\r\n\r\nsecond\r\n"
        b"MSG d 7 5\r\nthird\r\n"
    )
    assert got(writer) == b"PONG\r\n"


def test_a_message_given_out_in_steps_reaches_the_stream_as_it_was_sent(account: Account) -> None:
    """Its receivers take several turns, and the parser has read other messages by then."""
    stored: list[tuple[bytes, bytes]] = []

    class Asked(Resolving):
        def request(
            self,
            _target: Target,
            reply: bytes,
            _headers: bytes,
            body: bytes,
            _requester: object,
            /,
        ) -> None:
            stored.append((reply, body))

    router = account.router
    router.serve(Asked(lambda name: Target(REQUEST, None, name) if name == b"a" else None), {}, {})
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"".join(b"SUB a %d\r\n" % sid for sid in range(100)))
    router.turn.begin(writer.pause)
    router.turn.left = 50

    writer.parser.feed(b"PUB a to 5\r\nfirst\r\nPUB b 6\r\nsecond\r\n")
    assert (writer.paused, stored) == (True, [])
    while writer.paused:
        router.turn.begin(writer.pause)
        writer.resume()

    assert stored == [(b"to", b"first")]
    assert got(reader).count(b"first") == 100


def test_headers_go_to_clients_that_understand_them(account: Account) -> None:
    """`headers:false` subscribers get MSG with the header block removed."""
    modern, old, writer = account.client(), account.client(headers=False), account.client()
    modern.parser.feed(b"SUB a 1\r\n")
    old.parser.feed(b"SUB a 1\r\n")

    writer.parser.feed(b"HPUB a 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")

    assert got(modern) == b"HMSG a 1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"
    assert got(old) == b"MSG a 1 2\r\nhi\r\n"


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (b"PUB  a   2\r\nhi\r\n", b"2"),
        (b"PUB\ta\t2\r\nhi\r\n", b"2"),
        (b"PUB a 2 \r\nhi\r\n", b"2"),
        (b"pub a 02\r\nhi\r\n", b"02"),  # passed on as it was written, as nats-server does
    ],
)
def test_a_frame_with_odd_blanks_is_delivered_in_order(
    account: Account, frame: bytes, size: bytes
) -> None:
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"SUB a 1\r\n")

    writer.parser.feed(frame)

    assert got(reader) == b"MSG a 1 %b\r\nhi\r\n" % size


def test_one_member_of_each_queue_group_gets_a_message(account: Account) -> None:
    members, writer = [account.client() for _ in range(4)], account.client()
    for member in members:
        member.parser.feed(b"SUB a q 1\r\nSUB a r 2\r\n")

    writer.parser.feed(b"PUB a 1\r\nx\r\n" * 200)

    counts = [got(member).count(b"MSG a 1 ") for member in members]
    assert sum(counts) == 200
    assert all(counts), "every member has its share"


def test_a_client_without_echo_does_not_hear_itself(account: Account) -> None:
    silent, other = account.client(echo=False), account.client()
    silent.parser.feed(b"SUB a 1\r\n")
    other.parser.feed(b"SUB a 1\r\n")

    silent.parser.feed(b"PUB a 1\r\nx\r\n")

    assert got(silent) == b""
    assert got(other) == b"MSG a 1 1\r\nx\r\n"


def test_unsubscribing_after_a_count_holds_within_one_chunk(account: Account) -> None:
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"SUB a 1\r\nUNSUB 1 2\r\n")

    writer.parser.feed(b"PUB a 1\r\nx\r\n" * 5)

    assert got(reader).count(b"MSG") == 2
    assert len(reader.subscriptions) == 0
    assert account.router.sublist.count == 0


def test_inboxes_share_a_route_until_a_client_subscribes_to_one(account: Account) -> None:
    """One-shot inboxes are not cached, and stay correct."""
    mux, literal, writer = account.client(), account.client(), account.client()
    mux.parser.feed(b"SUB _INBOX.m.* 1\r\n")
    writer.parser.feed(b"PUB _INBOX.m.1 1\r\na\r\n")
    literal.parser.feed(b"SUB _INBOX.m.2 9\r\n")

    writer.parser.feed(b"PUB _INBOX.m.2 1\r\nb\r\nPUB _INBOX.m.3 1\r\nc\r\n")

    assert got(mux).count(b"MSG") == 3
    assert got(literal) == b"MSG _INBOX.m.2 9 1\r\nb\r\n"


def test_subjects_that_only_a_stream_wants_share_a_result_until_one_has_a_reader(
    account: Account,
) -> None:
    """No object of its own for a subject only a stream wants."""
    router = account.router
    orders, others = (Target(PUBLISH, None, b"") for _ in range(2))
    router.serve(Resolving(lambda s: orders if s.startswith(b"o.") else others), {}, {})
    shared = router.route(b"o.1")

    assert router.route(b"o.2") is shared
    assert router.route(b"o.1") is router.route(b"o.2") is shared, "the second time it is cached"
    assert router.sublist.match(b"o.1") is router.sublist.match(b"o.2")
    assert router.route(b"p.1").target is others

    account.client().parser.feed(b"SUB o.2 1\r\n")

    assert router.route(b"o.1") is shared
    assert len(router.route(b"o.2").subscribers) == 1


def test_subjects_that_shared_a_result_part_when_streams_change(account: Account) -> None:
    """The engine's part of a route is good while its generation stands."""
    router = account.router
    first, second = (Target(PUBLISH, None, b"") for _ in range(2))
    router.serve(Resolving(lambda _subject: first), {}, {})
    for subject in (b"o.1", b"o.2", b"o.3"):
        assert router.route(subject).target is first

    router.generation += 1
    router.serve(Resolving({b"o.1": second, b"o.2": first}.get), {}, {})

    assert router.route(b"o.1").target is second
    assert router.route(b"o.2").target is first
    assert router.route(b"o.3").target is None
    assert router.route(b"o.1").target is second


def test_a_requester_is_notified_of_no_responders_at_once(account: Account) -> None:
    """wire.md, Core protocol: 503 with the subject asked."""
    client = account.client()
    client.no_responders = True
    client.parser.feed(b"SUB _INBOX.1 1\r\nPUB nobody _INBOX.1 0\r\n\r\n")

    assert got(client) == (
        b"HMSG _INBOX.1 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
    )


def test_traffic_is_counted_for_client_and_account(account: Account) -> None:
    reader, writer = account.client(), account.client()
    reader.parser.feed(b"SUB a 1\r\n")

    writer.parser.feed(b"PUB a 3\r\nabc\r\n" * 4)

    assert (writer.receiver.traffic.in_msgs, writer.receiver.traffic.in_bytes) == (4, 12)
    assert (reader.receiver.traffic.out_msgs, reader.receiver.traffic.out_bytes) == (4, 12)
    total = account.router.traffic
    assert (total.in_msgs, total.in_bytes, total.out_msgs, total.out_bytes) == (4, 12, 4, 12)


@pytest.mark.parametrize(
    ("frame", "compact"),
    [
        (b"PUB a 2\r\nhi\r\n", True),
        (b"PUB a r 2\r\nhi\r\n", True),
        (b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", True),
        (b"HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", True),
        (b"PUB a  2\r\nhi\r\n", False),
        (b"PUB a  r 2\r\nhi\r\n", False),
        (b"PUB a r  2\r\nhi\r\n", False),
        (b"PUB a 2 \r\nhi\r\n", False),
        (b"HPUB a 12  14\r\nNATS/1.0\r\n\r\nhi\r\n", False),
        (b"PUB a 2\nhi\r\n", False),
    ],
)
def test_only_single_blanks_are_forwarded(frame: bytes, compact: bool) -> None:
    """A frame is forwarded as it came only if its arguments stand as MSG needs."""
    from tests.support.recording import RecordingServerOps

    class Ops(RecordingServerOps):
        found: bool | None = None

        def on_pub(self, frame: Frame) -> None:
            self.found = is_compact(frame)

    ops = Ops()
    ServerParser(ops, 4096, 1 << 20, headers=True).feed(frame)

    assert ops.found is compact


def test_subjects_without_a_receiver_have_one_route(account: Account) -> None:
    """No object for each of a million subjects that no client and no stream wants."""
    router = account.router
    account.client().parser.feed(b"SUB a.* 1\r\n")
    route = router.route(b"x.0")

    assert (route.subscribers, route.groups, route.target) == ([], [], None)
    assert all(router.route(b"x.%d" % n) is route for n in range(100))
    assert router.sublist.cached(b"x.0") is not None, "it was used twice"
    assert sum(router.sublist.cached(b"x.%d" % n) is not None for n in range(100)) == 1


def test_routes_that_are_replaced_are_freed_without_a_collection(account: Account) -> None:
    """Each change of streams replaces them; garbage in between pins memory of removed streams."""
    router = account.router
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            router.follow_streams(router.generation + 1, stores_inboxes=False)
            for _ in range(3):
                router.route(b"nobody.wants.this")
        routes = [each for each in gc.get_objects() if isinstance(each, Route)]
    finally:
        gc.enable()

    assert len(routes) < 20


def test_a_flood_of_subjects_that_are_used_once_evicts_no_route(account: Account) -> None:
    router = account.router
    account.client().parser.feed(b"SUB a.* 1\r\nSUB flood.> 2\r\n")
    hot = [router.route(b"a.%d" % (n // 2)) for n in range(200)][1::2]

    for n in range(100_000):
        router.route(b"flood.%d.x" % n)

    assert [router.route(b"a.%d" % n) for n in range(100)] == hot


def test_the_engine_is_asked_once_for_all_subjects_of_a_pattern(account: Account) -> None:
    router = account.router
    asked: list[bytes] = []
    target = Target(PUBLISH, None, b"")

    def resolve(subject: bytes) -> Target | None:
        asked.append(subject)
        return target

    stored = Sublist(0)
    stored.insert(b"orders.>", b"", "a claim")
    router.serve(Resolving(resolve), {}, {}, stored)

    assert all(router.route(b"orders.%d" % n).target is target for n in range(50))
    assert all(router.route(b"others.%d" % n).target is None for n in range(50))
    assert asked == [b"orders.0"]
    router.follow_streams(router.generation + 1, stores_inboxes=False)
    assert router.route(b"orders.50").target is target
    assert asked == [b"orders.0", b"orders.50"]


def test_subjects_of_a_stream_and_of_no_stream_do_not_mix(account: Account) -> None:
    router = account.router
    stored = Sublist(0)
    stored.insert(b"s.*", b"", "a claim")
    router.serve(Resolving(lambda _subject: Target(PUBLISH, None, b"")), {}, {}, stored)

    for n in range(3):
        assert router.route(b"s.%d" % n).target is not None
        assert router.route(b"t.%d" % n).target is None


def test_a_message_that_waits_is_not_overtaken_on_a_subject_used_once(account: Account) -> None:
    """Its receivers take several turns; then only one of them is left."""
    router, reader = account.router, account.client()
    reader.parser.feed(b"".join(b"SUB w.> %d\r\n" % sid for sid in range(20_000)))
    reader.receiver.out_max = 1 << 40
    router.send(b"w.x", b"w.x", b"", b"", b"first")
    assert router.is_waiting(b"w.x")
    reader.parser.feed(b"".join(b"UNSUB %d\r\n" % sid for sid in range(1, 20_000)))

    router.send(b"w.x", b"w.x", b"", b"", b"second")

    assert b"second" not in got(reader)
    while router.fan_out():
        pass
    assert b"second" in got(reader)


def test_lists_of_very_many_groups_count_as_work_of_the_turn_that_makes_them(
    account: Account,
) -> None:
    """Once, not again for each message; otherwise a turn would do it besides its share."""
    router, reader = account.router, account.client()
    reader.parser.feed(b"".join(b"SUB w.> q%d %d\r\n" % (n, n) for n in range(1000)))
    router.turn.left = before = 10_000

    router.route(b"w.1")
    assert router.turn.left == before - 1000
    router.route(b"w.2")
    assert router.turn.left == before - 1000


def test_a_client_for_which_too_many_messages_wait_is_dropped_also_if_they_are_not_routed(
    account: Account,
) -> None:
    client = account.client()
    subs = b"".join(b"SUB many %d\r\n" % number for number in range(2000))
    client.parser.feed(subs)
    neighbour = account.client()

    for _ in range(WAITING_MAX + 10):
        account.router.send(b"many", b"many", b"", b"", b"x")

    assert account.router.is_behind()
    assert client.receiver.overflowed
    assert not neighbour.receiver.overflowed


class Asking(Resolving):
    """An engine that notes the requests it gets."""

    def __init__(self) -> None:
        super().__init__(lambda name: Target(REQUEST, None, name) if name == b"ask" else None)
        self.replies: list[bytes] = []

    def request(
        self, _target: Target, reply: bytes, _headers: bytes, _body: bytes, _by: Requester, /
    ) -> None:
        self.replies.append(reply)


def test_clients_wait_for_messages_of_others_only_if_they_would_add_to_them(
    account: Account,
) -> None:
    """Very many answers for very many receivers wait; what else is asked is answered."""
    router, engine = account.router, Asking()
    router.serve(engine, {}, {})
    for _ in range(2 * NARROW_MAX):
        account.client().parser.feed(b"SUB many 1\r\n")
    while not router.is_behind():
        router.send(b"many", b"many", b"", b"", b"x")
    neighbour, asking = account.client(), account.client()
    neighbour.parser.feed(b"SUB mine 1\r\nPUB ask mine 0\r\n\r\nPUB mine 2\r\nhi\r\nPING\r\n")
    asking.parser.feed(b"PING\r\nPUB ask many 0\r\n\r\nPING\r\n")

    assert engine.replies == [b"mine"]
    assert got(neighbour) == b"MSG mine 1 2\r\nhi\r\nPONG\r\n"
    assert got(asking) == b"PONG\r\n"
    assert (neighbour.paused, asking.paused, asking.holds_back) == (False, True, True)
    asking.resume()
    assert engine.replies == [b"mine"]

    while router.fan_out():
        pass
    asking.resume()

    assert engine.replies == [b"mine", b"many"]
    assert got(asking) == b"PONG\r\n"
    assert not asking.paused
    assert asking.receiver.traffic.in_msgs == 1
