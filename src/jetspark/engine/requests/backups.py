"""STREAM.SNAPSHOT and STREAM.RESTORE."""

from functools import partial

import msgspec

from jetspark.api.advisory import RestoreCreate, SnapshotCreate
from jetspark.api.stream import (
    STREAM_RESTORE,
    STREAM_SNAPSHOT,
    RestoreRequest,
    RestoreResponse,
    SnapshotRequest,
    SnapshotResponse,
    StreamConfig,
)
from jetspark.engine.engine import Engine, NewStream
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.replicate.remotes import check_remotes
from jetspark.engine.requests.request import Request
from jetspark.engine.restore import PREFIX, Restore, marked
from jetspark.engine.snapshot import Snapshot
from jetspark.engine.stream.config import checking
from jetspark.engine.stream.state import stream_state
from jetspark.engine.wanted_subjects import AT_ONCE_MAX
from jetspark.errors.codes import ErrCode
from jetspark.subjects.tokens import is_valid_literal


def snapshot(engine: Engine, request: Request) -> bytes:
    """Start to send a stream as an archive."""
    if request.is_empty():
        raise Refusal(ErrCode.BAD_REQUEST)
    wanted = request.decoded(SnapshotRequest)
    if not is_valid_literal(wanted.deliver_subject.encode()):
        raise Refusal(ErrCode.SNAPSHOT_DELIVER_SUBJECT_INVALID)
    stream = request.stream(engine)
    state = stream_state(stream)
    client = request.requester.client_info()
    begun = Snapshot(
        stream, wanted, stream.config, state, engine.next_id(), client, request.now, engine.wall
    )
    engine.transfers.add_snapshot(begun)
    created = SnapshotCreate(stream=stream.config.name, state=state, client=client)
    engine.advisories.send(created, request.now, request.outbox)
    return STREAM_SNAPSHOT.ok(SnapshotResponse(config=stream.config, state=state))


def restore(engine: Engine, request: Request) -> None:
    """Start to receive an archive; its chunks go to the subject in the answer."""
    if request.is_empty():
        raise Refusal(ErrCode.BAD_REQUEST)
    wanted = request.decoded_in_turns(engine, RestoreRequest)
    named = wanted.config
    if not named.name:
        named = msgspec.structs.replace(named, name=request.name)
    if named.name != request.name:
        raise Refusal(ErrCode.STREAM_MISMATCH)
    if request.name in engine.streams:
        raise Refusal(ErrCode.RESTORE_NAME_IN_USE)
    check = partial(
        checking,
        named,
        pedantic=False,
        find=engine.find,
        window_max=engine.settings.duplicate_window_max,
    )
    config: StreamConfig = request.in_turns(engine, "configuration", check)
    check_remotes(config, engine.upstreams)
    engine.transfers.check_room()
    engine.admit(config)
    engine.usage.check_room(config.storage, wanted.state.bytes)

    def begin(new: NewStream, error: OSError | None, now: int, outbox: Outbox) -> bytes:
        if error is not None:
            raise Refusal(ErrCode.RESTORE_NO_TEMP_STORAGE) from error
        try:
            # Others may have started meanwhile.
            engine.transfers.check_room()
        except Refusal:
            assert new.log is not None, "it was created"
            engine.discard(new.log, lambda _error, _now, _outbox: None, now, outbox)
            raise
        subject = b"%b%b.%b" % (PREFIX, request.name.encode(), engine.next_id().encode())
        client = request.requester.client_info()
        stream = engine.hidden(new, now)
        engine.transfers.add_restore(Restore(subject, config, stream, client, now, engine.wall))
        created = RestoreCreate(stream=config.name, client=client)
        engine.advisories.send(created, now, outbox)
        return STREAM_RESTORE.ok(RestoreResponse(deliver_subject=subject.decode()))

    def finish(new: NewStream, error: OSError | None, now: int, outbox: Outbox) -> None:
        request.finish(STREAM_RESTORE, lambda: begin(new, error, now, outbox))

    # Very many subjects are claimed when everything is durable, and not announced before.
    many = len(config.subjects) > AT_ONCE_MAX
    engine.start_creation(
        config, request.now, request.outbox, finish, marked_as=marked(config), claimed=many
    )
