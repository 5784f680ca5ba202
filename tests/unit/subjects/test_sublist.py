"""Who gets a message, and what the caches forget when that changes."""

import itertools
import random
import threading
import weakref
from collections.abc import Iterable

import pytest

from jetspark.subjects.sublist import LongSearch, Match, Sublist


def plain(result: Match) -> set[object]:
    return set(result.plain)


def groups(result: Match) -> dict[bytes, list[object]]:
    return dict(zip(result.group_names, result.groups, strict=True))


def sublist(*patterns: bytes, cache_size: int = 100) -> Sublist:
    """A list where each pattern is subscribed by a value that is the pattern itself."""
    made = Sublist(cache_size)
    for pattern in patterns:
        made.insert(pattern, b"", pattern)
    return made


EVERYTHING = (
    b">",
    b"a.>",
    b"a.*",
    b"*",
    b"*.*",
    b"*.*.*",
    b"a.*.b",
    b"f*o",
    b"f*o.>",
    b"a.>x",
    b"a.b*",
    b"*a.b",
    b"a",
    b"foo",
)


@pytest.mark.parametrize(
    ("subject", "receivers"),
    [
        (b"a..b", set()),
        (b"a.", set()),
        (b".a", set()),
        (b".", set()),
        (b"", set()),
        (b"a.*", {b"*.*", b">", b"a.*", b"a.>"}),
        (b"a.>", {b"*.*", b">", b"a.*", b"a.>"}),
        (b"*", {b"*", b">"}),
        (b">", {b"*", b">"}),
        (b"f*o", {b"*", b">", b"f*o"}),
        (b"foo", {b"*", b">", b"foo"}),
        (b"f*o.x", {b"*.*", b">", b"f*o.>"}),
        (b"a.>x", {b"*.*", b">", b"a.*", b"a.>", b"a.>x"}),
        (b"a.b*", {b"*.*", b">", b"a.*", b"a.>", b"a.b*"}),
        (b"*.b", {b"*.*", b">"}),
    ],
)
@pytest.mark.parametrize("method", ["match", "match_once", "has_interest"])
def test_odd_subjects_are_delivered_as_by_nats_server(
    subject: bytes, receivers: set[bytes], method: str
) -> None:
    """Every row was observed on nats-server 2.15.1 with these subscriptions."""
    subscriptions = sublist(*EVERYTHING)
    for _ in range(2):
        if method == "has_interest":
            assert subscriptions.has_interest(subject) is bool(receivers)
        elif method == "match":
            assert plain(subscriptions.match(subject)) == receivers
        else:
            assert plain(subscriptions.match_once(subject)) == receivers


@pytest.mark.parametrize(
    "pattern", [b"", b"a..b", b".a", b"a.", b">.a", b"a.>.b", b"a b", b"a\r\n"]
)
def test_a_bad_pattern_is_refused_by_name(pattern: bytes) -> None:
    with pytest.raises(ValueError, match=r"bad subject .*expected tokens"):
        sublist().insert(pattern, b"", 1)


@pytest.mark.parametrize("pattern", [b"a", b"a.b", b"a.*", b"*.b", b"a.>", b">", b"*.>"])
def test_what_was_inserted_can_be_removed_once(pattern: bytes) -> None:
    subscriptions = sublist(pattern)

    assert subscriptions.remove(pattern, b"", pattern)
    assert not subscriptions.remove(pattern, b"", pattern)
    assert subscriptions.count == 0
    assert not subscriptions.has_interest(b"a.b")
    assert not subscriptions.has_interest(b"a")


@pytest.mark.parametrize(
    "pattern", [b"x", b"a.c", b"a.*.c", b"*", b"a", b"*.>", b"*.>.b", b"a..b", b""]
)
def test_removing_what_is_not_there_changes_nothing(pattern: bytes) -> None:
    subscriptions = sublist(b"a.*", b"a.>", b"a.b", b"*.b.c")
    before = subscriptions.generation

    assert not subscriptions.remove(pattern, b"", b"a.*")
    assert not subscriptions.remove(b"a.*", b"q", b"a.*")
    assert not subscriptions.remove(b"a.*", b"", b"other")
    assert (before, 4) == (subscriptions.generation, subscriptions.count)


