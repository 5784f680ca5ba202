"""``$JS.API.CONSUMER.*``: create, update, info, list, pause, reset, unpin and delete."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from jetspark.api.base import Response, Success, Timestamp
from jetspark.api.consumer import (
    CONSUMER_CREATE,
    CONSUMER_DELETE,
    CONSUMER_EXPLAIN,
    CONSUMER_INFO,
    CONSUMER_LEADER_STEPDOWN,
    CONSUMER_LIST,
    CONSUMER_NAMES,
    CONSUMER_PAUSE,
    CONSUMER_RESET,
    CONSUMER_UNPIN,
    ConsumerConfig,
    ConsumerCreateRequest,
    ConsumerInfo,
    ConsumerListResponse,
    ConsumerNamesResponse,
    ConsumersRequest,
    ExplainRequest,
    PauseRequest,
    PauseResponse,
    ResetResponse,
    UnpinResponse,
    decode_reset,
    decode_unpin,
)
from jetspark.api.enums import DeliverPolicy
from jetspark.api.levels import answered_metadata
from jetspark.engine.consumer.admission import admitted, checking, named
from jetspark.engine.consumer.config import with_level
from jetspark.engine.consumer.config_checks import GROUP_NAME
from jetspark.engine.consumer.consumer import Consumer
from jetspark.engine.consumer.cursor import FILTERS_TRIED_MAX, ROWS_PER_TURN
from jetspark.engine.consumer.start import Findings, finding_newest, long_listing
from jetspark.engine.engine import Engine
from jetspark.engine.limits import ENTRY_BYTES, LIST_BYTES, LIST_PAGE, NAMES_PAGE
from jetspark.engine.refusal import Refusal
from jetspark.engine.requests.request import READ_ONLY, Request
from jetspark.engine.stream.stream import Stream
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import StoreReadOnly
from jetspark.ids import short_id
from jetspark.units import Nanoseconds

Handler = Callable[[Engine, Request], bytes | None]


def create(engine: Engine, request: Request) -> bytes | None:
    """Create a consumer, or update the one with its name."""
    return _create(engine, request, durable=False)


def create_durable(engine: Engine, request: Request) -> bytes | None:
    """Create a durable consumer, by the older subject."""
    return _create(engine, request, durable=True)


def _create(engine: Engine, request: Request, *, durable: bool) -> bytes | None:
    wanted = named(
        request.decoded_in_turns(engine, ConsumerCreateRequest),
        request.name,
        request.consumer,
        request.subject_filter,
        durable=durable,
    )
    stream = request.stream(engine)
    check = partial(checking, wanted.config, stream.config, stream.consumers)
    checked = request.in_turns(engine, "filters", check)
    config = admitted(wanted, stream.config, stream.consumers, engine.ceilings, checked)
    name = config.durable_name or config.name or _free_name(engine, stream)
    existing = stream.consumers.get(name)
    if existing is not None and existing.config == config:
        _make(engine, request, stream, name, config, Findings())
        return None
    filters = checked.filters.filters
    request.need_order(engine, stream, filters)
    patterns = checked.filters.patterns if len(filters) > FILTERS_TRIED_MAX else None
    if existing is not None:
        findings = Findings(filters=filters, patterns=patterns)
        _make(engine, request, stream, name, config, findings)
        return None
    search = partial(finding_newest, stream, config, filters)
    newest = request.in_turns(engine, "newest", search)
    listing = long_listing(stream, config, filters, patterns)
    findings = Findings(listing, newest, filters, patterns)
    if listing is None:
        _make(engine, request, stream, name, config, findings)
    else:
        request.later(
            engine,
            listing.step,
            CONSUMER_CREATE,
            lambda: _make(engine, request, stream, name, config, findings),
        )
    return None


def _make(
    engine: Engine,
    request: Request,
    stream: Stream,
    name: str,
    config: ConsumerConfig,
    findings: Findings,
) -> None:
    if stream.dropped:
        raise Refusal(ErrCode.STREAM_NOT_FOUND)
    consumer = stream.consumers.get(name)
    try:
        if consumer is None:
            consumer = engine.consumers.add(
                stream, name, config, request.now, request.outbox, findings
            )
        elif config != consumer.config:
            consumer.catch_up(request.now)
            engine.consumers.update(
                stream, consumer, config, request.now, request.outbox, findings
            )
    except StoreReadOnly:
        raise Refusal(ErrCode.CONSUMER_CREATE_FAILED, err=READ_ONLY) from None

    def answer() -> None:
        if consumer.delivery.dropped:
            raise Refusal(ErrCode.CONSUMER_NOT_FOUND)
        state = CONSUMER_CREATE.ok(_info(consumer, request.now))
        request.hold(stream, state, CONSUMER_CREATE)

    _when_counted(engine, request, [consumer], CONSUMER_CREATE, answer)


def _when_counted(
    engine: Engine,
    request: Request,
    consumers: list[Consumer],
    kind: Response[Any],
    answer: Callable[[], None],
) -> None:
    """Answer when the pending messages of these consumers are counted, now if that is fast."""
    for consumer in consumers:
        consumer.catch_up(request.now)
    waiting = [consumer.state.cursor for consumer in consumers]

    def step() -> bool:
        while waiting and waiting[-1].count_some():
            waiting.pop().catch_up()
        return not waiting

    if sum(int(cursor.uncounted()) for cursor in waiting) <= ROWS_PER_TURN:
        answer()
    else:
        request.later(engine, step, kind, answer)


def _free_name(engine: Engine, stream: Stream) -> str:
    while True:
        name = short_id(engine.random_id())
        if name not in stream.consumers:
            return name


def info(engine: Engine, request: Request) -> bytes | None:
    """Describe a consumer; the answer waits until its content is durable."""
    if not request.is_empty():
        raise Refusal(ErrCode.REQUEST_NOT_EMPTY)
    stream, consumer = _named(engine, request)
    engine.consumers.settle(stream, consumer)

    def answer() -> None:
        if consumer.delivery.dropped:
            raise Refusal(ErrCode.CONSUMER_NOT_FOUND)
        request.hold(stream, CONSUMER_INFO.ok(_info(consumer, request.now)), CONSUMER_INFO)

    _when_counted(engine, request, [consumer], CONSUMER_INFO, answer)
    return None


def delete(engine: Engine, request: Request) -> bytes | None:
    """Remove a consumer, durably."""
    if not request.is_empty():
        raise Refusal(ErrCode.REQUEST_NOT_EMPTY)
    stream, consumer = _named(engine, request)
    try:
        engine.consumers.drop(stream, consumer, request.now, request.outbox)
    except StoreReadOnly:
        raise Refusal(ErrCode.CONSUMER_CREATE_FAILED, err=READ_ONLY) from None
    request.hold(stream, CONSUMER_DELETE.ok(Success(success=True)), CONSUMER_DELETE)
    return None


def list_names(engine: Engine, request: Request) -> bytes:
    """List the names of a stream's consumers."""
    wanted = request.decoded_object(ConsumersRequest)
    found = _listed(request.stream(engine))
    offset = min(max(wanted.offset, 0), len(found))
    page = found[offset : offset + NAMES_PAGE]
    return CONSUMER_NAMES.ok(
        ConsumerNamesResponse(
            total=len(found),
            offset=offset,
            limit=NAMES_PAGE,
            consumers=tuple(consumer.name for consumer in page),
        )
    )


