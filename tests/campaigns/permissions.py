"""Random permissions, and an evaluator of them that was written differently.

The evaluator works on sets: a pattern is the set of all subjects of a small world that it matches,
"covers" is the subset relation of such sets. Nothing of ``jetspark.subjects`` is used in it.
The short form is `tests/property/server/test_permissions.py`; `judge_decisions` takes any count.
"""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache

from jetspark.server.auth.permissions import Permissions, Rules

WORDS = ("a", "b", "c")
FRESH = "z"  # a word that no pattern has, so that it stands for all others
DEPTH = 4
WORLD = frozenset(
    words
    for size in range(1, DEPTH + 1)
    for words in itertools.product((*WORDS, FRESH), repeat=size)
)
EXPIRE = 100
DECISIONS_PER_SET = 50


@cache
def members(pattern: str) -> frozenset[tuple[str, ...]]:
    """All subjects of the world that a pattern stands for."""
    tokens = pattern.split(".")
    return frozenset(subject for subject in WORLD if stands_for(tokens, list(subject)))


def stands_for(tokens: list[str], words: list[str]) -> bool:
    """The definition, token by token."""
    if not tokens:
        return not words
    if tokens[0] == ">":
        return bool(words)
    if not words or tokens[0] not in {"*", words[0]}:
        return False
    return stands_for(tokens[1:], words[1:])


@cache
def covers(outer: str, inner: str) -> bool:
    """Every subject that ``inner`` stands for is one of ``outer``'s."""
    # A subject at the depth of the world with > would need deeper ones; patterns are shorter.
    return members(inner) <= members(outer)


@cache
def reads_as(pattern: str, text: str) -> bool:
    """The pattern matches a text whose wildcards are words like all others."""
    return stands_for(pattern.split("."), text.split("."))


@dataclass
class Naive:
    """Permissions in the words of nats-server's documentation."""

    publish_allow: list[str] | None
    publish_deny: list[str]
    subscribe_allow: list[tuple[str, str]] | None
    subscribe_deny: list[tuple[str, str]]
    most: int | None
    requests: OrderedDict[str, tuple[int, int]] = field(default_factory=OrderedDict)

    def listed(self, subject: str) -> bool:
        """Lists alone."""
        allow = self.publish_allow
        if allow is None and self.most is not None:
            allow = []
        if any(reads_as(pattern, subject) for pattern in self.publish_deny):
            return False
        return allow is None or any(reads_as(pattern, subject) for pattern in allow)

    def answers(self, subject: str, now: int) -> bool:
        """Uses up an answer."""
        if self.most is None or subject not in self.requests:
            return False
        since, left = self.requests.pop(subject)
        if now - since > EXPIRE or left == 0:
            return False
        self.requests[subject] = (since, left - 1)
        return True

    def publish(self, subject: str, now: int) -> bool:
        return self.listed(subject) or self.answers(subject, now)

    def request(self, reply: str, now: int) -> None:
        if self.most is not None and not self.listed(reply) and not self.answers(reply, now):
            self.requests[reply] = (now, self.most if self.most > 0 else -1)

    def subscribe(self, subject: str, queue: str) -> bool:
        if not self.deliver(subject, queue):
            return False
        if self.subscribe_allow is None:
            return True
        about = [(p, q) for p, q in self.subscribe_allow if reads_as(p, subject)]
        plain = any(covers(pattern, subject) for pattern, named in about if not named)
        named = [(p, q) for p, q in about if q]
        if not queue or not named:
            return plain
        mine = [pattern for pattern, name in named if queue == name or covers(name, queue)]
        return bool(mine) and (plain or any(covers(pattern, subject) for pattern in mine))

    def deliver(self, subject: str, queue: str) -> bool:
        return not any(
            reads_as(pattern, subject)
            and (not named or (bool(queue) and (queue == named or covers(named, queue))))
            for pattern, named in self.subscribe_deny
        )


class Maker:
    """Random permissions and subjects from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def subject(self) -> str:
        return ".".join(self.random.choices((*WORDS, FRESH), k=self.random.randint(1, 3)))

    def pattern(self) -> str:
        tokens = self.random.choices((*WORDS, "*", "*"), k=self.random.randint(1, 3))
        if self.random.random() < 0.35:
            tokens[-1] = ">"
        return ".".join(tokens)

    def queue(self) -> str:
        if self.random.random() < 0.5:
            return ""
        return self.pattern() if self.random.random() < 0.3 else self.subject()

    def patterns(self) -> list[str]:
        # Now and then a list long enough for the trie.
        return [self.pattern() for _ in range(self.random.choice((1, 1, 2, 3, 9)))]

    def entries(self) -> list[tuple[str, str]]:
        return [(pattern, self.queue()) for pattern in self.patterns()]

    def pair(self) -> tuple[Naive, Permissions]:
        chance = self.random.random
        naive = Naive(
            self.patterns() if chance() < 0.6 else None,
            self.patterns() if chance() < 0.5 else [],
            self.entries() if chance() < 0.6 else None,
            self.entries() if chance() < 0.6 else [],
            self.random.choice((None, 1, 3, -1)),
        )
        rules = Rules(
            None if naive.publish_allow is None else encoded(naive.publish_allow),
            encoded(naive.publish_deny),
            None if naive.subscribe_allow is None else joined(naive.subscribe_allow),
            joined(naive.subscribe_deny),
            naive.most is not None,
            naive.most or 0,
            EXPIRE,
            self.random.choice((1, 4, 512)),
        )
        return naive, Permissions(rules)


def encoded(patterns: list[str]) -> list[bytes]:
    return [pattern.encode() for pattern in patterns]


def joined(entries: list[tuple[str, str]]) -> list[bytes]:
    return [f"{pattern} {queue}".encode() for pattern, queue in entries]


def judge_decisions(count: int, seed: int) -> int:
    """Compare ``count`` decisions; return how many subscriptions among them were accepted."""
    maker = Maker(seed)
    accepted = 0
    done = 0
    while done < count:
        naive, ours = maker.pair()
        now = 0
        for _ in range(DECISIONS_PER_SET // 5):
            now += maker.random.choice((0, 1, EXPIRE // 2))
            subject, pattern, queue = maker.subject(), maker.pattern(), maker.queue()
            where = f"seed {seed}, {naive}, {subject=} {pattern=} {queue=} {now=}"
            for text in (subject, pattern):
                naive.request(text, now)
                ours.note_request(text.encode(), now)
                expected = naive.publish(text, now)
                assert ours.may_publish(text.encode(), now) is expected, where
                subscribed = naive.subscribe(text, queue)
                assert ours.may_subscribe(text.encode(), queue.encode()) is subscribed, where
                accepted += subscribed
            delivered = naive.deliver(subject, queue)
            assert ours.may_deliver(subject.encode(), queue.encode()) is delivered, where
            done += 5
    return accepted
