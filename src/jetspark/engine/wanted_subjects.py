"""Which stream of an account stores which subjects, however many there are.

The subjects of a stream are one claim. A claim of very many subjects is entered in steps, and is
removed in steps when it ends; but it takes effect, and loses it, for all of its subjects at once.
"""

from collections.abc import Generator
from typing import Final

from jetspark.engine.operations import Operation
from jetspark.engine.stream.stream import Stream
from jetspark.engine.stream.values import invalid
from jetspark.steps import PER_TURN, USUAL, Pace, at_once, rest
from jetspark.subjects.pattern_set import OverlapSearch, PatternSet
from jetspark.subjects.sublist import WIDTH_MAX, Sublist
from jetspark.subjects.tokens import is_literal

AT_ONCE_MAX: Final = 512
"""Subjects that are entered or removed in one turn of the loop."""
_PLACES_PER_STEP: Final = 1024
# A search for the stream of a subject through more nodes of the trie is continued in steps.
NODES_AT_ONCE: Final = 4096
# This many overlaps of a pattern are checked before it is considered unsettled.
_PLACES_SEARCHED: Final = 4096


class Claim:
    """The subjects that a stream stores, will store, or does not store any more."""

    def __init__(self, subjects: tuple[str, ...]) -> None:
        self.subjects: Final = subjects
        # The stream that stores them; None before that, and after its end.
        self.stream: Stream | None = None
        # The change that starts or ends it, while the disk may still fail to store that change.
        self.change: Operation | None = None
        # How many of them are entered, and how many of those may be inboxes.
        self.entered: int = 0
        self.inboxes: int = 0

    def enter(self, subject: str) -> None:
        """Note that the next of its subjects is entered."""
        self.entered += 1
        self.inboxes += subject[0] in "_*>"

    def take_out(self) -> str:
        """Note that its last entered subject is removed; return it."""
        self.entered -= 1
        return self.subjects[self.entered]

    def give(self, stream: Stream) -> None:
        """Let a stream store its subjects."""
        self.stream = stream

    def suspend(self, change: Operation) -> None:
        """Take it out of effect until a change is durable, or failed."""
        self.stream = None
        self.change = change

    def depend_on(self, change: Operation | None) -> None:
        """Set the change that starts it and may still fail; None: it is durable."""
        self.change = change

    def end(self) -> None:
        """Take it out of effect."""
        self.stream = None
        self.change = None

    def is_large(self) -> bool:
        """Return whether it is more than one turn of the loop can enter."""
        return len(self.subjects) > AT_ONCE_MAX


