"""Reads at a replica: answered here if the copy is new enough, else by the leader (ADR-53).

*New enough* is, for a request with ``min_last_seq``, a copy that has reached it; for a direct get
without, one that has reached what clients of this replica have seen already: the sequences of
their own writes, and of what the leader read for them. Clients send MSG.GET without it when they
need the leader's answer, so only the leader answers it: while it cannot be reached, its last
writes may be missing here, and no copy can know. STREAM.INFO is the leader's too; while it cannot
be reached the state of the copy is reported, so that a bucket can still be opened and read.

A request with ``Nats-Forwarded`` is never forwarded again, so that loops of replicas end: it waits
here for the copy like any read of a mirror, and is refused when that takes too long.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from jetspark.api.message import MsgGetRequest, decode_msg_get
from jetspark.engine.direct.request import needs_newer, parse_request
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, REQUEST, Target
from jetspark.headers.block import find_value
from jetspark.headers.names import FORWARDED
from jetspark.replica.bridge import Bridge
from jetspark.replica.copied_stream import CopiedStream
from jetspark.replica.forwarding import ForwardedReads, Read
from jetspark.replica.reconciler import CopyReconciler
from jetspark.server.routing.client import REQUEST_UNITS, ConnectedClient
from jetspark.server.routing.router import Router

DIRECT_PREFIX: Final = b"$JS.API.DIRECT.GET."
MESSAGE_PREFIX: Final = b"$JS.API.STREAM.MSG.GET."
INFO_PREFIX: Final = b"$JS.API.STREAM.INFO."


class ReadRequests:
    """Decides about every read of a client."""

    def __init__(
        self,
        router: Router,
        bridge: Bridge,
        reconciler: CopyReconciler,
        forwarded: ForwardedReads,
        describe: Callable[[CopiedStream, bytes], bytes],
    ) -> None:
        self._router = router
        self._outbox = router.outbox
        self._bridge = bridge
        self._reconciler = reconciler
        self._forwarded = forwarded
        self._describe = describe
        self._answering: dict[bytes, tuple[CopiedStream, Stream]] = reconciler.answering
        # Statistics: how many were answered here, and how many by the leader.
        self.answered: int = 0

    def take(
        self, client: ConnectedClient, subject: bytes, reply: bytes, headers: bytes, body: bytes
    ) -> bool:
        """Handle a request if it is a read of a copied stream; False: it is the leader's."""
        if not reply:
            return False
        if subject.startswith(DIRECT_PREFIX):
            name, _, appended = subject[len(DIRECT_PREFIX) :].partition(b".")
            known = self._answering.get(name)
            if (
                known is not None
                and not headers
                and known[1].log.index.last_seq >= known[0].shown
                and not self._router.route_at_once(reply).is_empty()
                and self._router.reader.quick(known[1], appended, body, reply, self._outbox)
            ):
                self.answered += 1
                return True
        elif subject.startswith(MESSAGE_PREFIX):
            name, appended = subject[len(MESSAGE_PREFIX) :], b""
        elif subject.startswith(INFO_PREFIX) and not self._bridge.up:
            return self._stream_info(subject[len(INFO_PREFIX) :], reply, body)
        else:
            return False
        again = bool(headers) and find_value(headers, FORWARDED) is not None
        copied = self._reconciler.find(name.decode(errors="replace"))
        stream = copied.copy() if copied is not None else None
        if copied is None or stream is None or self._router.route_at_once(reply).is_empty():
            if again:
                self._refuse(client, subject, reply)
            return again
        if subject.startswith(MESSAGE_PREFIX):
            return self._message_get(client, copied, stream, subject, reply, headers, body)
        if not copied.config.allow_direct:
            return False
        self._reconciler.read_again(name, copied, stream)
        last = stream.log.index.last_seq
        alone = again or not self._bridge.up
        if (
            not headers
            and (last >= copied.shown or alone)
            and self._router.reader.quick(stream, appended, body, reply, self._outbox)
        ):
            self.answered += 1
            return True
        target = Target(DIRECT_GET, stream, appended)
        request = parse_request(body, appended.decode(errors="replace"))
        if (
            isinstance(request, bytes)
            or alone
            or last >= (request.min_last_seq or copied.shown)
            or needs_newer(headers)
        ):
            self._answer(client, target, reply, headers, body)
        else:
            read = Read(client, copied, stream, request, subject, reply, headers, body, target)
            self._forwarded.start(read)
        return True

    def _stream_info(self, name: bytes, reply: bytes, body: bytes) -> bool:
        copied = self._reconciler.find(name.decode(errors="replace"))
        if copied is None or copied.copy() is None or self._router.route_at_once(reply).is_empty():
            return False
        self.answered += 1
        self._outbox.reply(reply, self._describe(copied, body))
        return True

    def _message_get(
        self,
        client: ConnectedClient,
        copied: CopiedStream,
        stream: Stream,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        body: bytes,
    ) -> bool:
        request = _decoded(body)
        again = bool(headers) and find_value(headers, FORWARDED) is not None
        wanted = request.min_last_seq if request is not None else 0
        target = Target(REQUEST, None, subject[len(b"$JS.API.") :])
        if request is None or wanted == 0:
            if self._bridge.up and not again:
                return False
            self._refuse(client, subject, reply)
        elif wanted <= stream.log.index.last_seq or again or not self._bridge.up:
            self._answer(client, target, reply, headers, body)
        else:
            read = Read(client, copied, stream, request, subject, reply, headers, body, target)
            self._forwarded.start(read)
        return True

    def _answer(
        self, client: ConnectedClient, target: Target, reply: bytes, headers: bytes, body: bytes
    ) -> None:
        """Let the engine answer, now or when the copy is new enough."""
        self.answered += 1
        self._router.turn.spend(REQUEST_UNITS)
        self._router.engine.request(target, reply, headers, body, client.session)

    def _refuse(self, client: ConnectedClient, subject: bytes, reply: bytes) -> None:
        if client.no_responders:
            client.say_no_responders(subject, reply)


def _decoded(body: bytes) -> MsgGetRequest | None:
    """Return the request, or None if only a strict decoder can decide."""
    try:
        return decode_msg_get(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
