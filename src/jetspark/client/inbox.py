"""The mux inbox: one wildcard subscription for all replies. Native-friendly, no asyncio.

A request gets the reply subject ``<inbox>.<token>`` and registers a :class:`ReplySink` under its
token. Replies reach it directly from the parser's frame: no subscription, task or timer per
request.
"""

from mypy_extensions import i64, mypyc_attr

from jetspark.client.receive import Sink
from jetspark.frame import Frame


@mypyc_attr(allow_interpreted_subclasses=True)  # sinks that hold asyncio futures are interpreted
class ReplySink:
    """Takes the replies to one request."""

    def __init__(self) -> None:
        self.token: bytes = b""
        self.subject: bytes = b""
        self.deadline: float = 0.0

    def on_reply(self, frame: Frame) -> bool:
        """Process one reply; True if it was the last. The frame is reused after the call."""
        raise NotImplementedError

    def renew(self, now: float) -> bool:  # noqa: ARG002 - most requests have one deadline
        """Whether the expired deadline was extended because replies keep arriving."""
        return False

    def fail(self, error: Exception) -> None:
        """The request ended without (further) replies: connection lost or deadline passed."""


class Mux(Sink):
    """The sink of the inbox subscription: finds the request of a reply."""

    def __init__(self, prefix: bytes) -> None:
        # The subject up to and including the dot before the token.
        self.prefix: bytes = prefix
        self.pending: dict[bytes, ReplySink] = {}
        self._skip: i64 = len(prefix)
        self._counter: i64 = 0
        # Pages and batches bring runs of replies to one request: the last one is cached.
        self._last_token: bytes = b""
        self._last_sink: ReplySink | None = None

    def add(self, sink: ReplySink) -> bytes:
        """Register a request; returns the reply subject to publish it with."""
        self._counter += 1
        token = b"%d" % int(self._counter)
        sink.token = token
        self.pending[token] = sink
        return self.prefix + token

    def discard(self, sink: ReplySink) -> None:
        """Remove a request; later replies to it are dropped."""
        self.pending.pop(sink.token, None)
        if self._last_sink is sink:
            self._last_sink = None

    def take_all(self) -> list[ReplySink]:
        """Remove and return all requests (connection lost)."""
        sinks = list(self.pending.values())
        self.pending.clear()
        self._last_sink = None
        return sinks

    def deliver(self, frame: Frame) -> None:
        """Pass the reply to the request with its token; unknown tokens are dropped."""
        token = frame.data[frame.ss + self._skip : frame.se]
        if token == self._last_token and self._last_sink is not None:
            sink = self._last_sink
        else:
            found = self.pending.get(token)
            if found is None:
                return
            sink = found
            self._last_token = token
            self._last_sink = sink
        if sink.on_reply(frame):
            self.discard(sink)
