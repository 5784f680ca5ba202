"""What clients send to consumers: acknowledgements, and the answers to flow control.

The subject of an acknowledgement is used once, so it enters no route: it is known by its prefix
and read by offsets (hot-path.md, Rules). Clients that subscribed to such subjects get them all the
same.
"""

from typing import Any, Final

from mypy_extensions import i64

from jetspark.engine.consumer.acks import Acks
from jetspark.engine.consumer.state import ACK_NONE
from jetspark.frame import Frame
from jetspark.server.routing.account_engine import AccountEngine

ACK_PREFIX: Final = b"$JS.ACK."
FLOW_PREFIX: Final = b"$JS.FC."

_DOT: Final[i64] = 0x2E
_ZERO: Final[i64] = 0x30
_NINE: Final[i64] = 0x39
_DIGITS_MAX: Final[i64] = 18  # any number of so many digits fits 64 signed bits


class ConsumerReplies:
    """Takes what the clients of an account send to its consumers, and notes who listens."""

    def __init__(
        self,
        engine: AccountEngine,
        acks: dict[bytes, Acks],
        watched: dict[bytes, Any],
        listeners: i64,
    ) -> None:
        self.engine: AccountEngine = engine
        # By `<stream>.<consumer>`.
        self.acks: dict[bytes, Acks] = acks
        # Deliver subjects that the engine wants to know of.
        self.watched: dict[bytes, Any] = watched
        # Subscriptions that may match the subjects of acknowledgements.
        self.listeners: i64 = listeners

    def on_ack(self, frame: Frame, now: i64) -> bool:
        """Take ``$JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<time>.<pending>``.

        False when it is none, or of no consumer that takes any.
        """
        data = frame.data
        ss = frame.ss
        se = frame.se
        at = token_end(data, ss + 8, se) + 1
        end = token_end(data, at, se)
        acks = self.acks.get(data[ss + 8 : end])
        if acks is None or acks.state.policy == ACK_NONE:
            return False
        at = token_end(data, end + 1, se) + 1
        seq: i64 = 0
        start = at
        while at < se and data[at] != _DOT:
            if data[at] < _ZERO or data[at] > _NINE:
                return False
            seq = seq * 10 + data[at] - _ZERO
            at += 1
        if at - start > _DIGITS_MAX:
            seq = -1  # it does not fit 64 bits, and must not be taken for another one
        consumer_seq: i64 = 0
        at += 1
        start = at
        while at < se and data[at] != _DOT:
            if data[at] < _ZERO or data[at] > _NINE:
                return False
            consumer_seq = consumer_seq * 10 + data[at] - _ZERO
            at += 1
        if at - start > _DIGITS_MAX:
            seq = -1
        # Two tokens are left: the time and what was pending.
        at = token_end(data, at + 1, se)
        if at >= se or token_end(data, at + 1, se) != se:
            return False
        acks.on_ack(seq, consumer_seq, frame.payload(), frame.reply(), now)
        return True

    def on_flow(self, subject: bytes) -> bool:
        """Take the answer to a question of flow control; False when nobody asked."""
        end = subject.rfind(b".")
        # Compiled, a slice that ends before it begins is an error.
        key = subject[len(FLOW_PREFIX) : end] if end >= len(FLOW_PREFIX) else b""
        if key not in self.acks:
            return False
        self.engine.confirmed(key, subject)
        return True

    def on_subscription(self, subject: bytes, change: i64) -> None:
        """A subscription came (1) or went (-1)."""
        if may_match_acks(subject):
            self.listeners += change
        # Deliver subjects have no wildcards, and a wildcard is no interest in one.
        if subject in self.watched:
            self.engine.interest_changed(subject)


def token_end(data: bytes, at: i64, end: i64) -> i64:
    """Where the token at ``at`` ends: at a dot, or at ``end``."""
    while at < end and data[at] != _DOT:
        at += 1
    return at


def may_match_acks(pattern: bytes) -> bool:
    """Say whether a subscription may get acknowledgements, by its first token."""
    return pattern == b">" or pattern.startswith((b"$JS.", b"*."))
