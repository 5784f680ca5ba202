"""The relay of a replica: answers, refuses or forwards what clients do.

Reads of copied streams are answered here if the copy is new enough (read_requests.py). Everything
else goes to the leader: messages, requests, subscriptions, acknowledgements. While the leader
cannot be reached, requests get no responders immediately, and other messages are lost, as allowed
in core NATS.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from jetspark.frame import Frame
from jetspark.replica.bridge import Bridge, message_frame
from jetspark.replica.read_only import WriteGuard
from jetspark.replica.read_requests import ReadRequests
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.receiver import Subscription
from jetspark.server.routing.route import is_compact

API_PREFIX: Final = b"$JS.API."
STREAM_PREFIX: Final = b"$JS.API.STREAM."
# Requests that change streams.
CHANGES: Final = frozenset({b"CREATE", b"UPDATE", b"DELETE", b"PURGE", b"MSG.DELETE", b"RESTORE"})


class ReplicaRelay:
    """The relay of a replica's router."""

    def __init__(
        self,
        bridge: Bridge,
        reads: ReadRequests,
        guard: WriteGuard | None,
        own: dict[ConnectedClient, Bridge],
        make_own: Callable[[ConnectedClient, Bridge], Bridge],
        suspect: Callable[[str], None],
    ) -> None:
        self._bridge = bridge
        # The prefix of reply subjects of the replica's own requests.
        self._own_inbox = bridge.own.inbox_start
        self._reads = reads
        self._guard = guard
        self._own = own
        self._make_own = make_own
        self._suspect = suspect

    def bridge_of(self, client: ConnectedClient) -> Bridge:
        """Return the connection for a client's messages.

        A client that wants no echo of its own messages must have its own: the leader omits the
        connection that they come from.
        """
        if client.receiver.echo:
            return self._bridge
        return self._own.get(client) or self._make_own(client, self._bridge)

    def on_pub(self, client: ConnectedClient, subject: bytes, frame: Frame) -> None:
        """Handle a publish."""
        reply, headers, payload = frame.reply(), frame.headers(), frame.payload()
        if subject.startswith(API_PREFIX) and self._reads.take(
            client, subject, reply, headers, payload
        ):
            return
        inbox = self._own_inbox
        if subject.startswith(inbox) or reply.startswith(inbox):
            client.session.on_publish_denied(subject)
            return
        checked_body = payload
        if self._guard is not None:
            checked = self._guard.checked(client, subject, reply, payload)
            if checked is None:
                return
            checked_body = checked
        if checked_body == payload and len(frame.body) == 0 and is_compact(frame):
            sent = b"%b%b%b" % (
                b"HPUB " if headers else b"PUB ",
                subject,
                frame.data[frame.se : frame.pe + 2],
            )
        else:
            sent = message_frame(subject, reply, headers, checked_body)
            if not self._bridge.takes(sent):
                # It grew when it was encoded again.
                if reply and client.no_responders:
                    client.say_no_responders(subject, reply)
                return
        bridge = self.bridge_of(client)
        bridge.queue.put(client, sent)
        if subject.startswith(STREAM_PREFIX):
            self._note_change(client, bridge, subject, reply)

    def _note_change(
        self, client: ConnectedClient, bridge: Bridge, subject: bytes, reply: bytes
    ) -> None:
        """Check a stream before its copy answers again: a request may change it.

        Again when the leader gets the request, and when it answers: a check before its disk has
        the change would see none, and the client reads after the answer.
        """
        verb, _, name = subject[len(STREAM_PREFIX) :].rpartition(b".")
        if verb in CHANGES:
            stream = name.decode(errors="replace")
            self._suspect(stream)
            bridge.queue.in_order(client, partial(self._suspect, stream))
            if reply:
                bridge.expect_change(reply, stream)

    def on_sub(self, subscription: Subscription) -> None:
        """Handle a new subscription."""
        client = subscription.receiver.connection.client
        self.bridge_of(client).add(client, subscription)

    def on_limit(self, subscription: Subscription) -> None:
        """Handle a limit of ``max_msgs`` for a subscription."""
        client = subscription.receiver.connection.client
        self.bridge_of(client).limit(client, subscription)

    def on_unsub(self, subscription: Subscription) -> None:
        """Handle the end of a subscription."""
        # CONNECT may have changed which one it is: the other does not know it.
        client = subscription.receiver.connection.client
        self._bridge.remove(client, subscription)
        own = self._own.get(client)
        if own is not None:
            own.remove(client, subscription)

    def on_ping(self, client: ConnectedClient) -> bool:
        """Handle a PING: PONG means that the leader has seen what came before."""
        if not client.subscriptions and not client.receiver.traffic.in_msgs:
            return False
        self.bridge_of(client).queue.put_ping(client)
        return True