def listing(engine: Engine, request: Request) -> bytes | None:
    """List consumers with their info."""
    wanted = request.decoded_object(ConsumersRequest)
    stream = request.stream(engine)
    found = _listed(stream)
    offset = min(max(wanted.offset, 0), len(found))
    page = _page(found[offset : offset + LIST_PAGE])
    for consumer in page:
        engine.consumers.settle(stream, consumer)

    def answer() -> None:
        described = ConsumerListResponse(
            total=len(found),
            offset=offset,
            limit=LIST_PAGE,
            # Released servers list configurations as they are stored, without additions.
            consumers=tuple(
                consumer.info(request.now) for consumer in page if not consumer.delivery.dropped
            ),
        )
        request.hold(stream, CONSUMER_LIST.ok(described), CONSUMER_LIST)

    _when_counted(engine, request, page, CONSUMER_LIST, answer)
    return None


def _page(consumers: list[Consumer]) -> list[Consumer]:
    """Return as many of these as one answer may describe: large configurations shorten pages.

    Clients continue after the last one that they got.
    """
    left = LIST_BYTES // ENTRY_BYTES
    for number, consumer in enumerate(consumers):
        config = consumer.config
        left -= len(config.filter_subjects) + len(config.backoff) + len(config.priority_groups)
        left -= len(config.metadata)
        if left < 0:
            return consumers[: max(number, 1)]
    return consumers


