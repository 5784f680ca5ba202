"""Dispatches ``$JS.API`` subjects. Unknown requests get no answer, as in released servers."""

from collections.abc import Callable
from typing import Any, Final

from jetspark.api.account import ACCOUNT_INFO
from jetspark.api.base import Response
from jetspark.api.message import MSG_DELETE, MSG_GET
from jetspark.api.stream import (
    STREAM_CREATE,
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_LEADER_STEPDOWN,
    STREAM_LIST,
    STREAM_NAMES,
    STREAM_PURGE,
    STREAM_REMOVE_PEER,
    STREAM_RESTORE,
    STREAM_SNAPSHOT,
    STREAM_UPDATE,
)
from jetspark.engine.advisories import AUDIT_SUBJECT, INTERNAL, Audit, Requester
from jetspark.engine.direct.request import needs_newer
from jetspark.engine.engine import Engine
from jetspark.engine.failures import BODY, RequestFailed
from jetspark.engine.operations import Postponed
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.requests import account, backups, consumers, messages, streams
from jetspark.engine.requests.request import Prepared, Request, arrival_at
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import ReadFailed

# A handler returns the complete reply, or None if the reply waits for something. It may raise
# Refusal, which becomes an error reply of its kind.
Handler = Callable[[Engine, Request], bytes | None]

_NAMED: Final[dict[bytes, tuple[Handler, Response[Any]]]] = {
    b"STREAM.CREATE": (streams.create, STREAM_CREATE),
    b"STREAM.UPDATE": (streams.update, STREAM_UPDATE),
    b"STREAM.INFO": (streams.info, STREAM_INFO),
    b"STREAM.DELETE": (streams.delete, STREAM_DELETE),
    b"STREAM.PURGE": (messages.purge, STREAM_PURGE),
    b"STREAM.SNAPSHOT": (backups.snapshot, STREAM_SNAPSHOT),
    b"STREAM.RESTORE": (backups.restore, STREAM_RESTORE),
    b"STREAM.MSG.GET": (messages.get, MSG_GET),
    b"STREAM.MSG.DELETE": (messages.delete, MSG_DELETE),
    b"STREAM.LEADER.STEPDOWN": (streams.needs_cluster, STREAM_LEADER_STEPDOWN),
    b"STREAM.PEER.REMOVE": (streams.needs_cluster, STREAM_REMOVE_PEER),
}
_WHOLE: Final[dict[bytes, tuple[Handler, Response[Any]]]] = {
    b"INFO": (account.info, ACCOUNT_INFO),
    b"STREAM.NAMES": (streams.names, STREAM_NAMES),
    b"STREAM.LIST": (streams.listing, STREAM_LIST),
}

UNSERVED: Final = "the stream is on disk but could not be opened when the server was started"
_CONSUMER: Final = b"CONSUMER."

# The position of an error in an answer: right after its type.
_ERROR: Final = b'_response","error":{'
_ERROR_BEFORE: Final = 100


def handle(
    engine: Engine,
    verb: bytes,
    body: bytes,
    reply: bytes,
    now: int,
    outbox: Outbox,
    headers: bytes = b"",
    requester: Requester = INTERNAL,
    waited: Request | None = None,
) -> bool:
    """Answer one request; ``verb`` is what follows ``$JS.API.`` in its subject.

    False if it was refused or is unknown. ``waited`` is the same request, if it had to wait.
    """
    known = _known(verb)
    if known is None:
        return False
    handler, kind, name, consumer, subject_filter = known
    audited = engine.advisories.wanted(AUDIT_SUBJECT)
    request = Request(
        name,
        body,
        reply,
        now,
        outbox,
        requester,
        Audit(engine.advisories, verb, body, requester, now) if audited else None,
        consumer,
        subject_filter,
        arrival_at(engine.streams.get(name)) if waited is None else waited.arrival,
        Prepared() if waited is None else waited.prepared,
    )
    answer: bytes | None
    try:
        engine.operations.check(name)
        if name in engine.unserved:
            raise Refusal(ErrCode.STORE_FAILED, err=UNSERVED)
        if needs_newer(headers):
            raise Refusal(ErrCode.REQUIRED_API_LEVEL)
        answer = handler(engine, request)
    except Postponed as postponed:

        def again(now: int, outbox: Outbox) -> None:
            _handle_late(engine, verb, body, reply, now, outbox, headers, requester, request)

        if engine.operations.postpone(postponed.until, name, len(body), again):
            return True
        request.end(engine)
        answer = kind.error(error_body(ErrCode.INSUFFICIENT_RESOURCES))
    except Refusal as refusal:
        answer = kind.error(refusal.body)
    except ReadFailed as problem:
        # The request depends on a message that the disk fails to read.
        answer = kind.error(error_body(ErrCode.STORE_FAILED, err=problem.public))
    except Exception as error:
        request.end(engine)
        engine.api.count(failed=True)
        raise RequestFailed(kind.error(BODY)) from error
    request.end(engine)
    if answer is not None:
        outbox.reply(reply, answer)
    failed = answer is not None and _ERROR in answer[:_ERROR_BEFORE]
    # Reads of messages are not audited; requests that wait are audited when they are answered.
    if request.audit is not None and answer is not None and (failed or kind is not MSG_GET):
        request.audit.answered(answer, outbox)
    engine.api.count(failed=failed, is_read=kind is MSG_GET)
    return not failed


def _handle_late(
    engine: Engine,
    verb: bytes,
    body: bytes,
    reply: bytes,
    now: int,
    outbox: Outbox,
    headers: bytes,
    requester: Requester,
    waited: Request,
) -> None:
    """Answer a request that had to wait; no caller handles its exceptions."""
    try:
        handle(engine, verb, body, reply, now, outbox, headers, requester, waited)
    except RequestFailed as error:
        engine.failures.note(f"a request {verb.decode(errors='replace')!r}", error)
        outbox.reply(reply, error.answer)


def not_enabled(verb: bytes) -> bytes | None:
    """Return the answer for an account without JetStream; None if the request is unknown."""
    return error_answer(verb, error_body(ErrCode.NOT_ENABLED_FOR_ACCOUNT))


def error_answer(verb: bytes, error: bytes) -> bytes | None:
    """Return the answer that refuses a request with an error; None if it is unknown."""
    known = _known(verb)
    return None if known is None else known.kind.error(error)


def _known(verb: bytes) -> consumers.Route | None:
    """Return the handler of a request, and the names in its subject."""
    if verb.startswith(_CONSUMER):
        return consumers.route(verb[len(_CONSUMER) :])
    known = _WHOLE.get(verb)
    name = b""
    if known is None:
        # A stream's name has no dots, so it is the last token.
        head, _, name = verb.rpartition(b".")
        known = _NAMED.get(head)
    if known is None:
        return None
    return consumers.Route(known[0], known[1], name.decode(errors="replace"), "")