def test_a_bad_pattern_does_not_remove_its_neighbour() -> None:
    subscriptions = sublist(b"*")

    assert not subscriptions.remove(b"*.>.b", b"", b"*")
    assert subscriptions.has_interest(b"a")


def test_values_are_distinguished_by_identity() -> None:
    first, second = [1], [1]
    subscriptions = sublist()
    subscriptions.insert(b"a", b"", first)

    assert not subscriptions.remove(b"a", b"", second)
    assert subscriptions.remove(b"a", b"", first)


def test_a_value_inserted_twice_gets_two_and_is_removed_one_by_one() -> None:
    subscriptions = sublist(b"a.*", b"a.*")

    assert subscriptions.match(b"a.b").plain == [b"a.*", b"a.*"]
    assert subscriptions.remove(b"a.*", b"", b"a.*")
    assert subscriptions.match(b"a.b").plain == [b"a.*"]


def test_subscribers_keep_their_order() -> None:
    subscriptions = sublist()
    values = [object() for _ in range(6)]
    for value in values:
        subscriptions.insert(b"a.*", b"", value)
    subscriptions.remove(b"a.*", b"", values[2])

    assert [*values[:2], *values[3:]] == subscriptions.match(b"a.b").plain


def test_a_queue_group_gathers_its_members_over_all_patterns() -> None:
    subscriptions = sublist(b"a.b")
    for pattern, queue, value in (
        (b"a.b", b"q", 1),
        (b"a.*", b"q", 2),
        (b">", b"q", 3),
        (b"a.>", b"r", 4),
        (b"b.>", b"r", 5),
    ):
        subscriptions.insert(pattern, queue, value)
    result = subscriptions.match(b"a.b")

    assert result.plain == [b"a.b"]
    assert {b"q", b"r"} == set(result.group_names)
    assert ({1, 2, 3}, [4]) == (set(groups(result)[b"q"]), groups(result)[b"r"])


def test_a_group_ends_with_its_last_member() -> None:
    subscriptions = sublist()
    subscriptions.insert(b"a", b"q", 1)
    subscriptions.insert(b"a", b"q", 2)
    subscriptions.remove(b"a", b"q", 1)

    assert groups(subscriptions.match(b"a")) == {b"q": [2]}
    subscriptions.remove(b"a", b"q", 2)
    assert groups(subscriptions.match(b"a")) == {}
    assert not subscriptions.has_interest(b"a")


def test_queue_interest_is_interest() -> None:
    subscriptions = sublist()
    subscriptions.insert(b"a.*", b"q", 1)

    assert subscriptions.has_interest(b"a.b")


def test_generation_grows_with_every_change_and_count_counts() -> None:
    subscriptions = sublist(b"a", b"a.*")
    seen = [(subscriptions.generation, subscriptions.count)]
    subscriptions.match(b"a")
    subscriptions.remove(b"a", b"", b"a")
    seen.append((subscriptions.generation, subscriptions.count))
    subscriptions.insert(b"b", b"q", 1)
    seen.append((subscriptions.generation, subscriptions.count))

    assert seen == [(2, 2), (3, 1), (4, 2)]


def test_a_result_in_hand_does_not_change_under_its_reader() -> None:
    subscriptions = sublist(b"a.b")
    subscriptions.insert(b"a.b", b"q", 1)
    result = subscriptions.match(b"a.b")
    subscriptions.insert(b"a.b", b"", b"later")
    subscriptions.insert(b"a.b", b"q", 2)
    subscriptions.remove(b"a.b", b"", b"a.b")

    assert (result.plain, groups(result)) == ([b"a.b"], {b"q": [1]})
    assert not subscriptions.keeps(b"a.b", result)


