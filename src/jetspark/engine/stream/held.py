"""What waits for a group to be durable, and goes out or is taken back with it (contracts.md 1)."""

from collections.abc import Callable

from jetspark.engine.batch.members import FastBatch
from jetspark.engine.outbox import Entry

# A reply to a request: to whom, what, and what it becomes when an error takes its place.
Answer = tuple[bytes, bytes, Callable[[bytes], bytes]]


class Held:
    """What goes out when one group is durable: acknowledgements as two columns, other replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.sequences: list[int] = []
        # Replies that stand on the group: when it fails, they say so instead.
        self.entries: list[Entry] = []
        # Replies of `$JS.API` requests, which have errors of their own shape.
        self.answers: list[Answer] = []
        # Messages that exist only if the group does: when it fails, they never were.
        self.messages: list[Entry] = []
        # Fast batches that go on in the group: how far, in messages and bytes, and where.
        self.batches: list[tuple[FastBatch, int, int, int]] = []
        # Who asked for an answer to an acknowledgement: an empty one, or silence when it fails.
        self.acks: list[bytes] = []
        # The patterns of purges; consumers are told when they are durable.
        self.purges: list[bytes] = []

    def is_empty(self) -> bool:
        """Say whether nothing waits."""
        return not (self.replies or self.entries or self.answers or self.messages or self.acks)
