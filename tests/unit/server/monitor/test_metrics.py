"""/metrics: text format 0.0.4, and the names of prometheus-nats-exporter."""

from __future__ import annotations

import re

import pytest
from tests.support.monitor_fakes import (
    NOW,
    SECOND,
    FakeConnection,
    FakeView,
    ask,
    busy_view,
    some_consumer,
    some_stream,
)

from jetspark.api.stream import ExternalStream, StreamSourceInfo
from jetspark.server.monitor.connection_view import ConnectionDetails
from jetspark.server.monitor.metrics.exposition import Exposition, format_labels, format_value
from jetspark.server.monitor.replica_state import CopiedStreamState, ReplicaState
from jetspark.server.monitor.status import Readiness
from jetspark.server.monitor.store_stats import CommitStats, StreamStore
from jetspark.server.monitor.web.app import create_app
from jetspark.store.commit_counts import BOUNDS_NS as COMMIT_BOUNDS_NS

# What the two boards that come with the exporter ask for.
BOARDS = [
    "gnatsd_varz_connections",
    "gnatsd_varz_cpu",
    "gnatsd_varz_in_bytes",
    "gnatsd_varz_in_msgs",
    "gnatsd_varz_mem",
    "gnatsd_varz_out_bytes",
    "gnatsd_varz_out_msgs",
    "gnatsd_varz_slow_consumers",
    "gnatsd_varz_subscriptions",
    "gnatsd_varz_jetstream_config_max_memory",
    "gnatsd_varz_jetstream_config_max_storage",
    "gnatsd_varz_jetstream_stats_memory",
    "gnatsd_varz_jetstream_stats_storage",
    "jetstream_consumer_delivered_consumer_seq",
    "jetstream_consumer_num_ack_pending",
    "jetstream_consumer_num_pending",
    "jetstream_server_total_consumers",
    "jetstream_stream_total_bytes",
    "jetstream_stream_total_messages",
    "jetstream_stream_last_seq",
]

LINE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? '
    r"(NaN|[+-]Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
)

Series = dict[str, list[tuple[str, str]]]


async def scrape(view: FakeView, query: str = "") -> Series:
    answer = await ask(create_app(view), f"/metrics?{query}")

    assert answer.status == 200, answer.text
    assert answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    return parse(answer.text)


def parse(text: str) -> Series:
    """Read the format, and fail where it is not kept."""
    series: Series = {}
    current = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in series, f"{current} comes twice"
            series[current] = []
            continue
        if line.startswith("# TYPE "):
            assert line.split(" ")[2] == current
            assert line.split(" ")[3] in {"gauge", "counter", "histogram"}
            continue
        found = LINE.fullmatch(line)
        assert found is not None, line
        assert re.fullmatch(rf"{current}(_bucket|_sum|_count)?", found[1]), line
        series[current].append((found[2] or "", found[3]))
    return series


async def test_the_boards_of_the_exporter_find_what_they_ask_for() -> None:
    found = await scrape(busy_view())

    assert [name for name in BOARDS if not found.get(name)] == []


async def test_fields_of_varz_are_flattened_as_the_exporter_does() -> None:
    found = await scrape(busy_view())

    assert found["gnatsd_varz_in_msgs"] == [('{server_id="NID"}', "12")]
    assert found["gnatsd_varz_version"] == [('{server_id="NID",value="2.15.1"}', "1")]
    assert found["gnatsd_varz_start"] == [('{server_id="NID"}', "1800000000000")]
    assert found["gnatsd_varz_http_req_stats_metrics"] == [('{server_id="NID"}', "1")]
    assert found["gnatsd_varz_jetstream_stats_api_total"] == [('{server_id="NID"}', "3")]
    assert "gnatsd_varz_uptime" not in found
    assert "gnatsd_varz_now" not in found


async def test_a_stream_has_the_labels_of_the_exporter_and_limits_with_usage() -> None:
    found = await scrape(busy_view())

    labels = (
        '{server_id="NID",server_name="fake",cluster="",domain="",meta_leader="",'
        'is_meta_leader="true",account="$G",account_name="$G",account_id="$G",stream_name="S",'
        'stream_leader="fake",is_stream_leader="true",stream_raft_group=""}'
    )
    assert (labels, "190") in found["jetstream_stream_total_bytes"]
    assert (labels, "100000") in found["jetstream_stream_limit_bytes"]
    assert (labels, "1000") in found["jetstream_stream_limit_messages"]


