"""STREAM.CREATE, INFO, DELETE, NAMES and LIST."""

from typing import TypeVar

import msgspec

from jetspark.api.base import ApiStruct, Success, Timestamp
from jetspark.api.stream import (
    STREAM_CREATE,
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_LIST,
    STREAM_NAMES,
    StreamConfig,
    StreamCreateRequest,
    StreamCreateResponse,
    StreamInfo,
    StreamInfoRequest,
    StreamListRequest,
    StreamListResponse,
    StreamNamesRequest,
    StreamNamesResponse,
    StreamState,
)
from jetspark.api.strict import InvalidRequest, decode
from jetspark.engine.engine import Engine
from jetspark.engine.limits import LIST_PAGE, NAMES_PAGE
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.config import prepared
from jetspark.engine.stream.stream import Stream
from jetspark.errors.codes import ErrCode
from jetspark.subjects.match import overlaps

_Info = TypeVar("_Info", bound=StreamInfo)
_Request = TypeVar("_Request", bound=ApiStruct)


def create(engine: Engine, name: str, body: bytes, now: int) -> bytes:
    """Make a stream; repeating an identical request succeeds without ``did_create``."""
    try:
        request = _decoded(body, StreamCreateRequest)
        if request.name != name:
            raise Refusal(ErrCode.STREAM_MISMATCH)
        config = prepared(request.config())
        existing = engine.streams.get(name)
        if existing is not None:
            if existing.config != config:
                raise Refusal(ErrCode.STREAM_NAME_IN_USE)
            return STREAM_CREATE.ok(_info(existing, now, StreamCreateResponse))
        if engine.overlapping(config) is not None:
            raise Refusal(ErrCode.SUBJECTS_OVERLAP)
        stream = _create(engine, config, now)
    except Refusal as refusal:
        return STREAM_CREATE.error(refusal.body)
    answer = _info(stream, now, StreamCreateResponse)
    return STREAM_CREATE.ok(msgspec.structs.replace(answer, did_create=True))


def _create(engine: Engine, config: StreamConfig, now: int) -> Stream:
    try:
        return engine.create_stream(config, now)
    except OSError as error:
        raise Refusal(ErrCode.STREAM_CREATE_FAILED, err=f"store: {error.strerror}") from error


def info(engine: Engine, name: str, body: bytes, now: int) -> bytes:
    """Describe a stream: its configuration and what is durable in it."""
    try:
        request = _decoded(body, StreamInfoRequest)
        stream = _named(engine, name)
        if request.deleted_details or request.subjects_filter:
            raise Refusal(
                ErrCode.STREAM_INVALID_CONFIG,
                err="deleted_details and subjects_filter are not supported by this version yet",
            )
    except Refusal as refusal:
        return STREAM_INFO.error(refusal.body)
    answer = _info(stream, now, StreamInfo)
    return STREAM_INFO.ok(msgspec.structs.replace(answer, total=0, offset=0, limit=0))


def delete(engine: Engine, name: str, body: bytes, _now: int) -> bytes:
    """Remove a stream."""
    try:
        if body:
            raise Refusal(ErrCode.REQUEST_NOT_EMPTY)
        engine.drop_stream(_named(engine, name))
    except Refusal as refusal:
        return STREAM_DELETE.error(refusal.body)
    return STREAM_DELETE.ok(Success(success=True))


def names(engine: Engine, _rest: str, body: bytes, _now: int) -> bytes:
    """List names, of the streams whose subjects collide with a subject if one is given."""
    try:
        request = _decoded(body, StreamNamesRequest)
    except Refusal as refusal:
        return STREAM_NAMES.error(refusal.body)
    found = [stream.config.name for stream in _matching(engine, request)]
    offset = min(max(request.offset, 0), len(found))
    page = tuple(found[offset : offset + NAMES_PAGE])
    return STREAM_NAMES.ok(
        StreamNamesResponse(
            total=len(found), offset=offset, limit=NAMES_PAGE, streams=page or None
        )
    )


def listing(engine: Engine, _rest: str, body: bytes, now: int) -> bytes:
    """List streams with everything about them."""
    try:
        request = _decoded(body, StreamListRequest)
    except Refusal as refusal:
        return STREAM_LIST.error(refusal.body)
    found = _matching(engine, request)
    offset = min(max(request.offset, 0), len(found))
    page = found[offset : offset + LIST_PAGE]
    return STREAM_LIST.ok(
        StreamListResponse(
            total=len(found),
            offset=offset,
            limit=LIST_PAGE,
            streams=tuple(_info(stream, now, StreamInfo) for stream in page),
        )
    )


def _decoded(body: bytes, model: type[_Request]) -> _Request:
    try:
        return decode(body, model)
    except InvalidRequest as problem:
        raise Refusal(ErrCode.INVALID_JSON, err=problem) from None


def _named(engine: Engine, name: str) -> Stream:
    stream = engine.streams.get(name)
    if stream is None:
        raise Refusal(ErrCode.STREAM_NOT_FOUND)
    return stream


def _matching(engine: Engine, request: StreamNamesRequest) -> list[Stream]:
    wanted = request.subject.encode()
    return [
        stream
        for _, stream in sorted(engine.streams.items())
        if not wanted or any(overlaps(s.encode(), wanted) for s in stream.config.subjects)
    ]


def _info(stream: Stream, now: int, model: type[_Info]) -> _Info:
    index = stream.log.index
    holes = index.last_seq - index.first_seq + 1 - index.messages if index.messages else 0
    return model(
        config=stream.config,
        created=Timestamp(stream.created_ns),
        state=StreamState(
            messages=index.messages,
            bytes=index.bytes,
            first_seq=index.first_seq,
            first_ts=Timestamp(index.first_time),
            last_seq=index.last_seq,
            last_ts=Timestamp(index.last_time),
            num_subjects=index.subject_count,
            num_deleted=holes,
        ),
        ts=Timestamp(now),
    )