def test_a_kept_result_is_given_again() -> None:
    subscriptions = sublist(b"a.*", b"b.>")
    first = subscriptions.match(b"a.b")
    first.route = "made of it"

    assert subscriptions.match(b"a.b") is first
    assert subscriptions.keeps(b"a.b", first)


def test_a_literal_change_drops_one_result_only() -> None:
    """Literal SUB / UNSUB must drop one route, not the whole cache."""
    subscriptions = sublist(b">")
    kept = {subject: subscriptions.match(subject) for subject in (b"a", b"a.b", b"c", b"d.e.f")}
    subscriptions.insert(b"a.b", b"", b"new")
    after_insert = {s for s, result in kept.items() if not subscriptions.keeps(s, result)}
    again = subscriptions.match(b"a.b")
    subscriptions.insert(b"_INBOX.x", b"", 1)
    subscriptions.remove(b"_INBOX.x", b"", 1)
    subscriptions.remove(b"a.b", b"", b"new")

    assert {b"a.b"} == after_insert
    assert {b">", b"new"} == plain(again)
    assert not subscriptions.keeps(b"a.b", again)
    assert all(subscriptions.keeps(s, kept[s]) for s in (b"a", b"c", b"d.e.f"))


def test_a_wildcard_change_drops_what_it_matches_only() -> None:
    subscriptions = sublist(b"x")
    kept = {s: subscriptions.match(s) for s in (b"a.b", b"a.b.c", b"a.bc", b"b.b", b"a", b"a..b")}
    subscriptions.insert(b"a.*", b"", 1)
    after_insert = {s for s, result in kept.items() if not subscriptions.keeps(s, result)}
    again = subscriptions.match(b"a.b")
    subscriptions.remove(b"a.*", b"", 1)

    assert {b"a.b", b"a.bc"} == after_insert
    assert not subscriptions.keeps(b"a.b", again)
    assert subscriptions.match(b"a.b.c") is kept[b"a.b.c"]


@pytest.mark.parametrize("pattern", [b">", b"*.b", b"*"])
def test_a_pattern_that_starts_with_a_wildcard_empties_the_cache(pattern: bytes) -> None:
    subscriptions = sublist()
    kept = {subject: subscriptions.match(subject) for subject in (b"a.b", b"c", b"d.e")}
    subscriptions.insert(pattern, b"", 1)

    assert not any(subscriptions.keeps(subject, result) for subject, result in kept.items())


def test_many_wildcard_changes_empty_the_cache_instead_of_searching_it_each_time() -> None:
    """The search is paid by earlier fills; one thousand changes may not cost a thousand walks."""
    subscriptions = sublist()
    kept = [subscriptions.match(b"keep.%d" % i) for i in range(50)]
    survived = 0
    for i in range(1000):
        subscriptions.insert(b"other%d.*" % i, b"", i)
        survived += subscriptions.keeps(b"keep.0", kept[0])

    assert 10 <= survived <= 100


def test_the_cache_is_bounded() -> None:
    subscriptions = sublist(b">", cache_size=16)
    results = [subscriptions.match(b"s.%d" % i) for i in range(200)]
    kept = [i for i, result in enumerate(results) if subscriptions.keeps(b"s.%d" % i, result)]

    assert 10 <= len(kept) <= 16
    assert all(subscriptions.match(b"s.%d" % i) is results[i] for i in kept)
    assert all(subscriptions.match(b"s.%d" % i).plain == [b">"] for i in range(200))


def test_subjects_in_a_circle_larger_than_the_cache_still_hit() -> None:
    """Dropping the oldest would never hit here."""
    subscriptions = sublist(b">", cache_size=64)
    before: dict[bytes, Match] = {}
    hits = 0
    for _ in range(20):
        for i in range(96):
            subject = b"s.%d" % i
            result = subscriptions.match(subject)
            hits += result is before.get(subject)
            before[subject] = result

    assert hits > 20 * 96 // 5


