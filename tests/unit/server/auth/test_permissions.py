"""Lists, queues, answers: each table row was observed on nats-server 2.15.1 over a raw socket.

``tests/interop/security/test_permissions_differential.py`` asks that server again.
"""

from __future__ import annotations

import pytest

from jetspark.server.auth.permissions import (
    CACHE_SIZE,
    RESPONSES_EXPIRE_DEFAULT_NS,
    PermissionCache,
    Permissions,
    Rules,
    is_reserved_publish,
    is_reserved_queue,
    is_reserved_reply,
)

SECOND = 1_000_000_000


def publishing(allow: list[bytes] | None, deny: list[bytes] | None = None) -> Permissions:
    return Permissions(Rules(allow, deny or [], None, []))


def subscribing(allow: list[bytes] | None, deny: list[bytes] | None = None) -> Permissions:
    return Permissions(Rules(None, [], allow, deny or []))


def answering(
    allow: list[bytes] | None = None,
    deny: list[bytes] | None = None,
    *,
    most: int = 0,
    expire_ns: int = 0,
    replies_max: int = 100,
) -> Permissions:
    return Permissions(Rules(allow, deny or [], None, [], True, most, expire_ns), replies_max)


@pytest.mark.parametrize(
    ("allow", "deny", "subject", "expected"),
    [
        (None, [], b"a", True),
        ([], [], b"a", False),
        ([b"a"], [], b"a", True),
        ([b"a"], [], b"b", False),
        ([b"a.*"], [], b"a.b", True),
        ([b"a.*"], [], b"a", False),
        ([b"a.*"], [], b"a.b.c", False),
        ([b"a.>"], [], b"a.b.c", True),
        ([b"a.>"], [], b"a", False),
        ([b">"], [b"a.>"], b"a.b", False),
        ([b">"], [b"a.>"], b"b.a", True),
        (None, [b"a"], b"a", False),
        (None, [b"a"], b"b", True),
        ([b"a"], [b"a"], b"a", False),
        # Wildcard characters in what is published are words, and a word is what * stands for.
        ([b"a.*"], [], b"a.>", True),
        ([b"a.b"], [], b"a.*", False),
        (None, [b"a.*"], b"a.*", False),
        # Nothing matches an empty token: no allow list has it, no deny list stops it.
        ([b">"], [], b"a..b", False),
        (None, [b">"], b"a..b", True),
        ([b"f*o"], [], b"f*o", True),
        ([b"f*o"], [], b"foo", False),
        # To JetStream they are wildcards: all that they stand for must be allowed, none denied.
        ([b"$JS.API.DIRECT.GET.S.*"], [], b"$JS.API.DIRECT.GET.S.*", True),
        ([b"$JS.API.DIRECT.GET.S.*"], [], b"$JS.API.DIRECT.GET.S.>", False),
        ([b"$JS.API.DIRECT.GET.S.a.*"], [], b"$JS.API.DIRECT.GET.S.*.b", False),
        ([b"$JS.API.>"], [b"$JS.API.DIRECT.GET.S.a.secret"], b"$JS.API.DIRECT.GET.S.a.*", False),
        (None, [b"$JS.API.DIRECT.GET.S.a.secret"], b"$JS.API.DIRECT.GET.S.>", False),
        (None, [b"$JS.API.DIRECT.GET.S.a.secret"], b"$JS.API.DIRECT.GET.S.b.>", True),
        (None, [b"$JS.API.CONSUMER.CREATE.S.*.a"], b"$JS.API.CONSUMER.CREATE.S.c.>", False),
        (None, [b"$JS.API.CONSUMER.CREATE.S.*.a"], b"$JS.API.CONSUMER.CREATE.S.c.b.*", True),
    ],
)
def test_publishing_follows_the_lists(
    allow: list[bytes] | None, deny: list[bytes], subject: bytes, *, expected: bool
) -> None:
    permissions = publishing(allow, deny)

    assert permissions.may_publish(subject, 0) is expected
    assert permissions.may_publish(subject, 0) is expected, "what is remembered says the same"


def test_an_answer_of_another_is_no_way_to_what_jetstream_refuses() -> None:
    permissions = publishing([b"svc", b"$JS.API.INFO"])

    assert permissions.may_be_answered_at(b"_INBOX.x")
    assert permissions.may_be_answered_at(b"$KV.b.k")
    assert permissions.may_be_answered_at(b"$JS.API.INFO")
    assert not permissions.may_be_answered_at(b"$JS.API.STREAM.DELETE.S")
    assert subscribing([]).may_be_answered_at(b"$JS.API.STREAM.DELETE.S")