async def test_a_consumer_has_its_times_and_limits() -> None:
    found = await scrape(busy_view())

    (labels, pending), *_ = found["jetstream_consumer_num_ack_pending"]
    assert pending == "1"
    assert labels.endswith(
        'consumer_name="C",consumer_leader="",is_consumer_leader="true",consumer_desc="desc"}'
    )
    assert found["jetstream_consumer_last_delivery_seconds"] == [(labels, "2")]
    assert found["jetstream_consumer_last_ack_seconds"] == [(labels, "0.5")]
    own = '{server_id="NID",account="$G",stream_name="S",consumer_name="C"}'
    assert found["jetspark_consumer_limit_ack_pending"] == [(own, "1000")]


async def test_texts_of_users_are_escaped() -> None:
    """A description and a name are anything; a line must stay a line."""
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held[0].infos = [some_consumer(description='a"b\\c\nd')]
    view.held_connections.append(
        FakeConnection(cid=7, known=ConnectionDetails(ip="::1", port=1, name='x"\n# HELP y'))
    )

    found = await scrape(view, "connz=detailed")

    (labels, _), *_ = found["jetstream_consumer_num_pending"]
    assert 'consumer_desc="a\\"b\\\\c\\nd"' in labels
    assert any('name="x\\"\\n# HELP y"' in each for each, _ in found["gnatsd_connz_rtt"])


@pytest.mark.parametrize(
    ("query", "present", "absent"),
    [
        ("jsz=server", "jetstream_server_total_streams", "jetstream_account_storage_used"),
        ("jsz=accounts", "jetstream_account_storage_used", "jetstream_stream_total_bytes"),
        ("jsz=streams", "jetstream_stream_total_bytes", "jetstream_consumer_num_pending"),
        ("jsz=consumers", "jetstream_consumer_num_pending", "nothing"),
        ("acc=nope", "jetstream_server_total_streams", "jetstream_stream_total_bytes"),
        ("stream=X*", "jetstream_account_storage_used", "jetstream_stream_total_bytes"),
    ],
)
async def test_a_large_server_can_be_read_in_parts(query: str, present: str, absent: str) -> None:
    """Every label value is a series that a monitoring system keeps."""
    found = await scrape(busy_view(), query)

    assert present in found
    assert absent not in found
    assert found["jetstream_server_total_streams"][0][1] == "2"


async def test_streams_are_chosen_by_pattern() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held.append(some_stream("S2"))

    found = await scrape(view, "stream=S?")

    assert len(found["jetstream_stream_total_bytes"]) == 1
    assert 'stream_name="S2"' in found["jetstream_stream_total_bytes"][0][0]


@pytest.mark.parametrize("query", ["jsz=everything", "connz=yes"])
async def test_unknown_parts_are_refused(query: str) -> None:
    answer = await ask(create_app(busy_view()), f"/metrics?{query}")

    assert answer.status == 400
    assert "is unknown: expected" in answer.text


async def test_health_stands_both_ways_round() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held[0].write_error = "no space"

    found = await scrape(view)

    assert found["gnatsd_healthz_status"][0][1] == "1"
    assert found["gnatsd_healthz_status_value"] == [('{server_id="NID",value="unavailable"}', "0")]
    assert found["gnatsd_healthz_js_server_only_status"][0][1] == "0"


async def test_commit_times_are_a_histogram() -> None:
    view = busy_view()
    assert view.js is not None
    counts = [0] * (len(COMMIT_BOUNDS_NS) + 1)
    counts[1], counts[-1] = 3, 1
    view.js.stats = CommitStats(
        groups=4, errors=1, duration_counts=tuple(counts), duration_sum_ns=5 * SECOND
    )

    found = dict(await scrape(view))

    values = [value for _, value in found["jetspark_commit_duration_seconds"]]
    assert values == ["0", *["3"] * 10, "4", "5", "4"]
    assert found["jetspark_commit_duration_seconds"][0][0] == '{server_id="NID",le="5e-05"}'
    assert found["jetspark_commit_duration_seconds"][11][0] == '{server_id="NID",le="+Inf"}'
    assert found["jetspark_commit_groups_total"][0][1] == "4"
    assert "jetspark_commit_messages_total" not in found