@pytest.mark.parametrize("cache_size", [0, 1, 2, 7])
def test_a_tiny_cache_gives_the_same_answers(cache_size: int) -> None:
    subscriptions = sublist(b"a.*", b"*.b", b"a.b", cache_size=cache_size)
    for _ in range(3):
        for subject, size in ((b"a.b", 3), (b"a.c", 1), (b"c.b", 1), (b"c.d", 0)):
            assert len(subscriptions.match(subject).plain) == size
            assert len(subscriptions.match_once(subject).plain) == size


def test_without_a_cache_no_result_is_kept() -> None:
    subscriptions = sublist(b"a", cache_size=0)

    assert not subscriptions.keeps(b"a", subscriptions.match(b"a"))
    assert subscriptions.match(b"a") is not subscriptions.match(b"a")


def test_inboxes_of_one_client_share_an_entry() -> None:
    """Replies resolve by their prefix up to the last dot."""
    subscriptions = sublist(b"_INBOX.c1.*", b"_INBOX.c2.*")
    first = subscriptions.match_once(b"_INBOX.c1.aaa")

    assert subscriptions.match_once(b"_INBOX.c1.bbb") is first
    assert first.plain == [b"_INBOX.c1.*"]
    assert subscriptions.match_once(b"_INBOX.c2.aaa").plain == [b"_INBOX.c2.*"]


def test_one_shot_subjects_leave_the_other_cache_alone() -> None:
    subscriptions = sublist(b"_INBOX.c1.*", cache_size=8)
    kept = subscriptions.match(b"orders")
    for i in range(100):
        subscriptions.match_once(b"_INBOX.c1.%d" % i)

    assert subscriptions.match(b"orders") is kept


def test_an_inbox_subscribed_by_its_own_name_is_found_despite_the_shared_entry() -> None:
    subscriptions = sublist(b"_INBOX.c1.*", b"_INBOX.c1.own", b"_INBOX.lone")

    assert {b"_INBOX.c1.*"} == plain(subscriptions.match_once(b"_INBOX.c1.x"))
    assert {b"_INBOX.c1.*", b"_INBOX.c1.own"} == plain(subscriptions.match_once(b"_INBOX.c1.own"))
    assert {b"_INBOX.lone"} == plain(subscriptions.match_once(b"_INBOX.lone"))
    assert set() == plain(subscriptions.match_once(b"_INBOX.gone"))


def test_a_shared_entry_is_not_used_where_the_last_token_matters() -> None:
    subscriptions = sublist(b"_INBOX.*.done", b"_INBOX.c1.*")

    assert {b"_INBOX.c1.*"} == plain(subscriptions.match_once(b"_INBOX.c1.x"))
    assert {b"_INBOX.c1.*", b"_INBOX.*.done"} == plain(subscriptions.match_once(b"_INBOX.c1.done"))


def test_places_of_removed_patterns_are_given_up() -> None:
    """An inbox would otherwise not share an entry again after ``_INBOX.*.done`` is removed."""
    subscriptions = sublist(b"_INBOX.*.done", b"_INBOX.c1.*", b"a.*.b.>", b"a.*.b.c.*")
    for pattern in (b"_INBOX.*.done", b"a.*.b.>", b"a.*.b.c.*"):
        assert subscriptions.remove(pattern, b"", pattern)

    assert subscriptions.match_once(b"_INBOX.c1.x") is subscriptions.match_once(b"_INBOX.c1.y")
    assert subscriptions.remove(b"_INBOX.c1.*", b"", b"_INBOX.c1.*")
    assert subscriptions._root.is_empty()


