"""Consumer configurations, good and bad, and changes of them (wire.md, Consumers).

A case is what is asked of one stream, in order: the end of the subject after ``CONSUMER.`` with
``S`` for the stream, a configuration, and what else the request says.
"""

from __future__ import annotations

from typing import Any, Final

MS: Final = 1_000_000
S: Final = 1_000 * MS
AT: Final = "2026-01-01T00:00:00Z"

Ask = tuple[str, dict[str, Any], dict[str, Any]]

STREAMS: Final[dict[str, dict[str, Any]]] = {
    "limits": {"subjects": ["s.>"]},
    "interest": {"subjects": ["i.>"], "retention": "interest"},
    "workqueue": {"subjects": ["w.>"], "retention": "workqueue"},
    "limited": {
        "subjects": ["l.>"],
        "consumer_limits": {"inactive_threshold": 60 * S, "max_ack_pending": 50},
    },
    "few": {"subjects": ["f.>"], "max_consumers": 2},
}


def _ask(
    subject: str = "CREATE.S.c", /, _more: dict[str, Any] | None = None, **config: Any
) -> Ask:
    return subject, config, _more or {}


def _push(**config: Any) -> Ask:
    return _ask(deliver_subject="d", **config)


def _pedantic(**config: Any) -> Ask:
    return _ask("CREATE.S.c", {"pedantic": True}, **config)


# One request on the plain stream each. ---------------------------------------------------------

