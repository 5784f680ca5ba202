"""``jetspark_*``: metrics that only this server has, and limits that the exporter lacks.

Limits complement the exporter's metrics: ``num_ack_pending`` of a consumer is the exporter's,
``jetspark_consumer_limit_ack_pending`` is ours.
"""

import platform
from typing import Final

from jetspark.api.consumer import ConsumerInfo
from jetspark.api.enums import PersistMode
from jetspark.api.stream import StreamSourceInfo
from jetspark.server.monitor.metrics.exposition import COUNTER, Exposition, format_labels
from jetspark.server.monitor.status import ServerStatus, StreamStatus
from jetspark.server.monitor.store_stats import CommitStats

_SECOND_NS: Final = 1_000_000_000

Labels = tuple[tuple[str, str], ...]

# Gauges of a stream's files: field, metric, meaning.
_STORE: Final = (
    ("segments", "segments", "Segment files"),
    ("file_bytes", "file_bytes", "Bytes of its files"),
    ("cache_bytes", "cache_bytes", "Bytes in its read cache"),
    ("cache_limit", "cache_limit_bytes", "Maximum bytes of its read cache"),
    ("index_bytes", "index_bytes", "Bytes of its index in memory"),
    ("duplicates", "duplicates", "Message ids in the duplicate window"),
    ("duplicates_limit", "duplicates_limit", "Maximum message ids in the duplicate window"),
    ("lost_messages", "lost_messages", "Messages lost on a damaged disk"),
    ("lost_bytes", "lost_bytes", "Bytes of lost messages"),
    ("quarantined_bytes", "quarantined_bytes", "Damaged bytes in quarantine"),
)


# Counters of its upkeep, since it was opened.
_UPKEEP: Final = (
    ("compactions", "compactions_total", "Runs of its segments that were rewritten"),
    ("compaction_read_bytes", "compaction_read_bytes_total", "Bytes read for that"),
    ("compaction_written_bytes", "compaction_written_bytes_total", "Bytes written for that"),
    ("compactions_failed", "compactions_failed_total", "Failed attempts"),
    ("segments_removed", "segments_removed_total", "Segment files removed"),
    ("segments_condensed", "segments_condensed_total", "Index files written"),
    ("scrubs", "scrubs_total", "Segment files that the scrubber verified"),
    ("scrub_read_bytes", "scrub_read_bytes_total", "Bytes that the scrubber read"),
    ("scrub_damage", "scrub_damage_total", "Damaged places found by the scrubber"),
    ("scrubs_failed", "scrubs_failed_total", "Segment files that it could not read"),
)


def add_own(out: Exposition, view: ServerStatus) -> None:
    """Add metrics of the whole server."""
    identity, readiness = view.identity, view.readiness()
    server: Labels = (("server_id", identity.server_id),)
    plain = format_labels(server)
    facts = (
        ("version", identity.jetspark_version),
        ("nats_version", identity.version),
        ("compiled", "true" if identity.compiled else "false"),
        ("python", platform.python_version()),
    )
    out.family("jetspark_build_info", "Versions, as labels").add(
        format_labels((*server, *facts)), 1
    )
    for name, meaning, value in (
        ("ready", "1 when everything is recovered and clients are accepted", readiness.ready),
        ("streams_recovered", "Streams opened since the start", readiness.streams_recovered),
        ("streams_to_recover", "Streams found at the start", readiness.streams_total),
    ):
        out.family(f"jetspark_{name}", meaning).add(plain, value)
    counters = view.counters()
    for name, meaning, count in (
        (
            "internal_errors",
            "Requests and turns that failed with an internal error (see the log)",
            counters.internal_errors,
        ),
        (
            "connections_refused",
            "Connections beyond a limit of an address, a user or an account",
            counters.refused_connections,
        ),
        (
            "logins_unchecked",
            "Logins refused without a check after too many failed ones",
            counters.unchecked_logins,
        ),
        (
            "pending_closed",
            "Clients closed because all clients together left too much output unread",
            counters.closed_largest,
        ),
        (
            "input_closed",
            "Clients closed because all clients together sent too much that waits",
            counters.closed_keeping,
        ),
    ):
        out.family(f"jetspark_{name}_total", meaning, COUNTER).add(plain, count)
    out.family("jetspark_pending_bytes", "Unread output of clients that cannot keep up").add(
        plain, counters.unread_bytes
    )
    out.family(
        "jetspark_input_bytes", "Input of clients that is not complete or waits for its turn"
    ).add(plain, counters.kept_input_bytes)
    jetstream = view.jetstream()
    if jetstream is None:
        return
    out.family("jetspark_streams_lost", "Streams that could not be opened").add(
        plain, len(jetstream.lost_streams())
    )
    out.family("jetspark_durability", "What an acknowledgement guarantees, as a label").add(
        format_labels((*server, ("value", jetstream.echo.durability))), 1
    )
    commits = jetstream.commits()
    if commits is not None:
        _add_commits(out, commits, server)


