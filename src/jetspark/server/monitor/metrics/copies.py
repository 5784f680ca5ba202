"""``jetspark_remote_*``, ``jetspark_replica_*``: the servers that streams are copied from.

The progress of single mirrors and sources has the exporter's names (`metrics.jetstream`).
"""

from typing import Final

from jetspark.server.monitor.metrics.exposition import COUNTER, GAUGE, Exposition, format_labels
from jetspark.server.monitor.metrics.options import Level, MetricsOptions
from jetspark.server.monitor.replica_state import ReplicaState
from jetspark.server.monitor.status import ServerStatus

_SECOND_NS: Final = 1_000_000_000


def add_copies(out: Exposition, view: ServerStatus, options: MetricsOptions) -> None:
    """Add the remotes, and the leader of a read replica."""
    server_id = view.identity.server_id
    for remote in view.remotes():
        labels = format_labels((("server_id", server_id), ("remote", remote.name)))
        for name, meaning, value in (
            ("connected", "1 while the remote is connected", remote.connected),
            ("copies", "Mirrors and sources of its streams", remote.copies),
        ):
            out.family(f"jetspark_remote_{name}", meaning).add(labels, value)
    state = view.replica()
    if state is not None:
        _add_replica(out, state, server_id, view.now_ns())
        if options.level >= Level.STREAMS:
            _add_followed(out, state, server_id, options)


def _add_replica(out: Exposition, state: ReplicaState, server_id: str, now_ns: int) -> None:
    labels = format_labels((("server_id", server_id), ("leader", state.leader)))
    for name, meaning, kind, value in (
        ("connected", "1 while the leader can be reached", GAUGE, state.connected),
        ("streams", "Copied streams of the leader", GAUGE, len(state.streams)),
        ("reads_answered_total", "Reads answered by the replica", COUNTER, state.reads_answered),
        ("reads_passed_total", "Reads forwarded to the leader, because the copy was too old",
         COUNTER, state.reads_passed),
    ):  # fmt: skip
        out.family(f"jetspark_replica_{name}", meaning, kind).add(labels, value)
    # No series, not 0, before the first contact.
    if state.contact_ns:
        out.family(
            "jetspark_replica_last_contact_seconds", "Time since the last contact with the leader"
        ).add(labels, max(now_ns - state.contact_ns, 0) / _SECOND_NS)


def _add_followed(
    out: Exposition, state: ReplicaState, server_id: str, options: MetricsOptions
) -> None:
    for stream in state.streams:
        if not options.wants_stream(stream.name):
            continue
        labels = format_labels((("server_id", server_id), ("stream_name", stream.name)))
        for name, meaning, value in (
            ("lag_messages", "Messages that the leader has and the copy lacks", stream.lag),
            ("whole", "1 once the copy has been complete, and may be read", stream.whole),
            ("stuck", "1 while the copy cannot continue", bool(stream.error)),
        ):
            out.family(f"jetspark_replica_{name}", meaning).add(labels, value)
