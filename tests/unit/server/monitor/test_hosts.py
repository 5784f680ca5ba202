"""The Host header: a web page cannot read the port through a browser on this machine."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.support.monitor_fakes import FakeView

from jetspark.server.monitor.app import create_app

LOOPBACK = ("127.0.0.1", 8222)
ELSEWHERE = ("192.0.2.1", 8222)


async def status(app: Any, host: str | None, server: tuple[str, int], path: str = "/varz") -> int:
    """The status of a request that names this host."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "root_path": "",
        "server": server,
        "headers": [] if host is None else [(b"host", host.encode("latin-1"))],
    }
    await app(scope, receive, send)
    code: int = sent[0]["status"]
    return code


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8222", "[::1]:8222", "[::1]", "10.1.2.3:80", "localhost",
        "LocalHost:8222", "localhost.:8222", "dash.localhost", "nats:8222", socket.gethostname(),
        None, "::1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("server", [LOOPBACK, ("::1", 8222), ("::ffff:127.0.0.1", 8222)])
async def test_names_of_this_machine_are_served(host: str | None, server: tuple[str, int]) -> None:
    assert await status(create_app(FakeView()), host, server) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8222", "127.0.0.1.evil.example", "localhost.evil.example",
        "evil.example.", "[evil.example]", "1.2.3", "evil.example:80:80", "\xff.x",
        "a" * 5000 + ".b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/varz", "/healthz", "/", "/none"])
async def test_other_names_are_refused_on_a_loopback_address(host: str, path: str) -> None:
    app = create_app(FakeView())

    assert await status(app, host, LOOPBACK, path) == 403
    assert await status(app, host, ("::ffff:127.0.0.1", 8222), path) == 403


async def test_other_addresses_have_names_that_the_server_does_not_know() -> None:
    assert await status(create_app(FakeView()), "nats.example:8222", ELSEWHERE) == 200


async def test_a_list_of_hosts_is_all_that_is_served_everywhere() -> None:
    app = create_app(FakeView(), hosts=("Nats.example", "other"))

    for server in (LOOPBACK, ELSEWHERE):
        assert await status(app, "nats.example:8222", server) == 200
        assert await status(app, "OTHER", server) == 200
        assert await status(app, "127.0.0.1", server) == 200
        assert await status(app, "evil.example", server) == 403
        assert await status(app, "third", server) == 403


async def test_where_a_token_is_required_a_page_learns_nothing() -> None:
    assert await status(create_app(FakeView(), token="t"), "evil.example", LOOPBACK) == 401
    listed = create_app(FakeView(), token="t", hosts=("nats.example",))
    assert await status(listed, "evil.example", LOOPBACK) == 403