def _listed(stream: Stream) -> list[Consumer]:
    """Return the consumers that lists show, by name."""
    return [
        consumer for _, consumer in sorted(stream.consumers.items()) if not consumer.config.direct
    ]


def pause(engine: Engine, request: Request) -> bytes | None:
    """Stop deliveries until a time, or resume them."""
    until = request.decoded_object(PauseRequest).pause_until
    stream, consumer = _named(engine, request)
    config = msgspec.structs.replace(consumer.config, pause_until=until or None)
    try:
        engine.consumers.update(stream, consumer, with_level(config), request.now, request.outbox)
    except StoreReadOnly:
        raise Refusal(ErrCode.CONSUMER_CREATE_FAILED, err=READ_ONLY) from None
    remaining = Nanoseconds(max(until - engine.wall.at(request.now), 0))
    answer = PauseResponse(
        paused=remaining > 0, pause_until=Timestamp(until), pause_remaining=remaining
    )
    request.hold(stream, CONSUMER_PAUSE.ok(answer), CONSUMER_PAUSE)
    return None


def reset(engine: Engine, request: Request) -> bytes | None:
    """Restart from a sequence, or from the ack floor; an unknown consumer gets no answer."""
    stream = engine.streams.get(request.name)
    consumer = None if stream is None else stream.consumers.get(request.consumer)
    if stream is None or consumer is None:
        return None
    consumer.catch_up(request.now)
    seq = 0
    if request.body:
        try:
            seq = decode_reset(request.body).seq
        except msgspec.MsgspecError as problem:
            raise Refusal(ErrCode.INVALID_JSON, err=problem) from None
    if seq:
        _check_reset(consumer, seq)
    try:
        start = engine.consumers.reset(stream, consumer, seq, request.now)
    except StoreReadOnly:
        raise Refusal(ErrCode.CONSUMER_RESET_INVALID, err=READ_ONLY) from None
    state = _info(consumer, request.now)
    fields = {name: getattr(state, name) for name in ConsumerInfo.__struct_fields__}
    answer = CONSUMER_RESET.ok(ResetResponse(**fields, reset_seq=start))
    request.hold(stream, answer, CONSUMER_RESET)
    return None


def _check_reset(consumer: Consumer, seq: int) -> None:
    """Refuse to go back before the configured start of the consumer."""
    policy = consumer.config.deliver_policy
    if policy == DeliverPolicy.ALL:
        return
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        if seq < consumer.config.opt_start_seq:
            raise Refusal(ErrCode.CONSUMER_RESET_INVALID, err="below start seq")
    elif policy == DeliverPolicy.BY_START_TIME:
        if seq < consumer.start_seq_by_time():
            raise Refusal(ErrCode.CONSUMER_RESET_INVALID, err="below start time")
    else:
        raise Refusal(ErrCode.CONSUMER_RESET_INVALID, err="not allowed")


