"""The Host header: a web page cannot read the port through a browser on this machine."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.support.monitor_fakes import FakeView

from jetspark.server.monitor.web.app import create_app

LOOPBACK = ("127.0.0.1", 8222)
ELSEWHERE = ("192.0.2.1", 8222)


async def status(
    app: Any,
    host: str | None,
    server: tuple[str, int],
    path: str = "/varz",
    **more: str,
) -> int:
    """The status of a request that names this host, with more headers."""
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
        "headers": [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in {"host": host, **more}.items()
            if value is not None
        ],
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


HERE = "127.0.0.1:8222"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "https://evil.example:8222", "http://203.0.113.9", "null", "",
        "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://[evil", "evil",
        "http://evil",
    ],
)  # fmt: skip
async def test_a_page_of_another_site_may_not_read_a_loopback_address(origin: str) -> None:
    app = create_app(FakeView())

    for path in ("/varz", "/healthz", "/varz?callback=f", "/"):
        assert await status(app, HERE, LOOPBACK, path, origin=origin) == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:3000", "http://localhost:3000", "https://dash.localhost", "http://[::1]",
        "http://127.8.8.8", f"http://{socket.gethostname()}:80",
    ],
)  # fmt: skip
async def test_pages_of_this_machine_may_read_it(origin: str) -> None:
    assert await status(create_app(FakeView()), HERE, LOOPBACK, origin=origin) == 200


async def test_a_page_of_another_site_may_not_load_it_as_a_script() -> None:
    app = create_app(FakeView())
    elsewhere = {"sec_fetch_site": "cross-site"}

    assert await status(app, HERE, LOOPBACK, sec_fetch_mode="no-cors", **elsewhere) == 403
    # A link to the port is followed: the page does not get the answer.
    assert await status(app, HERE, LOOPBACK, sec_fetch_mode="navigate", **elsewhere) == 200
    for site in ("same-origin", "same-site", "none"):
        given = {"sec_fetch_mode": "no-cors", "sec_fetch_site": site}
        assert await status(app, HERE, LOOPBACK, **given) == 200


async def test_pages_of_listed_hosts_may_read_every_address() -> None:
    app = create_app(FakeView(), hosts=("dash.example",))

    for server in (LOOPBACK, ELSEWHERE):
        assert await status(app, HERE, server, origin="https://dash.example") == 200
        assert await status(app, HERE, server, origin="https://evil.example") == 403
    # Without a list, other addresses answer every page, as on nats-server.
    assert await status(create_app(FakeView()), HERE, ELSEWHERE, origin="https://x.example") == 200
