"""Deployments that are empty, stop, do not answer or lack something: the pages say so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.browser.conftest import Open
from tests.support.dashboards import embedded, standalone
from tests.support.reading_pages import violations, wait_for_texts
from tests.support.servers import ServerProcess


def test_an_empty_server_says_what_to_do(opened: Open, tmp_path: Path, pictures: Path) -> None:
    with embedded(tmp_path) as site:
        page = opened(site.url, may_fail=True)
        for path, text in (
            ("#/streams", "No streams yet"),
            ("#/kv", "No buckets yet"),
            ("#/objects", "No object stores yet"),
            ("#/lag", "No one lags"),
            ("#/pipelines", "No Spark query reports here"),
        ):
            page.goto(site.url + path)
            wait_for_texts(page, (text,))
            assert violations(page) == []
            page.screenshot(path=pictures / f"empty-{path.strip('#/')}.png")


def test_a_server_that_stops_and_returns_is_reported_and_shown_again(
    opened: Open, tmp_path: Path, pictures: Path
) -> None:
    server = ServerProcess("jetspark", tmp_path, "-js")
    port = server.url.rpartition(":")[2]
    with standalone(server.url) as url:
        page = opened(url + "#/streams", may_fail=True)
        wait_for_texts(page, ("No streams yet",))
        server.kill()
        page.wait_for_function(
            "() => document.querySelector('#server').innerText.includes('not connected')"
        )
        page.goto(url + "#/kv")
        wait_for_texts(page, ("Not connected", "tries again"))
        page.screenshot(path=pictures / "not-connected.png")
        again = ServerProcess("jetspark", tmp_path, "-js", port=port)
        try:
            # No one presses a button.
            wait_for_texts(page, ("No buckets yet",))
            assert page.locator(".status-dot.good").count() == 1
        finally:
            again.kill()


def test_a_server_that_does_not_answer_is_reported(
    opened: Open, tmp_path: Path, pictures: Path
) -> None:
    server = ServerProcess("nats-server", tmp_path, "-js")
    try:
        with standalone(server.url) as url:
            page = opened(url + "#/streams", may_fail=True)
            wait_for_texts(page, ("No streams yet",))
            os.kill(server.process.pid, signal.SIGSTOP)
            page.goto(url + "#/streams/ORDERS")
            wait_for_texts(page, ("Loading",))
            wait_for_texts(page, ("No answer in time",))
            page.screenshot(path=pictures / "slow.png")
            os.kill(server.process.pid, signal.SIGCONT)
            wait_for_texts(page, ("stream not found",))
    finally:
        server.kill()


def test_what_the_user_may_not_do_is_reported_as_such(
    opened: Open, tmp_path: Path, pictures: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        """
        authorization { users = [ { user: viewer, password: secret, permissions {
            publish: ["$JS.API.INFO", "$JS.API.STREAM.NAMES"], subscribe: "_INBOX.>" } } ] }
        """
    )
    server = ServerProcess("jetspark", tmp_path / "store", "-js", "-c", str(config))
    try:
        with standalone(server.url, "--user", "viewer", "--password", "secret") as url:
            page = opened(url + "#/streams/ORDERS", may_fail=True)
            wait_for_texts(page, ("Permission denied", "STREAM.INFO.ORDERS", "publish permission"))
            page.screenshot(path=pictures / "denied.png")
            assert violations(page) == []
    finally:
        server.kill()


def test_a_deployment_without_monitoring_and_jetstream_says_how_to_get_them(
    opened: Open, tmp_path: Path, pictures: Path
) -> None:
    server = ServerProcess("nats-server", tmp_path)
    try:
        with standalone(server.url) as url:
            page = opened(url, may_fail=True)
            wait_for_texts(page, ("Rates, connections and health are missing", "--monitor"))
            wait_for_texts(page, ("JetStream is off for this account",))
            for path in ("#/streams", "#/streams/ORDERS", "#/kv/settings", "#/pipelines"):
                page.goto(url + path)
                wait_for_texts(page, ("JetStream is off", "start the server with -js"))
                assert "Not connected" not in page.inner_text("main")
            page.goto(url + "#/copies")
            wait_for_texts(page, ("The streams cannot be listed",))
            page.goto(url)
            wait_for_texts(page, ("Overview",))
            page.screenshot(path=pictures / "no-monitoring.png")
            page.goto(url + "#/connections")
            wait_for_texts(page, ("Not available here", "nats-server opens it with -m 8222"))
    finally:
        server.kill()