@pytest.mark.parametrize("pattern", [b"_INBOX.c1.*", b"_INBOX.*.x", b"*.*.*", b"_INBOX.>", b">"])
def test_a_wildcard_change_is_seen_by_shared_entries(pattern: bytes) -> None:
    subscriptions = sublist(b"_INBOX.c1.>")
    before = plain(subscriptions.match_once(b"_INBOX.c1.x"))
    subscriptions.insert(pattern, b"", b"new")
    during = plain(subscriptions.match_once(b"_INBOX.c1.x"))
    subscriptions.remove(pattern, b"", b"new")

    assert ({b"_INBOX.c1.>"}, {b"_INBOX.c1.>", b"new"}) == (before, during)
    assert before == plain(subscriptions.match_once(b"_INBOX.c1.x"))


def test_patterns_of_two_thousand_tokens_are_no_trouble() -> None:
    """A control line of 4,096 bytes allows them; a recursion would not."""
    depth = 2000
    patterns = [b".".join([b"*"] * depth)]
    patterns += [b".".join([b"*"] * at + [b"a"] * (depth - at)) for at in range(0, depth, 10)]
    subscriptions = sublist(*patterns)
    subject = b".".join([b"a"] * depth)

    assert set(patterns) == plain(subscriptions.match(subject))
    for pattern in patterns:
        assert subscriptions.remove(pattern, b"", pattern)
    assert not subscriptions.has_interest(subject)


@pytest.mark.parametrize("queue", [b"", b"q"])
def test_many_subscribers_of_one_subject_keep_their_order_and_leave_one_by_one(
    queue: bytes,
) -> None:
    subscriptions = Sublist()
    values = [object() for _ in range(200)]
    for value in [*values, values[7], values[7]]:
        subscriptions.insert(b"a", queue, value)
        assert subscriptions.has_interest(b"a")
    twice, rest = values[7], values[:7] + values[8:]
    for value in [*reversed(rest[50:]), twice, twice]:
        found = subscriptions.match(b"a")
        before = list(found.groups[0] if queue else found.plain)
        assert subscriptions.remove(b"a", queue, value)
        found = subscriptions.match(b"a")
        before.remove(value)
        assert sorted(map(id, found.groups[0] if queue else found.plain)) == sorted(
            map(id, before)
        )
    assert not subscriptions.remove(b"a", queue, object())
    found = subscriptions.match(b"a")
    assert (found.groups[0] if queue else found.plain) == [*rest[:7], twice, *rest[7:50]]
    for value in [*rest[:50], twice]:
        assert subscriptions.remove(b"a", queue, value)
    assert not subscriptions.has_interest(b"a")
    assert subscriptions.count == 0


def test_a_result_stays_as_it_was_while_many_come_and_go() -> None:
    subscriptions = Sublist()
    values = [object() for _ in range(100)]
    for value in values[:80]:
        subscriptions.insert(b"a.*", b"", value)
    kept = subscriptions.match(b"a.b")
    subscriptions.remove(b"a.*", b"", values[3])
    for value in values[80:]:
        subscriptions.insert(b"a.*", b"", value)
    assert kept.plain == values[:80]
    assert subscriptions.match(b"a.b").plain == values[:3] + values[4:]


def test_many_queue_groups_of_one_subject_come_and_go() -> None:
    subscriptions = Sublist()
    names = [b"q%d" % n for n in range(300)]
    for name in names:
        subscriptions.insert(b"a", name, name)
        subscriptions.insert(b"*", name, name)
    assert subscriptions.match(b"a").group_names == names
    assert all(group == [name] * 2 for name, group in groups(subscriptions.match(b"a")).items())
    for name in reversed(names):
        assert subscriptions.remove(b"a", name, name)
    assert subscriptions.match(b"a").group_names == names
    for name in names:
        assert subscriptions.remove(b"*", name, name)
    assert not subscriptions.has_interest(b"a")