def unpin(engine: Engine, request: Request) -> bytes:
    """Unpin the client of a priority group."""
    try:
        group = decode_unpin(request.body).group
    except msgspec.MsgspecError as problem:
        raise Refusal(ErrCode.INVALID_JSON, err=problem) from None
    if not group:
        raise Refusal(ErrCode.INVALID_JSON, err="consumer group not specified")
    if GROUP_NAME.fullmatch(group) is None:
        raise Refusal(ErrCode.PRIORITY_GROUP_INVALID)
    _, consumer = _named(engine, request)
    if group not in consumer.config.priority_groups:
        raise Refusal(ErrCode.PRIORITY_GROUP_UNKNOWN)
    engine.consumers.unpin(consumer, request.now, request.outbox)
    return CONSUMER_UNPIN.ok(UnpinResponse())


def explain(engine: Engine, request: Request) -> bytes:
    """Explain why a message is, or is not, delivered by a consumer; a request of ours."""
    wanted = request.decoded(ExplainRequest)
    if wanted.seq == 0:
        raise Refusal(ErrCode.BAD_REQUEST)
    _, consumer = _named(engine, request)
    from jetspark.engine.consumer.explain import answer as explained  # rare, and not small

    return CONSUMER_EXPLAIN.ok(explained(consumer, request.name, wanted.seq, request.now))


def needs_cluster(_engine: Engine, _request: Request) -> NoReturn:
    """Refuse a request that needs a cluster."""
    raise Refusal(ErrCode.CLUSTER_REQUIRED)


def _named(engine: Engine, request: Request) -> tuple[Stream, Consumer]:
    stream = request.stream(engine)
    consumer = stream.consumers.get(request.consumer)
    if consumer is None:
        raise Refusal(ErrCode.CONSUMER_NOT_FOUND)
    consumer.catch_up(request.now)
    return stream, consumer


def _info(consumer: Consumer, now: int) -> ConsumerInfo:
    """Return the info of a consumer, with the metadata that this server adds to its answers."""
    state = consumer.info(now)
    metadata = answered_metadata(state.config.metadata)
    config = msgspec.structs.replace(state.config, metadata=metadata)
    return msgspec.structs.replace(state, config=config)


# Subjects after `$JS.API.CONSUMER.`: the handler, its form, and how many names follow.
_VERBS: Final[dict[str, tuple[Handler, Response[Any], int]]] = {
    "INFO": (info, CONSUMER_INFO, 2),
    "DELETE": (delete, CONSUMER_DELETE, 2),
    "PAUSE": (pause, CONSUMER_PAUSE, 2),
    "RESET": (reset, CONSUMER_RESET, 2),
    "EXPLAIN": (explain, CONSUMER_EXPLAIN, 2),
    "UNPIN": (unpin, CONSUMER_UNPIN, 2),
    "NAMES": (list_names, CONSUMER_NAMES, 1),
    "LIST": (listing, CONSUMER_LIST, 1),
}
_TWO_WORDS: Final[dict[tuple[str, str], tuple[Handler, Response[Any]]]] = {
    ("DURABLE", "CREATE"): (create_durable, CONSUMER_CREATE),
    ("LEADER", "STEPDOWN"): (needs_cluster, CONSUMER_LEADER_STEPDOWN),
}


class Route(NamedTuple):
    """The handler of a request about consumers, and the names in its subject."""

    handler: Handler
    kind: Response[Any]
    stream: str
    consumer: str
    subject_filter: str = ""


def route(verb: bytes) -> Route | None:
    """Return the handler of what follows ``$JS.API.CONSUMER.``; None if it is unknown."""
    words = verb.decode(errors="replace").split(".")
    found = _VERBS.get(words[0])
    if found is not None:
        handler, kind, count = found
        if len(words) != 1 + count:
            return None
        return Route(handler, kind, words[1], words[2] if count > 1 else "")
    if words[0] == "CREATE" and len(words) > 1:
        name = words[2] if len(words) > 2 else ""
        return Route(create, CONSUMER_CREATE, words[1], name, ".".join(words[3:]))
    pair = _TWO_WORDS.get((words[0], words[1])) if len(words) == 4 else None
    return None if pair is None else Route(pair[0], pair[1], words[2], words[3])
