"""The unread output of all clients together: the largest debtors are closed first."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.server.net.shared_memory import kept_input, unread_output


class Reader:
    """A connection that has not read so many bytes."""

    def __init__(self, closed: list[Reader], unread: int) -> None:
        self.unread = unread
        self.client = self
        self.closing = False
        self._closed = closed

    def waiting_bytes(self) -> int:
        return self.unread

    def disconnect_slow(self, details: str, _reason: object) -> None:
        assert "jetspark.memory.pending" in details
        self._closed.append(self)

    def abort(self, _reason: object) -> None:
        self._closed.append(self)


class Readers:
    """Some of them, and which were closed."""

    def __init__(self, limit: int) -> None:
        self.output = unread_output(limit)
        self.closed: list[Reader] = []

    def note(self, *unread: int) -> list[Reader]:
        readers = [Reader(self.closed, size) for size in unread]
        for reader in readers:
            self.write(reader)
        return readers

    def write(self, reader: Any) -> None:
        self.output.note(reader, reader.unread)


def test_the_largest_are_closed_until_an_eighth_is_free() -> None:
    readers = Readers(800)
    small, large, _middle, larger = readers.note(100, 210, 190, 301)

    assert readers.closed == [larger]
    assert readers.output.total == 500
    assert readers.output.closed == 1
    small.unread = 500
    readers.write(small)
    assert readers.closed == [larger, small]
    assert readers.output.total == 400
    large.unread = 701
    readers.write(large)
    assert readers.closed == [larger, small, large]


def test_what_was_read_in_the_meantime_counts_no_more() -> None:
    readers = Readers(800)
    first, second = readers.note(400, 400)
    first.unread = 10
    second.unread = 500
    readers.write(second)

    assert readers.closed == []
    assert readers.output.total == 510


def test_a_client_that_caught_up_is_forgotten() -> None:
    readers = Readers(800)
    first, second = readers.note(400, 400)
    readers.output.forget(first)  # type: ignore[arg-type]
    readers.output.forget(first)  # type: ignore[arg-type]

    assert readers.output.total == 400
    readers.note(400)
    assert readers.closed == []
    assert second.unread == 400


@pytest.mark.parametrize("closing", [False, True])
def test_a_lower_limit_applies_at_once(*, closing: bool) -> None:
    readers = Readers(800)
    largest, _ = readers.note(500, 200)
    largest.closing = closing
    readers.output.follow(600)

    assert readers.closed == [largest]


class Sender:
    """A connection of which so many bytes are kept."""

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self.refused = ""

    def kept_bytes(self) -> int:
        return self.kept

    def refuse_input(self, details: str) -> None:
        self.refused = details


def test_those_that_sent_the_most_are_closed_if_too_much_input_is_kept() -> None:
    kept = kept_input(800)
    senders: list[Any] = [Sender(size) for size in (100, 300, 200, 150)]
    for sender in senders:
        kept.note(sender, sender.kept)
    assert not any(sender.refused for sender in senders)

    last: Any = Sender(90)
    kept.note(last, 90)
    assert "jetspark.memory.input" in senders[1].refused
    assert [bool(sender.refused) for sender in senders] == [False, True, False, False]
    assert kept.total == 540
