"""Read-only replicas (ADR-8, read-only mode): writes are refused here, with a clear error.

Under ``$JS.`` only known reads pass, in any domain: everything else is refused, so a request that
a later leader supports is not a loophole. Consumers count as reads if they change nothing that is
stored: created and deleted without a durable name, on streams with limits retention, where an
acknowledgement removes nothing.

Other messages pass unless a stream of the leader stores their subject, so requests to services
work. Reply subjects are checked as well: a leader that publishes its answer to a subject that a
stream stores would write it there.
"""

import asyncio
from collections import deque
from typing import Final

import msgspec

from jetspark.api.base import encode, encode_request
from jetspark.api.consumer import CONSUMER_DELETE, ConsumerCreateRequest
from jetspark.api.enums import ConsumerAction
from jetspark.api.stream import SnapshotRequest
from jetspark.api.strict import InvalidRequest, decode
from jetspark.client.jetstream.api import DEFAULT_PREFIX, ApiClient
from jetspark.client.jetstream.consumer.create import consumer_info
from jetspark.engine.requests.dispatch import error_answer
from jetspark.errors import ApiError, BadName, ConsumerNotFound, Error
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.headers.status import CONFLICT, status_block
from jetspark.replica.bridge import Bridge
from jetspark.replica.stored_subjects import StoredSubjects
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.router import Router

READ_ONLY: Final = "this server is a read-only replica: connect to the leader to write"
NOT_KNOWN: Final = (
    "this server is a read-only replica, and the leader's list of streams, which says what is "
    "stored, has not arrived yet: try again"
)
DURABLE: Final = (
    "this server is a read-only replica, where consumers have no durable_name, are not changed, "
    "and deliver to no subject that a stream stores: connect to the leader"
)
KEEPS: Final = (
    "this server is a read-only replica, and consumers of this stream remove messages from it, or "
    "the stream is not known here: connect to the leader"
)
BUSY: Final = (
    "this server is a read-only replica, and many consumers of this connection already wait to be "
    "deleted: wait for answers, then try again"
)

_JS: Final = b"$JS."
_INBOX: Final = b"_INBOX."
_API: Final = b"API."
# Requests that change nothing, whatever they contain.
_READS: Final = frozenset({b"INFO", b"STREAM.NAMES", b"STREAM.LIST"})
_READ_STARTS: Final = (
    b"STREAM.INFO.",
    b"STREAM.MSG.GET.",
    b"DIRECT.GET.",
    b"CONSUMER.NAMES.",
    b"CONSUMER.LIST.",
    b"CONSUMER.INFO.",
    b"CONSUMER.EXPLAIN.",
)
_CREATE: Final = b"CONSUMER.CREATE."
_DELETE: Final = b"CONSUMER.DELETE."
_NEXT: Final = b"CONSUMER.MSG.NEXT."
_SNAPSHOT: Final = b"STREAM.SNAPSHOT."
_ACK: Final = b"ACK."
# Answers to flow control, and to chunks of a snapshot: they only allow more to be sent.
_ANSWERS: Final = (b"FC.", b"SNAPSHOT.ACK.")
# `$JS.ACK.<stream>.<consumer>` and five numbers, or with a domain and an account before them.
_ACK_TOKENS: Final = 9
_ACK_TOKENS_LONG: Final = 11
_NO_DOMAIN: Final = b"_"
# This many consumers of one client may wait to be deleted; they are deleted one by one.
_DELETIONS_MAX: Final = 1000
# No consumer on a server has a longer name.
_NAME_MAX: Final = 255


