"""STREAM.CREATE, UPDATE, INFO, DELETE, NAMES and LIST."""

from functools import partial
from typing import NoReturn

import msgspec

from jetspark.api.advisory import StreamActed
from jetspark.api.base import Success
from jetspark.api.enums import Action
from jetspark.api.stream import (
    STREAM_CREATE,
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_LIST,
    STREAM_NAMES,
    STREAM_UPDATE,
    ClusterInfo,
    StreamConfig,
    StreamCreateRequest,
    StreamCreateResponse,
    StreamInfo,
    StreamInfoRequest,
    StreamListRequest,
    StreamListResponse,
    StreamNamesRequest,
    StreamNamesResponse,
)
from jetspark.engine.engine import Engine, NewStream
from jetspark.engine.limits import (
    COPY_BYTES,
    DELETED_LISTED_MAX,
    LIST_BYTES,
    LIST_PAGE,
    NAMES_PAGE,
    SUBJECTS_PAGE,
)
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.replicate.remotes import check_remotes
from jetspark.engine.requests.request import READ_ONLY, Request
from jetspark.engine.stream.config import checking, invalid
from jetspark.engine.stream.config_update import updated
from jetspark.engine.stream.state import jetspark_info, stream_info, stream_info_with
from jetspark.engine.stream.stream import Stream
from jetspark.engine.stream.subject_page import SubjectPage
from jetspark.engine.wanted_subjects import Claim
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import StoreReadOnly


def create(engine: Engine, request: Request) -> bytes | None:
    """Create a stream; an identical request is answered as if it had created it.

    (Released servers say ``did_create`` then, too.)
    """
    request.keep_order(engine)
    config = wanted_config(engine, request)
    check_remotes(config, engine.upstreams)
    existing = engine.streams.get(request.name)
    if existing is not None:
        if existing.config != config:
            raise Refusal(ErrCode.STREAM_NAME_IN_USE)
        return _created(existing, request.now)
    engine.admit(config)
    claim = request.claimed(engine, config)
    request.take_claim()

    def finish(new: NewStream, error: OSError | None, now: int, outbox: Outbox) -> None:
        request.finish(STREAM_CREATE, lambda: _finish(engine, new, claim, error, now, outbox))

    engine.start_creation(config, request.now, request.outbox, finish, claimed=claim is not None)
    return None


def _finish(
    engine: Engine,
    new: NewStream,
    claim: Claim | None,
    error: OSError | None,
    now: int,
    outbox: Outbox,
) -> bytes:
    """Make a created stream visible; return the answer to the client."""
    try:
        try:
            if error is not None:
                text = f"store: {error.strerror}"
                raise Refusal(ErrCode.STREAM_CREATE_FAILED, err=text) from error
            # Others may have been created meanwhile.
            engine.usage.admit(new.config)
            if claim is None and engine.overlaps(new.config):
                raise Refusal(ErrCode.SUBJECTS_OVERLAP)
        except Exception:
            if claim is not None:
                engine.abandon(claim)
            raise
        stream = engine.show(new, now, claim)
    except Exception:
        # The client gets an error, so the stream must not exist after a restart either.
        if new.log is not None:
            engine.discard(new.log, lambda _error, _now, _outbox: None, now, outbox)
        raise
    done = StreamActed(stream=new.config.name, action=Action.CREATE)
    engine.advisories.send(done, now, outbox)
    return _created(stream, now)


def _created(stream: Stream, now: int) -> bytes:
    answer = stream_info(stream, now, StreamCreateResponse)
    return STREAM_CREATE.ok(msgspec.structs.replace(answer, did_create=True))