def test_long_lists_say_what_short_ones_say() -> None:
    many = [b"n%d.>" % number for number in range(200)]

    assert publishing([*many, b"a.*"]).may_publish(b"a.b", 0)
    assert not publishing([*many, b"a.*"]).may_publish(b"a.b.c", 0)
    assert not publishing(None, [*many, b"a.*"]).may_publish(b"a.b", 0)


@pytest.mark.parametrize(
    ("allow", "deny", "subject", "queue", "expected"),
    [
        (None, [], b"a", b"", True),
        ([b"a"], [], b"a", b"", True),
        ([b"a"], [], b"b", b"", False),
        ([b"a.*"], [], b"a.*", b"", True),
        ([b"a.>"], [], b"a.*", b"", True),
        ([b"a.>"], [], b"a.>", b"", True),
        ([b"a.b"], [], b"a.*", b"", False),
        ([b"a.>"], [], b">", b"", False),
        ([b"*.b"], [], b"*.b", b"", True),
        # Deny stops what it covers; what is wider is accepted and looked at when delivered.
        (None, [b"a"], b"a", b"", False),
        (None, [b"a.*"], b"a.*", b"", False),
        (None, [b"a.*"], b"a.>", b"", False),
        (None, [b"a.b"], b"a.*", b"", True),
        (None, [b"a.*"], b">", b"", True),
        # allow ["foo"]: plain and any queue.
        ([b"foo"], [], b"foo", b"q", True),
        # allow ["foo v1"]: that queue only, no plain subscription.
        ([b"foo v1"], [], b"foo", b"", False),
        ([b"foo v1"], [], b"foo", b"v1", True),
        ([b"foo v1"], [], b"foo", b"v2", False),
        ([b"  foo   v1 "], [], b"foo", b"v1", True),
        # allow ["foo", "foo v1"]: plain, and that queue only.
        ([b"foo", b"foo v1"], [], b"foo", b"", True),
        ([b"foo", b"foo v1"], [], b"foo", b"v1", True),
        ([b"foo", b"foo v1"], [], b"foo", b"v2", False),
        # Queues have wildcards too, as whole tokens.
        ([b"foo v.*"], [], b"foo", b"v.1", True),
        ([b"foo v.*"], [], b"foo", b"v.*", True),
        ([b"foo v.*"], [], b"foo", b"v.>", False),
        ([b"foo v.*"], [], b"foo", b"v.1.2", False),
        ([b"foo v.>"], [], b"foo", b"v.1.2", True),
        ([b"foo *"], [], b"foo", b"any", True),
        ([b"foo q*"], [], b"foo", b"q1", False),
        ([b"foo q*"], [], b"foo", b"q*", True),
        # Denied queues.
        (None, [b"foo q"], b"foo", b"q", False),
        (None, [b"foo q"], b"foo", b"r", True),
        (None, [b"foo q"], b"foo", b"", True),
        (None, [b"foo *.prod"], b"foo", b"eu.prod", False),
        (None, [b"foo *.prod"], b"foo", b"eu.dev", True),
        ([b"foo"], [b"foo q"], b"foo", b"q", False),
        (None, [b"foo q"], b">", b"q", True),
    ],
)
def test_subscribing_follows_the_lists(
    allow: list[bytes] | None, deny: list[bytes], subject: bytes, queue: bytes, *, expected: bool
) -> None:
    assert subscribing(allow, deny).may_subscribe(subject, queue) is expected


@pytest.mark.parametrize(
    ("allow", "subject", "queue"),
    [
        ([b"foo.*"], b"foo.>", b""),
        ([b"*"], b">", b""),
        ([b"*.*"], b"*.>", b""),
        ([b"foo.*"], b"foo.>", b"q"),
        ([b"foo.* q"], b"foo.>", b"q"),
    ],
)
def test_a_star_does_not_allow_everything_below_it(
    allow: list[bytes], subject: bytes, queue: bytes
) -> None:
    """nats-server accepts these and then delivers ``foo.a.b``, which nothing allowed."""
    assert not subscribing(allow).may_subscribe(subject, queue)


def test_an_entry_for_a_queue_does_not_take_away_what_a_wider_entry_allows() -> None:
    permissions = subscribing([b"foo.* q", b"foo.>"])

    assert permissions.may_subscribe(b"foo.>", b"q")
    assert not permissions.may_subscribe(b"foo.>", b"r"), "foo.* is for q only"


