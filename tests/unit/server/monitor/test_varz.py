"""/varz, process figures and durations; shapes seen on nats-server 2.15.1."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.monitor_fakes import SECOND, SERVER_ECHO, START, FakeView, ask, busy_view

from jetspark.server.monitor.process import ProcessMeter
from jetspark.server.monitor.settings_echo import WebsocketEcho
from jetspark.server.monitor.status import Counters
from jetspark.server.monitor.uptime import format_rtt, format_uptime
from jetspark.server.monitor.web.app import create_app
from jetspark.units import seconds


async def test_traffic_is_added_up_over_accounts() -> None:
    found = (await ask(create_app(busy_view()), "/varz")).json

    assert (found["in_msgs"], found["in_bytes"]) == (12, 916)
    assert (found["out_msgs"], found["out_bytes"]) == (15, 2418)
    assert (found["in_client_msgs"], found["out_client_bytes"]) == (12, 2418)


async def test_slow_and_stale_connections_are_those_of_clients() -> None:
    view = FakeView(counted=Counters(slow_consumers=3, stale_connections=2, stalled_clients=7))

    found = (await ask(create_app(view), "/varz")).json

    assert found["slow_consumers"] == 3
    assert found["slow_consumer_stats"] == {"clients": 3, "routes": 0, "gateways": 0, "leafs": 0}
    assert found["stale_connection_stats"]["clients"] == 2
    assert found["stalled_clients"] == 7


async def test_jetstream_that_is_off_is_an_empty_object() -> None:
    assert (await ask(create_app(FakeView()), "/varz")).json["jetstream"] == {}


async def test_durable_is_what_nats_server_calls_sync_always() -> None:
    found = (await ask(create_app(busy_view()), "/varz")).json

    assert found["jetstream"]["config"]["sync_always"] is True
    assert found["jetspark"]["durability"] == "durable"


async def test_a_websocket_listener_is_shown_as_configured() -> None:
    echo = msgspec.structs.replace(
        SERVER_ECHO,
        websocket=WebsocketEcho(host="::", port=8443, handshake_timeout=seconds(2), no_tls=True),
        metadata={"zone": "a"},
        tags=("x",),
        tls_cert_not_after_ns=START,
    )

    found = (await ask(create_app(FakeView(echo=echo)), "/varz")).json

    assert found["websocket"] == {
        "host": "::",
        "port": 8443,
        "handshake_timeout": 2_000_000_000,
        "no_tls": True,
    }
    assert (found["metadata"], found["tags"]) == ({"zone": "a"}, ["x"])
    assert found["tls_cert_not_after"] == "2027-01-15T08:00:00Z"


async def test_requests_are_counted_by_path() -> None:
    app = create_app(FakeView())
    for path in ("/", "/varz", "/connz", "/connz?auth=x", "/nope"):
        await ask(app, path)

    found = (await ask(app, "/varz")).json

    assert found["http_req_stats"] == {"/": 1, "/connz": 2, "/varz": 2}


async def test_without_proc_memory_and_processor_are_absent(tmp_path: Path) -> None:
    app = create_app(FakeView(), meter=ProcessMeter(tmp_path))

    found = (await ask(app, "/varz")).json

    assert {"mem", "cpu"}.isdisjoint(found)
    assert found["cores"] >= 1


def proc(folder: Path, ticks: int, uptime: float, command: str = "python") -> None:
    (folder / "self").mkdir(exist_ok=True)
    rest = ["S", *["0"] * 10, str(ticks), "0", *["0"] * 6, "100", "0", "25", *["0"] * 20]
    (folder / "self" / "stat").write_text(f"77 ({command}) {' '.join(rest)}")
    (folder / "uptime").write_text(f"{uptime} 0.0")


def test_processor_time_is_the_share_since_the_sample_before(tmp_path: Path) -> None:
    meter = ProcessMeter(tmp_path)
    hertz = meter.ticks_per_second
    born = 100 / hertz

    proc(tmp_path, ticks=hertz, uptime=born + 10)
    first = meter.sample(START)
    proc(tmp_path, ticks=2 * hertz, uptime=born + 11)
    too_soon = meter.sample(START + SECOND // 2)
    proc(tmp_path, ticks=2 * hertz, uptime=born + 12)
    second = meter.sample(START + 2 * SECOND)

    assert first.cpu == 10.0
    assert too_soon.cpu == 10.0
    assert second.cpu == 50.0


def test_a_command_with_blanks_and_parentheses_is_read_past(tmp_path: Path) -> None:
    meter = ProcessMeter(tmp_path)
    proc(tmp_path, ticks=0, uptime=1000, command="a) b (c")

    assert meter.sample(START).mem == 25 * meter.page_size


def test_this_process_has_memory() -> None:
    usage = ProcessMeter().sample(START)

    # Without /proc, nothing is known and nothing is made up.
    assert (usage.mem is not None) == Path("/proc/self/stat").exists()
    assert usage.mem is None or usage.mem > 1_000_000


@pytest.mark.parametrize(
    ("seconds_", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (61, "1m1s"),
        (3600, "1h0m0s"),
        (86400 + 61, "1d0h1m1s"),
        (400 * 86400 + 5, "1y35d0h0m5s"),
        (-3, "0s"),
    ],
)
def test_an_uptime_starts_with_its_first_unit(seconds_: int, text: str) -> None:
    assert format_uptime(seconds_ * SECOND + 999) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (999, "999ns"), (577_321, "577\N{MICRO SIGN}s"), (1_128_326, "1.128326ms")],
)
def test_a_round_trip_below_a_millisecond_is_in_whole_microseconds(ns: int, text: str) -> None:
    assert format_rtt(ns) == text