class WantedSubjects:
    """The subjects of all streams of an account."""

    def __init__(self) -> None:
        # By subject, in effect or not: for queries only.
        self.claims: Final = Sublist(0, NODES_AT_ONCE)
        self._patterns = PatternSet()
        self._by_stream: dict[Stream, Claim] = {}
        # What a stream gave up by a change that may fail: it may get that back.
        self._kept: dict[Stream, Claim] = {}
        # Claims that have ended and have not been removed.
        self._over: list[Claim] = []
        self._inboxes = 0

    # Changes -----------------------------------------------------------------------------------

    def entered(self, subjects: tuple[str, ...]) -> Claim:
        """Return an entered claim; it takes effect when it is given to a stream."""
        claim = Claim(subjects)
        at_once(self.entering(claim))
        return claim

    def entering(self, claim: Claim) -> Generator[None, None, None]:
        """Enter a claim, in steps; it takes effect when it is given to a stream."""
        pace = Pace()
        for subject in claim.subjects:
            pattern = subject.encode()
            looks = self.claims.looks
            self.claims.insert(pattern, b"", claim)
            self._patterns.add(pattern, claim)
            claim.enter(subject)
            if pace.is_due(len(pattern)):
                yield
            yield from rest(int(self.claims.looks - looks) // USUAL)

    def give(self, stream: Stream, claim: Claim) -> None:
        """Put an entered claim into effect, instead of the stream's previous one."""
        self.remove(stream)
        claim.give(stream)
        self._by_stream[stream] = claim
        self._inboxes += claim.inboxes

    def exchange(self, stream: Stream, claim: Claim, change: Operation) -> None:
        """Put an entered claim into effect; the previous one stays reserved until ``settle``.

        ``take_back`` instead if the change could not be stored.
        """
        before = self._by_stream.pop(stream, None)
        if before is not None:
            assert stream not in self._kept, "one change at a time"
            self._inboxes -= before.inboxes
            before.suspend(change)
            self._kept[stream] = before
        claim.depend_on(change)
        self.give(stream, claim)

    def settle(self, stream: Stream) -> None:
        """Release what a change gave up: it is durable. ``clean`` follows."""
        claim = self._by_stream.get(stream)
        if claim is not None:
            claim.depend_on(None)
        before = self._kept.pop(stream, None)
        if before is not None:
            self.abandon(before)

    def take_back(self, stream: Stream) -> None:
        """Restore what a stream had before a change that failed. ``clean`` follows."""
        before = self._kept.pop(stream, None)
        if before is not None:
            before.depend_on(None)
            self.give(stream, before)

    def remove(self, stream: Stream) -> None:
        """Remove the claim of a stream. ``clean`` follows."""
        claim = self._by_stream.pop(stream, None)
        if claim is not None:
            self._inboxes -= claim.inboxes
            self.abandon(claim)

    def abandon(self, claim: Claim) -> None:
        """End a claim, whether it was given to a stream or not. ``clean`` follows."""
        claim.end()
        self._over.append(claim)
        if not claim.is_large():
            at_once(self._take_out(claim))

    def needs_cleaning(self) -> bool:
        """Return whether claims that have ended are still entered."""
        return bool(self._over)

    def clean(self) -> bool:
        """Remove some of what has ended, as much as a turn allows; True when none is left."""
        left = PER_TURN
        while self._over and left > 0:
            for _ in self._take_out(self._over[-1]):
                left -= 1
                if left == 0:
                    break
        return not self._over

    def _take_out(self, claim: Claim) -> Generator[None, None, None]:
        pace = Pace()
        while claim.entered > 0:
            pattern = claim.take_out().encode()
            looks = self.claims.looks
            self.claims.remove(pattern, b"", claim)
            self._patterns.remove(pattern, claim)
            if pace.is_due(len(pattern)):
                yield
            yield from rest(int(self.claims.looks - looks) // USUAL)
        self._over.remove(claim)

    # Questions ---------------------------------------------------------------------------------

    def find(self, subject: bytes) -> Stream | None:
        """Return the stream that stores a subject."""
        for claim in self.claims.find_at_once(subject).plain:
            assert isinstance(claim, Claim)
            if claim.stream is not None:
                return claim.stream
        return None

    def overlap(self, pattern: bytes, but: Stream | None) -> bool:
        """Return whether a claim overlaps a pattern, other than that of a stream.

        It may be one that has ended, while ``needs_cleaning``, or one that is being entered.
        """
        own = self._by_stream.get(but) if but is not None else None
        return self._patterns.overlaps(pattern, own)

    def check_width(self, subjects: tuple[str, ...], own: Stream | None) -> None:
        """Raise Refusal for new wildcards if the search for a stream takes too long already."""
        if self.claims.width() <= WIDTH_MAX:
            return
        had = set(own.config.subjects) if own is not None else set()
        if any(subject not in had and not is_literal(subject.encode()) for subject in subjects):
            raise invalid("too many subjects with wildcards that agree in their first tokens")

    def take_visited(self) -> int:
        """Return how much work the questions since the last call were, as a length in bytes."""
        return self._patterns.take_visited()

    def unsettled(self, pattern: bytes, but: Stream | None) -> Operation | None:
        """Return the change that decides whether a pattern is free; None if another has it."""
        own = self._by_stream.get(but) if but is not None else None
        search = OverlapSearch(self._patterns, pattern)
        change: Operation | None = None
        for _ in range(_PLACES_SEARCHED // _PLACES_PER_STEP):
            is_whole = search.step(_PLACES_PER_STEP)
            for claim in search.owners:
                assert isinstance(claim, Claim)
                if claim is own:
                    continue
                if claim.change is None:
                    return None
                change = claim.change
            if is_whole:
                break
        return change

    def overlapping(self, pattern: bytes) -> Generator[None, None, list[Stream]]:
        """Return the streams that store subjects of a pattern, in steps."""
        search = OverlapSearch(self._patterns, pattern)
        while not search.step(_PLACES_PER_STEP):
            yield
        found: dict[str, Stream] = {}
        pace = Pace()
        for claim in search.owners:
            if isinstance(claim, Claim) and claim.stream is not None:
                name = claim.stream.config.name
                # One that was deleted during the search may have a successor.
                if name not in found or found[name].dropped:
                    found[name] = claim.stream
            if pace.is_due():
                yield
        names = sorted(found)
        yield from rest(len(names))
        return [found[name] for name in names]

    def has_inboxes(self) -> bool:
        """Return whether a stream has subjects that start with an underscore, as inboxes do."""
        return self._inboxes > 0