def test_only_a_subscription_that_overlaps_a_deny_makes_deliveries_be_looked_at() -> None:
    permissions = subscribing(None, [b"a.b"])

    assert permissions.may_subscribe(b"b.*", b"")
    assert permissions.may_subscribe(b"a.c", b"")
    assert not permissions.needs_delivery_check

    assert permissions.may_subscribe(b"a.*", b"")
    assert permissions.needs_delivery_check


def test_a_refused_subscription_does_not_make_deliveries_be_looked_at() -> None:
    permissions = subscribing([b"x"], [b"a.b"])

    assert not permissions.may_subscribe(b"a.*", b"")
    assert not permissions.needs_delivery_check


@pytest.mark.parametrize(
    ("deny", "subject", "queue", "expected"),
    [
        ([b"a.b"], b"a.b", b"", False),
        ([b"a.b"], b"a.c", b"", True),
        ([b"a.>"], b"a.b.c", b"", False),
        ([b"a.b"], b"a.b", b"q", False),
        ([b"a.b q"], b"a.b", b"", True),
        ([b"a.b q"], b"a.b", b"q", False),
        ([b"a.b q"], b"a.b", b"r", True),
        ([b"a.b q.*"], b"a.b", b"q.1", False),
        ([b"a.b q", b"a.c"], b"a.c", b"r", False),
        ([b"a.b q", b"a.c"], b"a.c", b"", False),
    ],
)
def test_a_wide_subscription_does_not_get_what_is_denied(
    deny: list[bytes], subject: bytes, queue: bytes, *, expected: bool
) -> None:
    permissions = subscribing(None, deny)
    assert permissions.may_subscribe(b">", queue)

    assert permissions.needs_delivery_check
    assert permissions.may_deliver(subject, queue) is expected
    assert permissions.may_deliver(subject, queue) is expected, "remembered"


def test_no_answer_without_a_request() -> None:
    permissions = answering()

    assert permissions.tracks_replies
    assert not permissions.may_publish(b"r", 0)


def test_a_request_may_be_answered_once_by_default() -> None:
    permissions = answering()
    permissions.note_request(b"r", 0)

    assert permissions.may_publish(b"r", 1)
    assert not permissions.may_publish(b"r", 2)
    assert permissions.replies_count() == 0, "what cannot be answered any more is forgotten"


def test_a_request_may_be_answered_so_many_times() -> None:
    permissions = answering(most=3)
    permissions.note_request(b"r", 0)

    assert [permissions.may_publish(b"r", 1) for _ in range(5)] == [True] * 3 + [False] * 2


def test_negative_numbers_mean_without_limit() -> None:
    permissions = answering(most=-1, expire_ns=-1)
    permissions.note_request(b"r", 0)

    assert all(permissions.may_publish(b"r", 10**6 * SECOND) for _ in range(100))


def test_a_request_may_be_answered_until_it_expires() -> None:
    permissions = answering(most=-1)
    permissions.note_request(b"r", 5)

    assert permissions.may_publish(b"r", 5 + RESPONSES_EXPIRE_DEFAULT_NS)
    assert not permissions.may_publish(b"r", 6 + RESPONSES_EXPIRE_DEFAULT_NS)
    assert not permissions.may_publish(b"r", 5), "an expired request is forgotten"


def test_leave_to_answer_wins_over_deny() -> None:
    permissions = answering(deny=[b"r"])
    permissions.note_request(b"r", 0)

    assert permissions.may_publish(b"r", 0)
    assert not permissions.may_publish(b"r", 0)


def test_leave_to_answer_adds_to_an_allow_list() -> None:
    permissions = answering([b"a"])

    assert permissions.may_publish(b"a", 0)
    assert not permissions.may_publish(b"b", 0)


def test_a_reply_subject_that_may_be_published_anyway_is_not_counted() -> None:
    permissions = answering([b"r"])
    permissions.note_request(b"r", 0)

    assert permissions.replies_count() == 0


def test_a_second_request_with_the_same_reply_uses_up_an_answer() -> None:
    """Looks wrong and is what nats-server does: two requests, no answer; three, one answer."""
    permissions = answering()
    for _ in range(2):
        permissions.note_request(b"r", 0)
    assert not permissions.may_publish(b"r", 0)

    for _ in range(3):
        permissions.note_request(b"r", 0)
    assert permissions.may_publish(b"r", 0)
    assert not permissions.may_publish(b"r", 0)


