"""Consumer replies: acknowledgements, and answers to flow control.

The subject of an acknowledgement is used once, so it gets no route: it is recognised by its prefix
and parsed by offsets (hot-path.md, Rules). Clients that subscribed to such subjects still get
them.
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
# A number with this many digits fits 64 bits: as a signed one it is negative if it is too large.
# With more digits it could equal a sequence.
_DIGITS_MAX: Final[i64] = 19
# What is not a number, or too large, counts as a sequence that does not exist, as in nats-server.
_IMPOSSIBLE: Final[i64] = 0x7FFF_FFFF_FFFF_FFFF


class ConsumerReplies:
    """Handles the clients' replies to the consumers of an account, and tracks interest."""

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
        # Deliver subjects whose interest the engine tracks.
        self.watched: dict[bytes, Any] = watched
        # Subscriptions that may match the subjects of acknowledgements.
        self.listeners: i64 = listeners

    def on_ack(self, frame: Frame, now: i64) -> bool:
        """Handle ``$JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<time>.<left>``.

        False if it is not one, or the consumer does not exist or needs none.
        """
        data = frame.data
        ss = frame.ss
        se = frame.se
        at = token_end(data, ss + 8, se) + 1
        end = token_end(data, at, se)
        acks = self.acks.get(data[ss + 8 : end])
        if acks is None or acks.state.policy == ACK_NONE:
            return False
        # A subject with an empty token is no acknowledgement: no pattern matches it.
        at = token_end(data, end + 1, se) + 1
        empty = at == end + 2
        seq: i64 = 0
        readable = True
        start = at
        while at < se and data[at] != _DOT:
            if data[at] < _ZERO or data[at] > _NINE:
                readable = False
            seq = seq * 10 + data[at] - _ZERO
            at += 1
        empty = empty or at == start
        if not readable or at - start > _DIGITS_MAX or seq < 0:
            seq = _IMPOSSIBLE
        consumer_seq: i64 = 0
        readable = True
        at += 1
        start = at
        while at < se and data[at] != _DOT:
            if data[at] < _ZERO or data[at] > _NINE:
                readable = False
            consumer_seq = consumer_seq * 10 + data[at] - _ZERO
            at += 1
        empty = empty or at == start
        if not readable or at - start > _DIGITS_MAX or consumer_seq < 0:
            consumer_seq = _IMPOSSIBLE
        # Two tokens are left: the time and the pending count.
        start = at + 1
        at = token_end(data, start, se)
        if empty or at == start or at + 1 >= se or token_end(data, at + 1, se) != se:
            return False
        acks.on_ack(seq, consumer_seq, frame.payload(), frame.reply(), now)
        return True

    def on_flow(self, subject: bytes) -> bool:
        """Handle the answer to a flow-control request; False if there was no request."""
        end = subject.rfind(b".")
        # In compiled code, a slice that ends before it starts is an error.
        key = subject[len(FLOW_PREFIX) : end] if end >= len(FLOW_PREFIX) else b""
        if key not in self.acks:
            return False
        self.engine.confirmed(key, subject)
        return True

    def on_subscription(self, subject: bytes, change: i64) -> None:
        """Handle a subscription that was added (1) or removed (-1)."""
        if may_match_acks(subject):
            self.listeners += change
        # Deliver subjects have no wildcards, and a wildcard does not count as interest in one.
        if subject in self.watched:
            self.engine.interest_changed(subject)


def token_end(data: bytes, at: i64, end: i64) -> i64:
    """Return the end of the token at ``at``: a dot, or ``end``."""
    while at < end and data[at] != _DOT:
        at += 1
    return at


def may_match_acks(pattern: bytes) -> bool:
    """Return whether a subscription may receive acknowledgements, by its first token."""
    return pattern == b">" or pattern.startswith((b"$JS.", b"*."))