def wanted_config(engine: Engine, request: Request) -> StreamConfig:
    """Return the configuration of a STREAM.CREATE, with its defaults, validated."""
    wanted = request.decoded_in_turns(engine, StreamCreateRequest)
    if wanted.name != request.name:
        raise Refusal(ErrCode.STREAM_MISMATCH)
    if "/" in wanted.name or "\\" in wanted.name:
        raise Refusal(ErrCode.STREAM_NAME_HAS_SEPARATORS)
    if wanted.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if wanted.mirror_direct and wanted.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")
    return _checked(engine, request, wanted)


def _checked(engine: Engine, request: Request, wanted: StreamCreateRequest) -> StreamConfig:
    check = partial(
        checking,
        wanted.config(),
        pedantic=wanted.pedantic,
        find=engine.find,
        window_max=engine.settings.duplicate_window_max,
    )
    return request.in_turns(engine, "configuration", check)


def update(engine: Engine, request: Request) -> bytes | None:
    """Update a stream's configuration."""
    request.keep_order(engine)
    wanted = request.decoded_in_turns(engine, StreamCreateRequest)
    config = _checked(engine, request, wanted)
    if config.name != request.name:
        raise Refusal(ErrCode.STREAM_MISMATCH)
    stream = request.stream(engine)
    config = updated(stream.config, config)
    check_remotes(config, engine.upstreams)
    _check_consumers(stream, config)
    engine.admit(config, stream.config)
    moved = config.subjects != stream.config.subjects
    claim = request.claimed(engine, config) if moved else None
    try:
        engine.update_stream(stream, config, claim)
    except StoreReadOnly:
        raise Refusal(ErrCode.STREAM_UPDATE_FAILED, err=READ_ONLY) from None
    request.take_claim()
    done = StreamActed(stream=config.name, action=Action.MODIFY)
    engine.advisories.hold(done, stream, request.now, request.outbox)
    now = request.now

    def described() -> bytes:
        """Describe the stream without what lower limits evict."""
        return STREAM_UPDATE.ok(stream_info(stream, now, StreamInfo))

    request.hold(stream, described, STREAM_UPDATE)
    return None


def _check_consumers(stream: Stream, config: StreamConfig) -> None:
    """Refuse limits for consumers that some of them exceed."""
    limits = config.consumer_limits
    beyond = [
        name
        for name, consumer in stream.consumers.items()
        if 0 < limits.max_ack_pending < consumer.config.max_ack_pending
        or 0 < limits.inactive_threshold < consumer.config.inactive_threshold
    ]
    if beyond:
        text = f"change to limits violates consumers: {', '.join(sorted(beyond))}"
        raise Refusal(ErrCode.STREAM_UPDATE_FAILED, err=text)


def info(engine: Engine, request: Request) -> bytes | None:
    """Describe a stream: its configuration and what is durable in it."""
    wanted = request.decoded_object(StreamInfoRequest)
    stream = request.stream(engine)
    if not wanted.subjects_filter:
        return _described(engine, request, stream, wanted, None)
    page = SubjectPage(
        stream.log.index, wanted.subjects_filter.encode(), max(wanted.offset, 0), SUBJECTS_PAGE
    )
    if page.step():
        return _described(engine, request, stream, wanted, page)
    request.later(
        engine, page.step, STREAM_INFO, lambda: _described(engine, request, stream, wanted, page)
    )
    return None


def _described(
    engine: Engine,
    request: Request,
    stream: Stream,
    wanted: StreamInfoRequest,
    page: SubjectPage | None,
) -> bytes:
    if stream.dropped:
        raise Refusal(ErrCode.STREAM_NOT_FOUND)
    answer = stream_info(stream, request.now, StreamInfo)
    state = answer.state
    # Fields that nats-server does not have only on request: strict clients refuse such answers.
    ours = jetspark_info(stream) if wanted.jetspark else None
    total = offset = limit = 0
    if wanted.deleted_details and state.num_deleted:
        if state.num_deleted > DELETED_LISTED_MAX:
            text = f"{state.num_deleted} sequences have no message, and at most "
            text += f"{DELETED_LISTED_MAX} are listed: ask without deleted_details"
            raise Refusal(ErrCode.STREAM_GENERAL, err=text)
        state = msgspec.structs.replace(state, deleted=tuple(stream.log.index.missing()))
    if page is not None and page.total:
        total = page.total
        offset, limit = max(wanted.offset, 0), SUBJECTS_PAGE
        state = msgspec.structs.replace(state, subjects=page.counts())
    cluster = ClusterInfo(leader=engine.leader) if engine.leader else None
    return STREAM_INFO.ok(
        msgspec.structs.replace(
            answer,
            state=state,
            total=total,
            offset=offset,
            limit=limit,
            cluster=cluster,
            jetspark=ours,
        )
    )