SINGLE: Final[list[Ask]] = [
    # Names and subjects
    _ask("CREATE.S"),
    _ask("CREATE.S", name="given"),
    _ask("CREATE.S", name="a/b"),
    _ask("CREATE.S", name="a.b"),
    _ask("CREATE.S", name="a b"),
    _ask("CREATE.S", durable_name="d"),
    _ask("CREATE.S", {"stream_name": "OTHER"}),
    _ask("CREATE.S", {"stream_name": ""}),
    _ask("CREATE.S", {"nonsense": 1}),
    _ask("CREATE.S", {"action": "make"}),
    _ask("CREATE.S", {"pedantic": 1}),
    _ask(),
    _ask("CREATE.S.c", {"action": "create"}),
    _ask("CREATE.S.c", {"action": "update"}),
    _ask("CREATE.S.c", {"action": ""}),
    _ask(name="other"),
    _ask(durable_name="c"),
    _ask(durable_name="other"),
    _ask(durable_name="c", name="other"),
    _ask("CREATE.S.a\\b"),
    _ask("CREATE.S.a/b"),
    _ask("CREATE.S.a*b"),
    _ask("CREATE.S.*"),
    _ask("CREATE.S.c", durable_name="c" * 256),
    _ask("CREATE.S." + "c" * 255),
    _ask("CREATE.S." + "c" * 255, durable_name="c" * 255),
    _ask("CREATE.S." + "c" * 256, durable_name="c" * 256),
    _ask("CREATE.S.c.s.a", filter_subject="s.a"),
    _ask("CREATE.S.c.s.a"),
    _ask("CREATE.S.c.s.a", filter_subject="s.b"),
    _ask("CREATE.S.c.s.*", filter_subject="s.*"),
    _ask("CREATE.S.c.s.>", filter_subject="s.>"),
    _ask("CREATE.S.c.s.a", filter_subjects=["s.a"]),
    _ask("CREATE.S.c.s.a", filter_subject="s.a", filter_subjects=["s.b"]),
    _ask("DURABLE.CREATE.S.c"),
    _ask("DURABLE.CREATE.S.c", durable_name="c"),
    _ask("DURABLE.CREATE.S.c", durable_name="c", name="c"),
    _ask("DURABLE.CREATE.S.c", durable_name="c", name="other"),
    _ask("DURABLE.CREATE.S.c", durable_name="other"),
    _ask("DURABLE.CREATE.S.a/b", durable_name="a/b"),
    # Defaults
    _ask(ack_policy="none"),
    _ask(ack_policy="all"),
    _ask(ack_policy="explicit"),
    _ask(ack_policy="explicit", ack_wait=5 * S, max_ack_pending=7),
    _ask(ack_policy="explicit", max_ack_pending=-1),
    _ask(ack_policy="explicit", max_ack_pending=-7),
    _ask(ack_policy="none", ack_wait=5 * S),
    _ask(ack_policy="none", max_ack_pending=5),
    _push(),
    _push(ack_policy="explicit"),
    _push(ack_policy="none", max_ack_pending=5),
    _ask(max_deliver=0),
    _ask(max_deliver=3),
    _ask(max_deliver=-5),
    _ask(max_waiting=0),
    _ask(max_waiting=7),
    _ask(max_waiting=-7),
    _ask(max_batch=-1, max_expires=-1, max_bytes=-1, idle_heartbeat=-1, inactive_threshold=-1),
    _ask(max_batch=5, max_expires=S, max_bytes=1000, inactive_threshold=60 * S),
    _ask(description="x" * 4096),
    _ask(description="x" * 4097),
    _ask(metadata={"owner": "me"}),
    _ask(metadata={"_nats.ver": "1", "_nats.level": "9", "_nats.req.level": "7"}),
    _ask(metadata={"k": "v" * (128 * 1024)}),
    _ask(metadata={"k": 1}),
    _ask(headers_only=True, mem_storage=True, num_replicas=1),
    _ask(sample_freq="30"),
    _ask(sample_freq="100%"),
    _ask(sample_freq="+5"),
    _ask(sample_freq="-1"),
    _ask(sample_freq="often"),
    _ask(sample_freq="1.5%"),
    _ask(sample_freq="%"),
    _ask(sample_freq="99999999999999999999"),
    _ask(deliver_group="g"),
    _push(deliver_group="g", flow_control=True, idle_heartbeat=S),
    # Backoff and waiting
    _ask(ack_policy="explicit", backoff=[S, 2 * S]),
    _ask(ack_policy="explicit", backoff=[S, 2 * S], max_deliver=2),
    _ask(ack_policy="explicit", backoff=[S, 2 * S], max_deliver=1),
    _ask(ack_policy="explicit", backoff=[S, 2 * S], ack_wait=9 * S, max_deliver=3),
    _ask(ack_policy="explicit", backoff=[S, -1]),
    _ask(ack_policy="explicit", backoff=[]),
    _ask(ack_wait=-1),
    _ask(ack_policy="explicit", ack_wait=-1),
    _ask(ack_policy="explicit", ack_wait="5s"),
    # Words
    _ask(ack_policy="maybe"),
    _ask(ack_policy=None),
    _ask(deliver_policy="some"),
    _ask(deliver_policy="undefined"),
    _ask(replay_policy="slow"),
    _ask(replay_policy="original"),
    _ask(priority_policy="first"),
    # Push
    _push(max_waiting=5),
    _push(idle_heartbeat=S),
    _push(idle_heartbeat=99 * MS),
    _push(idle_heartbeat=100 * MS, flow_control=True),
    _push(flow_control=True),
    _push(rate_limit_bps=1000),
    _push(max_batch=5, max_expires=1, max_bytes=5),
    _push(replay_policy="original", headers_only=True),
    _ask(deliver_subject="d.*"),
    _ask(deliver_subject="d.>"),
    _ask(deliver_subject="d..x"),
    _ask(deliver_subject="d x"),
    _ask(deliver_subject="s.x"),
    _ask(deliver_subject="s"),
    # Pull
    _ask(idle_heartbeat=S),
    _ask(flow_control=True),
    _ask(flow_control=True, idle_heartbeat=S),
    _ask(rate_limit_bps=1000),
    _ask(rate_limit_bps=-1),
    _ask(max_expires=1),
    _ask(max_expires=999_999),
    _ask(max_expires=1_000_000),
    # Direct
    _ask(direct=True),
    _push(direct=True),
    _push(direct=True, durable_name="c"),
    # Filters
    _ask(filter_subject="s.a"),
    _ask(filter_subject=">"),
    _ask(filter_subject="elsewhere"),
    _ask(filter_subject="s..a"),
    _ask(filter_subject="s a"),
    _ask(filter_subjects=["s.a"]),
    _ask(filter_subjects=["s.a", "s.b.*"]),
    _ask(filter_subjects=[]),
    _ask(filter_subjects=["s.a", ""]),
    _ask(filter_subjects=["s.a", "s.a"]),
    _ask(filter_subjects=["s.a", "s.>"]),
    _ask(filter_subjects=["s.*.b", "s.a.*"]),
    _ask(filter_subjects=["s.a", "b..c"]),
    _ask(filter_subject="s.a", filter_subjects=["s.b"]),
    # Where it starts
    _ask(deliver_policy="all", opt_start_seq=5),
    _ask(deliver_policy="all", opt_start_time=AT),
    _ask(deliver_policy="last"),
    _ask(deliver_policy="last", opt_start_seq=5),
    _ask(deliver_policy="last", opt_start_time=AT),
    _ask(deliver_policy="new"),
    _ask(deliver_policy="new", opt_start_seq=5),
    _ask(deliver_policy="new", opt_start_time=AT),
    _ask(deliver_policy="last_per_subject"),
    _ask(deliver_policy="last_per_subject", filter_subject="s.>"),
    _ask(deliver_policy="last_per_subject", filter_subjects=["s.a", "s.b"]),
    _ask(deliver_policy="last_per_subject", filter_subject="s.>", opt_start_seq=5),
    _ask(deliver_policy="last_per_subject", filter_subject="s.>", opt_start_time=AT),
    _ask(deliver_policy="by_start_sequence"),
    _ask(deliver_policy="by_start_sequence", opt_start_seq=5),
    _ask(deliver_policy="by_start_sequence", opt_start_seq=5, opt_start_time=AT),
    _ask(deliver_policy="by_start_sequence", opt_start_seq=-1),
    _ask(deliver_policy="by_start_time"),
    _ask(deliver_policy="by_start_time", opt_start_time=AT),
    _ask(deliver_policy="by_start_time", opt_start_time=AT, opt_start_seq=5),
    _ask(deliver_policy="by_start_time", opt_start_time="yesterday"),
    _ask(deliver_policy="by_start_time", opt_start_time="2026-01-01T02:00:00.5Z"),
    # Replicas, priority groups, pause
    _ask(num_replicas=2),
    _ask(num_replicas=-1),
    _ask(priority_policy="overflow", priority_groups=["g"]),
    _ask(priority_policy="pinned_client", priority_groups=["g"]),
    _ask(priority_policy="pinned_client", priority_groups=["g"], priority_timeout=S),
    _ask(priority_policy="prioritized", priority_groups=["g"]),
    _ask(priority_policy="overflow", priority_groups=["g"], priority_timeout=-1),
    _ask(priority_policy="overflow"),
    _ask(priority_policy="overflow", priority_groups=[""]),
    _ask(priority_policy="overflow", priority_groups=["a b"]),
    _ask(priority_policy="overflow", priority_groups=["x" * 17]),
    _ask(priority_policy="overflow", priority_groups=["a/b_c=-9"]),
    _ask(priority_policy="none", priority_groups=["g"]),
    _ask(priority_policy="none", priority_timeout=S),
    _push(priority_policy="overflow", priority_groups=["g"]),
    _ask(pause_until="2020-01-01T00:00:00Z"),
    _ask(pause_until="2099-01-01T00:00:00Z"),
    _ask(pause_until="0001-01-01T00:00:00Z"),
    # Pedantic
    _pedantic(),
    _pedantic(max_deliver=-2),
    _pedantic(max_waiting=-1),
    _pedantic(max_ack_pending=-2),
    _pedantic(max_batch=-1),
    _pedantic(max_expires=-1),
    _pedantic(max_bytes=-1),
    _pedantic(idle_heartbeat=-1),
    _pedantic(inactive_threshold=-1),
    _pedantic(priority_timeout=-1),
    _pedantic(ack_policy="explicit", backoff=[S]),
    _pedantic(ack_policy="explicit", backoff=[S], ack_wait=S),
    # Two mistakes: the first counts
    _ask(num_replicas=-1, ack_wait=-1),
    _ask(ack_wait=-1, description="x" * 4097),
    _ask(sample_freq="x", filter_subject="s..a"),
    _push(max_waiting=1, idle_heartbeat=1),
    _ask(priority_policy="overflow", flow_control=True),
]