@pytest.mark.parametrize("cache_size", [0, 1, 100])
def test_a_prefix_asked_for_last_is_not_remembered_over_a_change(cache_size: int) -> None:
    subscriptions = sublist(cache_size=cache_size)
    before = subscriptions.match_once(b"a.b.1").plain
    subscriptions.insert(b"a.b.*", b"", 1)
    between = subscriptions.match_once(b"a.b.2").plain
    subscriptions.remove(b"a.b.*", b"", 1)

    assert (before, between, subscriptions.match_once(b"a.b.3").plain) == ([], [1], [])


def test_results_of_an_emptied_cache_are_freed_while_it_fills_again() -> None:
    """All at once would take tens of milliseconds of one turn."""
    subscriptions = sublist(cache_size=1_000)
    held = []
    for i in range(1_000):
        result = subscriptions.match(b"a.%d" % i)
        result.route = threading.Event()  # anything that has weak references
        held.append(weakref.ref(result.route))
    del result
    subscriptions.insert(b">", b"", 1)
    left = [sum(ref() is not None for ref in held)]
    for i in range(1_000):
        subscriptions.match(b"b.%d" % i)
        left.append(sum(ref() is not None for ref in held))

    assert left[0] > 900
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_subjects_of_one_pattern_share_what_find_returns_until_it_changes() -> None:
    subscriptions = sublist(b"a.*", b"b.>", b"c")
    shared = subscriptions.find(b"a.1")

    assert shared.plain == [b"a.*"]
    assert subscriptions.find(b"a.2") is shared
    assert subscriptions.find(b"b.2").plain == [b"b.>"]
    assert subscriptions.find(b"c").plain == [b"c"]

    subscriptions.insert(b"a.*", b"", 2)
    assert subscriptions.find(b"a.1").plain == [b"a.*", 2]
    subscriptions.insert(b"a.*", b"q", 3)
    assert groups(subscriptions.find(b"a.1")) == {b"q": [3]}
    subscriptions.remove(b"a.*", b"q", 3)
    subscriptions.remove(b"a.*", b"", b"a.*")
    assert subscriptions.find(b"a.1").plain == [2]
    assert (shared.plain, shared.groups) == ([b"a.*"], [])


def test_subjects_without_subscribers_share_what_find_returns() -> None:
    subscriptions = sublist(b"a.*", b"*.b", b"c.d.>")
    none = subscriptions.find(b"x")

    assert (none.plain, none.groups) == ([], [])
    for subject in (b"a", b"a.c.d", b"c.d", b"c.e.f", b"a.", b".b", b"c.d..e", b""):
        assert subscriptions.find(subject) is none
    assert plain(subscriptions.find(b"a.b")) == {b"a.*", b"*.b"}


def test_a_token_is_found_although_others_that_began_with_its_byte_were_removed() -> None:
    words = [b"%c%d.*" % (first, n) for n in range(3) for first in b"abcdefgh"]
    subscriptions = sublist(*words)
    for gone in range(len(words)):
        assert subscriptions.remove(words[gone], b"", words[gone])
        for at, word in enumerate(words):
            expected = {word} if at > gone else set()
            assert plain(subscriptions.find(word.replace(b"*", b"x"))) == expected


def test_a_subject_is_frequent_when_it_comes_again_among_few_others() -> None:
    subscriptions = sublist()

    assert not subscriptions.is_frequent(b"orders.new")
    assert subscriptions.is_frequent(b"orders.new")
    for n in range(1000):
        subscriptions.is_frequent(b"once.%d" % n)
    assert sum(subscriptions.is_frequent(b"once.%d" % n) for n in range(1000)) > 900


def test_subjects_in_a_circle_of_very_many_are_not_frequent() -> None:
    """Otherwise a flood of them would evict what is used often."""
    subscriptions = sublist()
    flood = [b"sensor.%d.value" % n for n in range(100_000)]
    for subject in flood:
        subscriptions.is_frequent(subject)

    assert sum(map(subscriptions.is_frequent, flood)) < 1_000


def test_without_a_cache_no_subject_is_frequent() -> None:
    subscriptions = sublist(cache_size=0)

    assert not any(subscriptions.is_frequent(b"a") for _ in range(3))