def delete(engine: Engine, request: Request) -> None:
    """Remove a stream."""
    if not request.is_empty():
        raise Refusal(ErrCode.REQUEST_NOT_EMPTY)
    stream = request.stream(engine)

    def answer(error: OSError | None, now: int, outbox: Outbox) -> bytes:
        if error is not None:
            raise Refusal(ErrCode.STREAM_DELETE_FAILED, err=f"store: {error.strerror}") from error
        done = StreamActed(stream=stream.config.name, action=Action.DELETE)
        engine.advisories.send(done, now, outbox)
        return STREAM_DELETE.ok(Success(success=True))

    def finish(error: OSError | None, now: int, outbox: Outbox) -> None:
        request.finish(STREAM_DELETE, lambda: answer(error, now, outbox))

    engine.start_removal(stream, request.now, request.outbox, finish)


def names(engine: Engine, request: Request) -> bytes:
    """List names, optionally of the streams whose subjects overlap a subject."""
    wanted = request.decoded_object(StreamNamesRequest)
    if wanted.subject:
        found = [stream.config.name for stream in _matching(engine, request, wanted.subject)]
    else:
        found = engine.names()
    offset = min(max(wanted.offset, 0), len(found))
    page = tuple(found[offset : offset + NAMES_PAGE])
    return STREAM_NAMES.ok(
        StreamNamesResponse(
            total=len(found), offset=offset, limit=NAMES_PAGE, streams=page or None
        )
    )


def listing(engine: Engine, request: Request) -> bytes:
    """List streams with their info."""
    wanted = request.decoded_object(StreamListRequest)
    if wanted.subject:
        found = _matching(engine, request, wanted.subject)
        total = len(found)
        offset = min(max(wanted.offset, 0), total)
        page = _page(found[offset : offset + LIST_PAGE])
    else:
        names = engine.names()
        total = len(names)
        offset = min(max(wanted.offset, 0), total)
        page = _page([engine.streams[name] for name in names[offset : offset + LIST_PAGE]])
    return STREAM_LIST.ok(
        StreamListResponse(
            total=total,
            offset=offset,
            limit=LIST_PAGE,
            # Released servers list configurations as they are stored, without additions.
            streams=tuple(stream_info_with(s, s.config, request.now, StreamInfo) for s in page),
        )
    )


def _page(streams: list[Stream]) -> list[Stream]:
    """Return as many of these as one answer may describe: large configurations shorten pages.

    Clients continue after the last one that they got.
    """
    left = LIST_BYTES
    for number, stream in enumerate(streams):
        left -= len(stream.log.identity.config) + len(stream.copies) * COPY_BYTES
        if left < 0:
            return streams[: max(number, 1)]
    return streams


def needs_cluster(_engine: Engine, _request: Request) -> NoReturn:
    """Refuse a request that needs a cluster."""
    raise Refusal(ErrCode.CLUSTER_REQUIRED)


def _matching(engine: Engine, request: Request, subject: str) -> list[Stream]:
    """Return the streams whose subjects overlap a subject."""
    search = partial(engine.overlapping, subject.encode())
    found: list[Stream] = request.in_turns(engine, "streams", search)
    return [stream for stream in found if not stream.dropped]