async def test_only_known_facts_of_files_are_listed() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held[0].files = StreamStore(
        segments=2, lost_messages=0, snapshot_ns=NOW - 3 * SECOND, compactions=5
    )

    found = await scrape(view)

    labels = '{server_id="NID",account="$G",stream_name="S"}'
    assert found["jetspark_stream_segments"] == [(labels, "2")]
    assert found["jetspark_stream_lost_messages"] == [(labels, "0")]
    assert found["jetspark_stream_compactions_total"] == [(labels, "5")]
    assert found["jetspark_stream_snapshot_age_seconds"] == [(labels, "3")]
    assert "jetspark_stream_file_bytes" not in found


async def test_mirrors_and_sources_say_how_far_they_are() -> None:
    view = busy_view()
    assert view.js is not None
    stream = view.js.held[0].held[0]
    stream.mirrored = StreamSourceInfo(
        name="O", lag=3, active=5, external=ExternalStream(api="$JS.x.API", deliver="d")
    )
    stream.sourced = (StreamSourceInfo(name="P"),)

    found = await scrape(view)

    assert found["jetstream_stream_mirror_lag"][0][1] == "3"
    assert 'mirror_api="$JS.x.API"' in found["jetstream_stream_mirror_lag"][0][0]
    assert found["jetstream_stream_source_active_duration_ns"][0][1] == "-1"


async def test_a_server_without_jetstream_says_that() -> None:
    found = await scrape(FakeView())

    assert found["jetstream_server_jetstream_disabled"][0][1] == "1"
    assert "jetspark_durability" not in found


async def test_readiness_is_a_metric() -> None:
    view = FakeView(
        state=Readiness(accepting=False, ready=False, streams_recovered=1, streams_total=4)
    )

    found = await scrape(view)

    assert found["jetspark_ready"][0][1] == "0"
    assert found["jetspark_streams_to_recover"][0][1] == "4"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (2**64 - 1, "18446744073709551615"),
        (1.5, "1.5"),
        (2.0, "2"),
        (1e300, "1e+300"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_numbers_are_written_as_the_format_wants_them(value: float, text: str) -> None:
    assert format_value(value) == text


def test_lines_of_a_metric_stand_together_and_empty_ones_are_left_out() -> None:
    out = Exposition()
    out.family("a", "first\nline \\").add("", 1)
    out.family("b", "never used")
    out.family("c", "third").add(format_labels((("x", "y"),)), 2)
    out.family("a", "ignored").add(format_labels((("x", "z"),)), 3)

    assert out.text() == (
        '# HELP a first\\nline \\\\\n# TYPE a gauge\na 1\na{x="z"} 3\n'
        '# HELP c third\n# TYPE c gauge\nc{x="y"} 2\n'
    )


async def test_a_replica_has_names_of_its_own_and_can_be_read_in_parts() -> None:
    streams = tuple(
        CopiedStreamState(name=name, lag=lag, whole=True, error="full" * (lag > 3))
        for name, lag in (("A", 3), ("B", 4))
    )
    view = busy_view()
    view.held_replica = ReplicaState(
        leader="hub:4222", leader_id="L", leader_name="l", connected=True, read_only=False,
        contact_ns=NOW - 2 * SECOND, reads_answered=7, reads_passed=1, streams=streams,
    )  # fmt: skip

    found = await scrape(view)
    one, none = await scrape(view, "stream=B"), await scrape(view, "jsz=server")

    server, lag = '{server_id="NID",leader="hub:4222"}', "jetspark_replica_lag_messages"
    assert found["jetspark_replica_last_contact_seconds"] == [(server, "2")]
    assert found["jetspark_replica_reads_answered_total"] == [(server, "7")]
    assert [value for _, value in found["jetspark_replica_stuck"]] == ["0", "1"]
    assert one[lag] == [('{server_id="NID",stream_name="B"}', "4")]
    assert none["jetspark_replica_streams"] == [(server, "2")]
    assert lag not in none
    assert not [name for name in found if name.startswith("gnatsd_varz_jetspark_replica")]