# Several requests on one stream each. ---------------------------------------------------------

_FULL: Final[dict[str, Any]] = {"ack_policy": "explicit", "durable_name": "c"}

SEQUENCES: Final[list[tuple[str, list[Ask]]]] = [
    # Creating again
    ("limits", [_ask(), _ask()]),
    ("limits", [_ask(), _ask("CREATE.S.c", {"action": "create"})]),
    ("limits", [_ask(inactive_threshold=9 * S),
                _ask("CREATE.S.c", {"action": "create"}, inactive_threshold=9 * S)]),
    ("limits", [_ask(durable_name="c"), _ask("CREATE.S.c", {"action": "create"},
                                             durable_name="c")]),
    ("limits", [_ask(durable_name="c"), _ask("CREATE.S.c", {"action": "create"},
                                             durable_name="c", description="new")]),
    ("limits", [_ask(durable_name="c"), _ask("CREATE.S.c", {"action": "create"},
                                             durable_name="c", metadata={"_nats.ver": "1"})]),
    ("limits", [_ask(durable_name="c"), _ask("CREATE.S.c", {"action": "update"},
                                             durable_name="c", description="new")]),
    ("limits", [_ask(durable_name="c"), _ask()]),
    ("limits", [_ask(), _ask(durable_name="c")]),
    ("limits", [_ask(durable_name="c"), _ask("DURABLE.CREATE.S.c", durable_name="c",
                                             max_deliver=4)]),
    # What may change
    *[
        ("limits", [_ask(**_FULL), _ask(**(_FULL | {field: value}))])
        for field, value in (
            ("description", "new"), ("max_deliver", 5), ("ack_wait", S), ("max_ack_pending", 5),
            ("max_batch", 5), ("max_expires", S), ("max_bytes", 5), ("headers_only", True),
            ("sample_freq", "5"), ("inactive_threshold", S), ("filter_subject", "s.a"),
            ("filter_subjects", ["s.a", "s.b"]), ("backoff", [S]), ("metadata", {"a": "b"}),
            ("num_replicas", 1), ("deliver_group", "g"), ("pause_until", "2099-01-01T00:00:00Z"),
            # and what may not
            ("ack_policy", "all"), ("ack_policy", "none"), ("deliver_policy", "new"),
            ("replay_policy", "original"), ("max_waiting", 5), ("deliver_subject", "d"),
            ("mem_storage", True),
        )
    ],
    ("limits", [_ask(priority_policy="overflow", priority_groups=["g"]),
                _ask(priority_policy="pinned_client", priority_groups=["h"])]),
    ("limits", [_ask(priority_policy="overflow", priority_groups=["g"]), _ask()]),
    ("limits", [_ask(deliver_policy="by_start_sequence", opt_start_seq=5),
                _ask(deliver_policy="by_start_sequence", opt_start_seq=6)]),
    ("limits", [_ask(deliver_policy="by_start_time", opt_start_time=AT),
                _ask(deliver_policy="by_start_time", opt_start_time="2026-01-02T00:00:00Z")]),
    ("limits", [_push(), _push(idle_heartbeat=S)]),
    ("limits", [_push(idle_heartbeat=S), _push(idle_heartbeat=S, flow_control=True)]),
    ("limits", [_push(), _ask(deliver_subject="e")]),
    ("limits", [_push(), _ask()]),
    ("limits", [_push(), _push(rate_limit_bps=1000)]),
    ("limits", [_push(), _push(direct=True)]),
    ("limits", [_push(), _push(deliver_group="g")]),
    ("limits", [_ask(max_deliver=5), _ask(ack_policy="none", backoff=[S, S], max_deliver=1)]),
    # Limits of the stream
    ("limited", [_ask()]),
    ("limited", [_ask(durable_name="c")]),
    ("limited", [_ask(ack_policy="explicit")]),
    ("limited", [_ask(ack_policy="explicit", max_ack_pending=50)]),
    ("limited", [_ask(ack_policy="explicit", max_ack_pending=51)]),
    ("limited", [_ask(inactive_threshold=61 * S)]),
    ("limited", [_push()]),
    ("limited", [_pedantic(ack_policy="explicit")]),
    ("limited", [_pedantic(ack_policy="explicit", max_ack_pending=5)]),
    ("limited", [_ask(), _ask(max_deliver=6)]),
    ("few", [_ask("CREATE.S.a"), _ask("CREATE.S.b"), _ask("CREATE.S.c"), _ask("CREATE.S.a")]),
    ("few", [_ask("CREATE.S"), _ask("CREATE.S"), _ask("CREATE.S")]),
    ("few", [_ask("CREATE.S.a", deliver_subject="d", direct=True), _ask("CREATE.S.b"),
             _ask("CREATE.S.c")]),
    # Retention
    ("interest", [_ask(num_replicas=1), _ask(num_replicas=0)]),
    ("interest", [_ask(ack_policy="none")]),
    ("workqueue", [_ask()]),
    ("workqueue", [_ask(ack_policy="all")]),
    ("workqueue", [_ask(ack_policy="explicit", deliver_policy="new")]),
    ("workqueue", [_push()]),
    ("workqueue", [_push(ack_policy="explicit")]),
    ("workqueue", [_push(direct=True), _ask("CREATE.S.b", ack_policy="explicit")]),
    ("workqueue", [_ask("CREATE.S.a", ack_policy="explicit"),
                   _ask("CREATE.S.b", ack_policy="explicit"),
                   _ask("CREATE.S.c", ack_policy="explicit", filter_subject="w.a")]),
    ("workqueue", [_ask("CREATE.S.a", ack_policy="explicit", filter_subject="w.a"),
                   _ask("CREATE.S.b", ack_policy="explicit", filter_subject="w.b"),
                   _ask("CREATE.S.c", ack_policy="explicit", filter_subject="w.*"),
                   _ask("CREATE.S.c", ack_policy="explicit"),
                   _ask("CREATE.S.a", ack_policy="explicit", filter_subject="w.b"),
                   _ask("CREATE.S.a", ack_policy="explicit", filter_subject="w.c"),
                   _ask("CREATE.S.a", ack_policy="explicit")]),
    ("workqueue", [_ask("CREATE.S.a", ack_policy="explicit", filter_subjects=["w.a", "w.b"]),
                   _ask("CREATE.S.b", ack_policy="explicit", filter_subjects=["w.c", "w.b"]),
                   _ask("CREATE.S.b", ack_policy="explicit", filter_subjects=["w.c", "w.d"])]),
]  # fmt: skip