def _add_commits(out: Exposition, stats: CommitStats, server: Labels) -> None:
    labels = format_labels(server)
    if stats.duration_counts:
        out.histogram(
            "jetspark_commit_duration_seconds",
            "How long the synced write of a group takes",
            server,
            stats.duration_bounds_ns,
            stats.duration_counts,
            stats.duration_sum_ns,
        )
    for name, meaning, kind, value in (
        ("groups_total", "Groups written", COUNTER, stats.groups),
        ("messages_total", "Messages in them", COUNTER, stats.messages),
        ("bytes_total", "Bytes in them", COUNTER, stats.bytes),
        ("errors_total", "Groups that could not be written", COUNTER, stats.errors),
        ("no_space_total", "Those because the disk was full", COUNTER, stats.no_space),
        ("inline_total", "Groups written inline by the loop", COUNTER, stats.inline),
        ("shared_total", "Groups that shared a write of the journal", COUNTER, stats.shared),
        ("journal_frames_total", "Writes of the journal", COUNTER, stats.journal_frames),
        (
            "journal_failures_total",
            "Writes of the journal that failed",
            COUNTER,
            stats.journal_failures,
        ),
        ("journal_bytes", "Space that the journal takes", "gauge", stats.journal_disk_bytes),
        ("waiting_groups", "Groups waiting for a writer", "gauge", stats.waiting_groups),
        ("waiting_bytes", "Bytes in them", "gauge", stats.waiting_bytes),
    ):
        if value is not None:
            out.family(f"jetspark_commit_{name}", meaning, kind).add(labels, value)


def add_consumer(out: Exposition, info: ConsumerInfo, pairs: Labels) -> None:
    """Add the limits of a consumer, and whether it is paused."""
    labels = format_labels((*pairs, ("consumer_name", info.name)))
    config = info.config
    for name, meaning, value in (
        ("limit_ack_pending", "Maximum unacknowledged messages", config.max_ack_pending),
        ("limit_waiting", "Maximum waiting pull requests", config.max_waiting),
        ("paused", "1 while it is paused", info.paused),
    ):
        out.family(f"jetspark_consumer_{name}", meaning).add(labels, value)


def add_copy(out: Exposition, kind: str, info: StreamSourceInfo, pairs: Labels) -> None:
    """Add whether a mirror or a source can continue: its lag does not say."""
    api = info.external.api if info.external else ""
    labels = format_labels((*pairs, (f"{kind}_name", info.name), (f"{kind}_api", api)))
    out.family(
        f"jetspark_stream_{kind}_stuck", "1 while it cannot continue: STREAM.INFO says why"
    ).add(labels, info.error is not None)


def add_stream(
    out: Exposition, stream: StreamStatus, pairs: Labels, durability: str, now_ns: int
) -> None:
    """Add the limits and the files of a stream."""
    labels, config, store = format_labels(pairs), stream.config, stream.store()
    out.family("jetspark_stream_limit_consumers", "Maximum consumers; -1 is no limit").add(
        labels, config.max_consumers
    )
    out.family("jetspark_stream_limit_age_seconds", "Maximum age of messages; 0 is no limit").add(
        labels, config.max_age / _SECOND_NS
    )
    out.family("jetspark_stream_write_error", "1 while it accepts no writes").add(
        labels, bool(stream.write_error)
    )
    asynchronous = config.persist_mode is PersistMode.ASYNC
    level = store.durability or ("async" if asynchronous else durability)
    out.family(
        "jetspark_stream_durability", "What its acknowledgements guarantee, as a label"
    ).add(format_labels((*pairs, ("value", level))), 1)
    for field, name, meaning in _STORE:
        value = getattr(store, field)
        if value is not None:
            out.family(f"jetspark_stream_{name}", meaning).add(labels, value)
    for field, name, meaning in _UPKEEP:
        value = getattr(store, field)
        if value is not None:
            out.family(f"jetspark_stream_{name}", meaning, COUNTER).add(labels, value)
    if store.snapshot_ns is not None:
        out.family("jetspark_stream_snapshot_age_seconds", "Since its index was last written").add(
            labels, (now_ns - store.snapshot_ns) / _SECOND_NS
        )