def test_forgotten_results_keep_nothing_alive_and_are_found_again() -> None:
    subscriptions = sublist(b"a.>")
    held = []
    for subject in (b"a.1", b"a.2"):
        result = subscriptions.match(subject)
        result.route = threading.Event()  # anything that has weak references
        held.append(weakref.ref(result.route))
    subscriptions.match_once(b"a.b.3")
    del result
    subscriptions.forget_results()

    assert [ref() for ref in held] == [None, None]
    assert subscriptions.cached(b"a.1") is None
    assert plain(subscriptions.match(b"a.1")) == {b"a.>"}
    assert plain(subscriptions.match_once(b"a.b.3")) == {b"a.>"}


def test_many_forgotten_results_are_freed_in_steps() -> None:
    subscriptions = sublist(cache_size=5_000)
    held = []
    for i in range(5_000):
        result = subscriptions.match(b"a.%d" % i)
        result.route = threading.Event()
        held.append(weakref.ref(result.route))
    del result
    subscriptions.forget_results()

    assert 3_500 < sum(ref() is not None for ref in held) < 4_500
    assert subscriptions.cached(b"a.1") is None


BRANCHES = [b".".join(tokens) for tokens in itertools.product([b"a", b"*"], repeat=10)]


@pytest.mark.parametrize(
    ("ending", "asked"),
    [
        (b".z", b".m%d"),
        (b".*.z", b".a.m%d"),
        (b".z.y.x.w.end", b".a.b.c.m%d.end"),
        (b".*.*.*", b".m%d"),
        (b".*.*.>", b".m%d"),
    ],
)
def test_branches_that_cannot_lead_to_a_match_are_skipped(ending: bytes, asked: bytes) -> None:
    made = Sublist(0)
    for n, head in enumerate(BRANCHES):
        made.insert(head + ending, b"", n)
    made.walks.take_nodes()

    for n in range(100):
        subject = b".".join([b"a"] * 10) + asked % n
        assert not made.has_interest(subject)
        assert not made.find(subject).plain
        assert not made.match(subject).plain

    # There are more than 2,000 nodes to visit; a few of the tokens share a bit.
    assert made.walks.take_nodes() < 300 * 500


# Patterns of which half fail at one token and half at the next: no branch can be skipped.
HALVES = [head + ending for head in BRANCHES for ending in (b".z.*", b".*.z")]
LONG_SUBJECT = b".".join([b"a"] * 10) + b".m.m"


def made_long() -> Sublist:
    made = Sublist(nodes_max=100)
    for n, pattern in enumerate(HALVES):
        made.insert(pattern, b"", n)
    return made


def finished(made: Sublist, subject: bytes) -> LongSearch:
    with pytest.raises(LongSearch) as raised:
        made.find(subject)
    search = raised.value
    steps = 0
    while not search.is_over():
        assert search.step(50) <= 50
        steps += 1
    assert steps > 10
    return search


@pytest.mark.parametrize("ask", ["find", "match", "match_once"])
def test_a_long_search_finds_in_steps_what_a_short_one_finds(ask: str) -> None:
    made = made_long()
    made.insert(LONG_SUBJECT, b"", "literal")
    made.insert(b"a.>", b"", "tail")
    made.insert(b"*." * 11 + b"m", b"q", "member")

    finished(made, LONG_SUBJECT).apply()

    found = getattr(made, ask)(LONG_SUBJECT)
    assert sorted(map(str, found.plain)) == ["literal", "tail"]
    assert found.groups == [["member"]]


def test_a_long_search_that_nothing_disturbed_is_cached() -> None:
    made = made_long()
    made.insert(b"a.>", b"", "tail")
    finished(made, LONG_SUBJECT).apply()
    made.match(LONG_SUBJECT)
    made.insert(b"other.*", b"", "other")

    assert made.match(LONG_SUBJECT).plain == ["tail"]
    made.insert(b"a.*.>", b"", "second")
    with pytest.raises(LongSearch):
        made.match(LONG_SUBJECT)