class WriteGuard:
    """Recognises what would be a write at the leader."""

    def __init__(self, router: Router, bridge: Bridge, stored: StoredSubjects) -> None:
        self._router = router
        self._bridge = bridge
        self._stored = stored
        self._api = ApiClient(bridge.core, DEFAULT_PREFIX, bridge.core.options.timeout)
        # The consumers that each client wants deleted: stream, consumer and reply subject.
        self._deletions: dict[ConnectedClient, deque[tuple[str, str, bytes]]] = {}
        self._deleting: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop."""
        for task in self._deleting:
            task.cancel()

    def checked(
        self, client: ConnectedClient, subject: bytes, reply: bytes, body: bytes
    ) -> bytes | None:
        """Return the body to forward, mostly unchanged; None: refused, or handled already."""
        if reply and (reply.startswith(_JS) or self._may_store(reply)):
            client.session.on_reply_denied(reply)
            return None
        if subject.startswith(_JS):
            return self._checked_request(client, subject, reply, body)
        if not self._stored.known:
            self._refuse(client, subject, reply, _publish_error(NOT_KNOWN))
            return None
        if self._stored.has(subject):
            self._refuse(client, subject, reply, _publish_error(READ_ONLY))
            return None
        return body

    def _may_store(self, subject: bytes) -> bool:
        """Return whether a message there may be stored; streams rarely store clients' inboxes."""
        return self._stored.has(subject) or not (self._stored.known or subject.startswith(_INBOX))

    def _refuse(
        self, client: ConnectedClient, subject: bytes, reply: bytes, answer: bytes
    ) -> None:
        if reply:
            self._router.outbox.reply(reply, answer)
        else:
            client.session.on_publish_denied(subject)

    # Requests and acknowledgements -------------------------------------------------------------

    def _checked_request(
        self, client: ConnectedClient, subject: bytes, reply: bytes, body: bytes
    ) -> bytes | None:
        rest = subject[len(_JS) :]
        if rest.startswith(_ANSWERS):
            return body
        if rest.startswith(_ACK):
            return self._checked_ack(client, subject, reply, body)
        domain = b""
        if not rest.startswith(_API):
            domain, _, rest = rest.partition(b".")
        verb = rest[len(_API) :] if rest.startswith(_API) else b""
        if verb in _READS or verb.startswith(_READ_STARTS):
            return body
        if domain and domain != self._bridge.core.server_info.domain.encode():
            # Streams of that name in another domain are unknown here.
            self._refuse_request(client, subject, reply, verb, READ_ONLY)
            return None
        if verb.startswith(_CREATE):
            return self._checked_create(client, subject, reply, verb, body)
        if verb.startswith(_NEXT):
            if self._keeps(verb[len(_NEXT) :]):
                return body
            if reply:
                block = status_block(CONFLICT, KEEPS.encode())
                self._router.outbox.reply_status(reply, block)
            return None
        if verb.startswith(_DELETE):
            self._start_deletion(client, subject, reply, verb)
            return None
        if verb.startswith(_SNAPSHOT):
            return self._checked_snapshot(client, subject, reply, verb, body)
        self._refuse_request(client, subject, reply, verb, READ_ONLY)
        return None

    def _refuse_request(
        self, client: ConnectedClient, subject: bytes, reply: bytes, verb: bytes, why: str
    ) -> None:
        error = _error(why)
        answer = error_answer(verb, error) if verb else None
        self._refuse(client, subject, reply, answer or b'{"error":%b}' % error)

    def _keeps(self, named: bytes) -> bool:
        """Return whether a stream, the first token, keeps its messages whatever consumers do."""
        return self._stored.keeps(named.partition(b".")[0].decode(errors="replace"))

    def _checked_ack(
        self, client: ConnectedClient, subject: bytes, reply: bytes, body: bytes
    ) -> bytes | None:
        tokens = subject.split(b".")
        stream = b""
        if len(tokens) == _ACK_TOKENS:
            stream = tokens[2]
        elif len(tokens) >= _ACK_TOKENS_LONG and tokens[2] in {
            _NO_DOMAIN,
            self._bridge.core.server_info.domain.encode(),
        }:
            stream = tokens[4]
        if stream and self._keeps(stream):
            return body
        client.session.on_publish_denied(subject)
        if reply and client.no_responders:
            # Clients treat any answer to an acknowledgement as its confirmation.
            client.say_no_responders(subject, reply)
        return None

    def _checked_create(
        self, client: ConnectedClient, subject: bytes, reply: bytes, verb: bytes, body: bytes
    ) -> bytes | None:
        if not self._keeps(verb[len(_CREATE) :]):
            self._refuse_request(client, subject, reply, verb, KEEPS)
            return None
        try:
            wanted = decode(body, ConsumerCreateRequest)
        except InvalidRequest as problem:
            error = error_body(ErrCode.INVALID_JSON, err=problem)
            self._refuse(client, subject, reply, error_answer(verb, error) or error)
            return None
        config = wanted.config
        if (
            config.durable_name
            or wanted.action == ConsumerAction.UPDATE
            or self._writes_to(config.deliver_subject)
        ):
            self._refuse_request(client, subject, reply, verb, DURABLE)
            return None
        # An existing one is not changed; and the leader reads what was checked here.
        only_new = msgspec.structs.replace(wanted, action=ConsumerAction.CREATE)
        return encode_request(only_new)

    def _checked_snapshot(
        self, client: ConnectedClient, subject: bytes, reply: bytes, verb: bytes, body: bytes
    ) -> bytes | None:
        try:
            wanted = decode(body, SnapshotRequest)
        except InvalidRequest as problem:
            error = error_body(ErrCode.INVALID_JSON, err=problem)
            self._refuse(client, subject, reply, error_answer(verb, error) or error)
            return None
        if self._writes_to(wanted.deliver_subject):
            self._refuse_request(client, subject, reply, verb, READ_ONLY)
            return None
        return encode(wanted)

    def _writes_to(self, deliver: str) -> bool:
        """Return whether the leader would write to where it delivers."""
        subject = deliver.encode("utf-8", "surrogateescape")
        return bool(subject) and (subject.startswith(_JS) or self._may_store(subject))

    # Deletion of consumers ---------------------------------------------------------------------

    def _start_deletion(
        self, client: ConnectedClient, subject: bytes, reply: bytes, verb: bytes
    ) -> None:
        named = verb[len(_DELETE) :]
        stream, _, consumer = named.decode(errors="replace").partition(".")
        if not self._keeps(named):
            self._refuse_request(client, subject, reply, verb, KEEPS)
        elif not self._bridge.up:
            if reply and client.no_responders:
                client.say_no_responders(subject, reply)
        elif len(waiting := self._deletions.setdefault(client, deque())) >= _DELETIONS_MAX:
            self._refuse_request(client, subject, reply, verb, BUSY)
        else:
            waiting.append((stream, consumer, reply))
            if len(waiting) == 1:
                task = asyncio.get_running_loop().create_task(self._delete_all(client, waiting))
                self._deleting.add(task)
                task.add_done_callback(self._deleting.discard)

    async def _delete_all(
        self, client: ConnectedClient, waiting: deque[tuple[str, str, bytes]]
    ) -> None:
        """Delete what a client wants deleted, one after the other."""
        try:
            while waiting:
                await self._delete(*waiting[0])
                waiting.popleft()
        finally:
            del self._deletions[client]

    async def _delete(self, stream: str, consumer: str, reply: bytes) -> None:
        """Delete a consumer unless it is durable: that is a client's position in the stream."""
        try:
            if len(consumer) > _NAME_MAX:
                raise BadName("consumer", consumer, "too long")
            info = await consumer_info(self._api, stream, consumer)
            if info.config.durable_name:
                answer = CONSUMER_DELETE.error(_error(DURABLE))
            else:
                verb = f"CONSUMER.DELETE.{stream}.{consumer}"
                answer = CONSUMER_DELETE.ok(await self._api.call(verb, None, CONSUMER_DELETE))
        except (ConsumerNotFound, ValueError):  # or an invalid name
            answer = CONSUMER_DELETE.error(error_body(ErrCode.CONSUMER_NOT_FOUND))
        except ApiError as refused:
            answer = CONSUMER_DELETE.error(
                b'{"code":%d,"err_code":%d,"description":%b}'
                % (refused.code, refused.err_code, encode(refused.description))
            )
        except Error:
            return  # no answer, as for any request that the leader did not answer
        if reply:
            self._router.send(reply, reply, b"", b"", answer)
            self._bridge.flush_clients()


def _error(text: str) -> bytes:
    """Return the error of a refusal; the texts here contain nothing that JSON escapes."""
    return b'{"code":403,"err_code":%d,"description":"%b"}' % (
        ErrCode.STREAM_SEALED, text.encode(),
    )  # fmt: skip


def _publish_error(text: str) -> bytes:
    return b'{"error":%b,"stream":"","seq":0}' % _error(text)
