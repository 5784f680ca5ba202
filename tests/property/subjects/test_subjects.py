"""Matching and the subscription list against models that were written differently."""

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jetspark.subjects.match import is_subset, matches, overlaps
from jetspark.subjects.sublist import Match, Sublist
from jetspark.subjects.tokens import (
    has_empty_token,
    is_literal,
    is_valid_literal,
    is_valid_subject,
)

FRESH = b"fresh"  # a token that no pattern below has, so it stands for all others

words = st.sampled_from([b"a", b"b", b"ab", b"f*o"])
pattern_tokens = st.lists(st.one_of(words, st.just(b"*")), min_size=1, max_size=4)


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    """Valid patterns: a few words, ``*`` anywhere, ``>`` at the end or not."""
    tokens = draw(pattern_tokens)
    if draw(st.booleans()):
        tokens[-1] = b">"
    return b".".join(tokens)


subjects = st.lists(words, min_size=1, max_size=5).map(b".".join)
# What may be published: also empty tokens and wildcard characters (wire.md, Core protocol).
odd_subjects = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"f*o", b"*", b">", b""]), min_size=1, max_size=5
).map(b".".join)
anything = st.lists(st.sampled_from(list(b"ab.*> \t\n\x0c\xff")), max_size=8).map(bytes)


def as_regex(pattern: bytes) -> re.Pattern[bytes]:
    """The pattern as a regular expression over the whole subject."""
    some = rb"[^.]+"
    parts = {b"*": some, b">": some + rb"(?:\." + some + rb")*"}
    return re.compile(
        rb"\.".join(parts.get(t) or re.escape(t) for t in pattern.split(b".")), re.DOTALL
    )


def regex_matches(subject: bytes, pattern: bytes) -> bool:
    return not has_empty_token(subject) and as_regex(pattern).fullmatch(subject) is not None


def witness(a: bytes, b: bytes) -> bytes:
    """A subject that both patterns match if there is one: the literal token at each place."""
    left, right = a.split(b"."), b.split(b".")
    tokens: list[bytes] = []
    for one, other in itertools.zip_longest(left, right):
        literal = next((t for t in (one, other) if t not in {b"*", b">", None}), FRESH)
        tokens.append(literal)
    return b".".join(tokens)


def all_subjects(*of: bytes) -> list[bytes]:
    """Every subject of the patterns' words and one fresh word, up to a token longer than they."""
    found = {token for pattern in of for token in pattern.split(b".")} - {b"*", b">"}
    longest = max(len(pattern.split(b".")) for pattern in of) + 1
    if len(found) > 3:
        longest -= 1  # the last place of a pattern shows it already; this keeps the number small
    return [
        b".".join(tokens)
        for size in range(1, longest + 1)
        for tokens in itertools.product([*sorted(found), FRESH], repeat=size)
    ]


@given(odd_subjects, patterns())
def test_matching_agrees_with_a_regular_expression(subject: bytes, pattern: bytes) -> None:
    assert matches(subject, pattern) is regex_matches(subject, pattern)


@given(anything)
def test_validity_agrees_with_a_regular_expression(subject: bytes) -> None:
    token = rb"(?:[^. \t\r\n\f]+)"
    shape = re.fullmatch(rb"(?:(?!>\.)" + token + rb"\.)*" + token, subject) is not None
    wild = any(part in {b"*", b">"} for part in subject.split(b"."))

    assert is_valid_subject(subject) is shape
    assert is_literal(subject) is not wild
    assert is_valid_literal(subject) is (shape and not wild)


@given(patterns(), patterns())
def test_two_patterns_overlap_exactly_if_a_subject_matches_both(a: bytes, b: bytes) -> None:
    assert overlaps(a, b) is overlaps(b, a)
    subject = witness(a, b)
    if overlaps(a, b):
        assert regex_matches(subject, a)
        assert regex_matches(subject, b)
    else:
        left, right = as_regex(a), as_regex(b)
        assert not any(left.fullmatch(s) and right.fullmatch(s) for s in all_subjects(a, b))


@given(patterns(), patterns())
def test_a_pattern_is_a_subset_exactly_if_the_other_matches_all_it_does(
    a: bytes, b: bytes
) -> None:
    inner, outer = as_regex(a), as_regex(b)
    covered = all(outer.fullmatch(s) for s in all_subjects(a, b) if inner.fullmatch(s))

    assert is_subset(a, b) is covered
    if is_subset(a, b):
        assert overlaps(a, b)


@given(patterns())
def test_a_pattern_is_a_subset_of_itself_and_of_everything(pattern: bytes) -> None:
    assert is_subset(pattern, pattern)
    assert is_subset(pattern, b">")
    assert overlaps(pattern, pattern)


@given(subjects, patterns())
def test_for_literals_the_three_questions_are_one(subject: bytes, pattern: bytes) -> None:
    assert matches(subject, pattern) is overlaps(subject, pattern) is is_subset(subject, pattern)


deep_tokens = st.one_of(st.sampled_from([b"a", b"b", b"*"]), st.sampled_from([b"c", b"dd", b"*"]))


@st.composite
def deep_patterns(draw: st.DrawFn) -> bytes:
    """Patterns of up to eight tokens, few enough of which are different that many branch."""
    tokens = draw(st.lists(deep_tokens, min_size=3, max_size=8))
    if draw(st.integers(0, 5)) == 0:
        tokens[-1] = b">"
    return b".".join(tokens)


BRANCHES = [b".".join(tokens) for tokens in itertools.product([b"a", b"*"], repeat=6)]


