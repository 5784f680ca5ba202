"""The state of a read replica, for monitoring (docs/replicas.md)."""

from jetspark.engine.stream.state import copies_info
from jetspark.protocol.handshake import ServerInfo
from jetspark.replica.bridge import Bridge
from jetspark.replica.copied_stream import CopiedStream
from jetspark.replica.reconciler import CopyReconciler
from jetspark.server.monitor.replica_state import CopiedStreamState, ReplicaState


def replica_state(
    bridge: Bridge,
    reconciler: CopyReconciler,
    leader: ServerInfo | None,
    now_ns: int,
    *,
    read_only: bool,
    reads_answered: int,
    reads_passed: int,
) -> ReplicaState:
    """Return the state; ``leader`` is the leader's last INFO.

    Contact with the leader is its list of streams, and anything received for a copy.
    """
    contact_ns = reconciler.contact_ns
    streams = []
    for _, copied in sorted(reconciler.streams.items()):
        state, copy_contact_ns = _copied_state(copied, now_ns)
        streams.append(state)
        contact_ns = max(contact_ns, copy_contact_ns)
    return ReplicaState(
        leader=",".join(address.label for address in bridge.core.options.servers),
        leader_id=leader.server_id if leader is not None else "",
        leader_name=leader.server_name if leader is not None else "",
        connected=bridge.up,
        read_only=read_only,
        contact_ns=contact_ns,
        reads_answered=reads_answered,
        reads_passed=reads_passed,
        streams=tuple(streams),
    )


def _copied_state(copied: CopiedStream, now_ns: int) -> tuple[CopiedStreamState, int]:
    """Return the state of a stream, and the last contact of its copy; 0: never."""
    stream = copied.find(copied.name)
    mirror = copies_info(stream, now_ns)[0] if stream is not None else None
    if stream is None or mirror is None:
        # Between two copies: the previous one was dropped.
        return CopiedStreamState(name=copied.name, lag=copied.state.messages, whole=False), 0
    # The leader's list counts too: a copy that reads nothing knows of nothing to read.
    behind = max(copied.state.last_seq - stream.log.index.last_seq, 0)
    state = CopiedStreamState(
        name=copied.name,
        lag=max(mirror.lag, min(behind, copied.state.messages)),
        whole=copied.whole,
        error=mirror.error.description if mirror.error is not None else "",
    )
    return state, now_ns - mirror.active if mirror.active >= 0 else 0