def test_subscriptions_that_change_during_a_long_search_are_never_missed_later() -> None:
    made = made_long()
    made.insert(b"a.>", b"", "before")
    made.insert(b"*.>", b"", "gone")
    with pytest.raises(LongSearch) as raised:
        made.match(LONG_SUBJECT)
    search = raised.value
    search.step(500)
    made.remove(b"*.>", b"", "gone")
    made.insert(b"a.a.>", b"", "added")
    search.step(1 << 40)
    search.apply()

    assert "gone" not in made.match(LONG_SUBJECT).plain
    assert "before" in made.match(LONG_SUBJECT).plain
    # What the search may have missed is found by the next one: this result is not kept.
    made.insert(b"unrelated.*", b"", "unrelated")
    again = finished(made, LONG_SUBJECT)
    again.apply()
    assert sorted(map(str, made.match(LONG_SUBJECT).plain)) == ["added", "before"]


def test_a_long_search_can_be_finished_at_once() -> None:
    made = made_long()
    made.insert(b"a.>", b"", "tail")

    assert made.find_at_once(LONG_SUBJECT).plain == ["tail"]
    assert made.match_at_once(LONG_SUBJECT).plain == ["tail"]
    assert made.has_interest(LONG_SUBJECT)
    assert not made.find_at_once(b"b" + LONG_SUBJECT[1:]).plain


@pytest.mark.parametrize("length", [12, 31, 32, 33, 34, 60, 61, 62, 63, 64, 65, 96, 128, 500])
def test_long_searches_find_patterns_for_subjects_of_any_length(length: int) -> None:
    tokens = [b"a"] * 11 + [b"t%d" % n for n in range(11, length)]
    subject = b".".join(tokens)
    patterns = [b"*." + b".".join(tokens[1:count]) + b".>" for count in {2, 11, length - 1}]
    patterns += [b"*." + b".".join(tokens[1:]), b"*." + b".".join(tokens[1:-1]) + b".*"]
    made = Sublist(0)
    for head in BRANCHES:
        made.insert(head + b".z", b"", None)

    for pattern in patterns:
        made.insert(pattern, b"", pattern)
        for found in (made.find, made.match, made.match_once):
            assert found(subject).plain == [pattern]
        assert made.has_interest(subject)
        assert made.walks.take_nodes() > 0
        made.remove(pattern, b"", pattern)


def width_of(patterns: Iterable[bytes]) -> int:
    """How many nodes a search may visit, from the definition."""
    heads: dict[bytes, list[bytes]] = {}
    for pattern in patterns:
        head, _, rest = pattern.partition(b".")
        if head != b">":
            heads.setdefault(head, []).append(rest)
    widths = {head: width_of(filter(None, rests)) for head, rests in heads.items()}
    return 1 + widths.pop(b"*", 0) + max(widths.values(), default=0)


def test_the_width_of_a_search_is_known_after_each_change() -> None:
    chosen = random.Random(5)
    made = Sublist(0)
    there: list[tuple[bytes, object]] = []
    for step in range(6_000):
        if not there or chosen.random() < 0.7 - 0.4 * (step > 3_000):
            tokens = chosen.choices([b"a", b"b", b"*", b"t%d" % step], k=chosen.randint(1, 7))
            pattern = b".".join([*tokens, chosen.choice([b">", b"*"])])
            there.append((pattern, object()))
            made.insert(pattern, b"", there[-1][1])
        else:
            pattern, value = there.pop(chosen.randrange(len(there)))
            made.remove(pattern, b"", value)
        if step % 50 == 0:
            exact = width_of({pattern for pattern, _ in there})
            # Of more than 64 children, the widest may have been removed.
            assert exact <= made.width() <= exact + 400
    for pattern, value in there:
        made.remove(pattern, b"", value)
    assert made.width() == 1