@settings(max_examples=300)
@given(
    st.sampled_from([b"", b".b", b".*", b".b.a", b".*.b"]),
    st.lists(st.one_of(deep_patterns(), st.just(b"*.*.*.*.*.*.b")), max_size=40),
    st.lists(st.integers(0, 103), max_size=30),
    st.lists(st.lists(st.sampled_from(b"a b c dd *".split()), min_size=5, max_size=9), min_size=1),
)
def test_long_searches_find_what_matches_and_nothing_else(
    ending: bytes, others: list[bytes], removed: list[int], asked: list[list[bytes]]
) -> None:
    """Such searches skip branches: 64 patterns that branch at each token make them long."""
    sublist = Sublist(1000)
    entries = [each + ending for each in BRANCHES] + others
    for pattern in entries:
        sublist.insert(pattern, b"", pattern)
    for number in {each for each in removed if each < len(entries)}:
        assert sublist.remove(entries[number], b"", entries[number])
    left = [each for number, each in enumerate(entries) if number not in removed]

    for tokens in [*asked, *([b"a"] * size for size in (6, 7, 8)), [b"a"] * 6 + [b"b"]]:
        subject = b".".join(tokens)
        expected = sorted(each for each in left if regex_matches(subject, each))
        # Results for the prefix of a subject are kept from its second use on, for any last token.
        for last in (b"x", b"x", b"y"):
            sublist.match_once(b".".join([*tokens[:-1], last]))
        found = (sublist.match(subject), sublist.find(subject), sublist.match_once(subject))
        for match in found:
            assert sorted(map(str, match.plain)) == sorted(map(str, expected))
        assert sublist.has_interest(subject) is bool(expected)


Entry = tuple[bytes, bytes, str]

# Few enough that changes meet the subjects that are kept.
few_patterns = st.sampled_from(
    b"a b * > a.a a.b a.* *.a *.b *.* a.> b.> *.> a.a.a a.a.* a.*.a *.a.a a.*.* a.a.> a.*.>"
    b" *.*.* *.*.>".split()
)
few_subjects = st.sampled_from(b"a b a.a a.b b.a b.b a.a.a a.a.b a.b.a b.a.a a.* a..a".split())


class SublistMachine(RuleBasedStateMachine):
    """A list of subscriptions behaves as a plain list searched with regular expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Entry] = []
        self.sublist = Sublist()
        self.changes = 0
        self.held: list[tuple[bytes, Match]] = []

    @initialize(cache_size=st.sampled_from([0, 1, 3, 20, 1000]))
    def start(self, cache_size: int) -> None:
        self.sublist = Sublist(cache_size)

    @rule(
        pattern=few_patterns,
        queue=st.sampled_from([b"", b"", b"q", b"r"]),
        value=st.sampled_from("xyz"),
    )
    def insert(self, pattern: bytes, queue: bytes, value: str) -> None:
        self.sublist.insert(pattern, queue, value)
        self.model.append((pattern, queue, value))
        self.changes += 1

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if not self.model:
            return
        entry = data.draw(st.sampled_from(self.model))
        assert self.sublist.remove(*entry)
        self.model.remove(entry)
        self.changes += 1

    @rule(pattern=few_patterns, queue=st.sampled_from([b"", b"q"]), value=st.sampled_from("xyz"))
    def remove_maybe(self, pattern: bytes, queue: bytes, value: str) -> None:
        entry = (pattern, queue, value)
        assert self.sublist.remove(pattern, queue, value) is (entry in self.model)
        if entry in self.model:
            self.model.remove(entry)
            self.changes += 1

    @rule(some=st.lists(few_subjects, min_size=1, max_size=6))
    def match(self, some: list[bytes]) -> None:
        for subject in some:
            result = self.sublist.match(subject)
            self.check(subject, result)
            self.held.append((subject, result))

    @rule(some=st.lists(few_subjects, min_size=1, max_size=6))
    def match_once(self, some: list[bytes]) -> None:
        for subject in some:
            result = self.sublist.match_once(subject)
            self.check(subject, result)
            assert self.sublist.has_interest(subject) is bool(result.plain or result.groups)

    @rule(some=st.lists(few_subjects, min_size=1, max_size=6))
    def find(self, some: list[bytes]) -> None:
        """What is derived from a shared result holds for every subject that gets it."""
        for subject in some:
            result = self.sublist.find(subject)
            self.check(subject, result)
            derived = [
                *result.plain,
                *zip(result.group_names, map(tuple, result.groups), strict=True),
            ]
            assert result.route in {None, repr(derived)}
            result.route = repr(derived)
            assert self.sublist.has_interest(subject) is bool(derived)

    @invariant()
    def counters_are_right(self) -> None:
        assert (self.sublist.count, self.sublist.generation) == (len(self.model), self.changes)

    @invariant()
    def a_result_that_is_kept_is_true(self) -> None:
        """Whatever changed since: this is what lets a router keep routes."""
        self.held = [held for held in self.held if self.sublist.keeps(*held)]
        for subject, result in self.held:
            self.check(subject, result)

    def check(self, subject: bytes, result: Match) -> None:
        found = [entry for entry in self.model if regex_matches(subject, entry[0])]
        expected: dict[bytes, list[str]] = {}
        for _, queue, value in found:
            expected.setdefault(queue, []).append(value)
        actual = {b"": result.plain, **dict(zip(result.group_names, result.groups, strict=True))}

        assert {queue: sorted(members) for queue, members in expected.items()} == {
            queue: sorted(map(str, members)) for queue, members in actual.items() if members
        }
        assert all(result.groups)


TestSublist = SublistMachine.TestCase
TestSublist.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