def test_requests_are_forgotten_when_they_have_expired() -> None:
    permissions = answering(expire_ns=SECOND)
    for number in range(50):
        permissions.note_request(b"early.%d" % number, 0)
    permissions.note_request(b"late", 2 * SECOND)
    permissions.note_request(b"later", 4 * SECOND)

    assert permissions.replies_count() == 2
    assert permissions.may_publish(b"later", 4 * SECOND)


def test_requests_are_not_forgotten_before_they_have_expired() -> None:
    permissions = answering(expire_ns=100)
    for now in (0, 60, 120, 150):
        permissions.note_request(b"at.%d" % now, now)

    assert not permissions.may_publish(b"at.0", 155)
    assert all(permissions.may_publish(b"at.%d" % now, 155) for now in (60, 120, 150))


def test_requests_without_an_answer_are_bounded() -> None:
    """nats-server keeps them all; here everything that is kept has a bound."""
    permissions = answering(most=-1, expire_ns=-1, replies_max=10)
    for number in range(100):
        permissions.note_request(b"r.%d" % number, number)

    assert permissions.replies_count() <= 20
    assert permissions.may_publish(b"r.99", 100)
    assert permissions.may_publish(b"r.90", 100)
    assert not permissions.may_publish(b"r.0", 100)


def test_connections_of_a_user_share_rules_and_not_requests() -> None:
    rules = Rules(None, [], None, [], True)
    one, other = Permissions(rules), Permissions(rules)
    one.note_request(b"r", 0)

    assert not other.may_publish(b"r", 0)
    assert one.may_publish(b"r", 0)


def test_verdicts_are_bounded_and_the_used_ones_stay() -> None:
    verdicts = PermissionCache(10)
    verdicts.keep(b"hot", True)
    for number in range(1000):
        verdicts.keep(b"s.%d" % number, False)
        assert verdicts.find(b"hot") == 1

    assert verdicts.count() <= 21
    assert verdicts.find(b"s.0") == -1
    assert verdicts.find(b"s.999") == 0


def test_random_subjects_do_not_fill_the_memory() -> None:
    rules = Rules([b"a.>"], [], None, [b"x"])
    permissions = Permissions(rules)
    for number in range(3 * CACHE_SIZE):
        permissions.may_publish(b"a.%d" % number, 0)
        permissions.may_deliver(b"a.%d" % number, b"")

    assert rules._publish_verdicts.count() <= 2 * CACHE_SIZE
    assert rules._delivery_verdicts.count() <= 2 * CACHE_SIZE


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (b"a b c", "expected a subject, or a subject and a queue"),
        (b"  ", "expected a subject, or a subject and a queue"),
        (b"a..b", "the subject is not valid"),
        (b"a >.q", "the queue is not valid"),
        (b"a *q.>", r"b'\*q' in a queue with wildcards"),
    ],
)
def test_an_entry_that_is_not_valid_is_refused(entry: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Rules(None, [], [entry], [])


def test_publish_lists_have_no_queues() -> None:
    with pytest.raises(ValueError, match="the subject is not valid"):
        Rules([b"a b"], [], None, [])


@pytest.mark.parametrize(
    ("subject", "system", "expected"),
    [
        (b"_GR_.x", False, True),
        (b"_GR_.", False, False),
        (b"_GR_x", False, False),
        (b"$GR.x", False, True),
        (b"$GR.", False, False),
        (b"_GR_.x", True, True),
        (b"$NRG.x", False, True),
        (b"$NRG.x", True, False),
        (b"$NRGx", False, False),
        (b"a", False, False),
    ],
)
def test_subjects_of_the_servers_are_not_for_clients(
    subject: bytes, *, system: bool, expected: bool
) -> None:
    assert is_reserved_publish(subject, system) is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"$JS.ACK.x", True),
        (b"$JS.ACK.", False),
        (b"$JS.ACK", False),
        (b"$JS.ACKx", False),
        (b"_R_.x", True),
        (b"_R_.", True),
        (b"_R_x", False),
        (b"_GR_.x", True),
        (b"_GR_.", False),
        (b"$GR.x", True),
        (b"$GR.", False),
        (b"_INBOX.x", False),
    ],
)
def test_no_client_may_request_answers_on_reserved_subjects(
    reply: bytes, *, expected: bool
) -> None:
    assert is_reserved_reply(reply) is expected


def test_the_queue_of_the_servers_is_not_for_clients() -> None:
    assert is_reserved_queue(b"_sys_")
    assert not is_reserved_queue(b"sys")
