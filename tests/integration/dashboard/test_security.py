"""Who may ask the dashboard, and what a read-only one can be made to do: nothing."""

from __future__ import annotations

import base64
import http.client
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.dashboards import Answer, Site, apart, ask, embedded
from tests.support.shop import fill_shop
from tests.support.waiting import wait_until

import jetspark
from jetspark.dashboard.api.writes import SECRET_HEADER
from jetspark.dashboard.app import Dashboard
from jetspark.dashboard.deployment import Deployment, Target
from jetspark.dashboard.monitoring import Monitoring
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.monitor.web.password import Password

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
VALUES = {"stream": "ORDERS", "seq": "3", "consumer": "billing", "bucket": "settings"}
QUERY = "?key=prices.eu&name=2026/october.pdf&seq=5&limit=5&filter=orders.>"
TOKEN = "s3cret"
PASSWORD = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with embedded(tmp_path_factory.mktemp("shop")) as site:
        apart(fill_shop(site.server))
        yield site


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    flags = ("--dashboard-write", "--jetspark", f"monitor_token={TOKEN}")
    with embedded(tmp_path_factory.mktemp("writable"), *flags) as site:
        apart(fill_shop(site.server))
        yield site


def every_path() -> list[str]:
    """Every address of a dashboard that may write, with values that exist."""

    def nowhere() -> Target:
        raise AssertionError("not opened")

    dashboard = Dashboard(
        Deployment(nowhere), Monitoring(lambda: None), password=Password("x"), is_writable=True
    )
    paths = [route.path for route in dashboard.routes]
    return [path.format(**VALUES).lstrip("/") for path in paths]


async def contents(url: str) -> Any:
    """Everything that a change would change: streams, their consumers and messages."""
    found: dict[str, object] = {}
    async with await jetspark.connect(url) as client:
        stream = client.jetstream()
        async for info in stream.streams():
            handle = await stream.stream(info.config.name)
            consumers = {
                one.name: (one.delivered, one.ack_floor, one.num_ack_pending, one.paused)
                async for one in handle.consumers()
            }
            found[info.config.name] = (str(info.config), str(info.state), consumers)
    return found


BODY = {
    "subject": "orders.de.test", "data": "x", "headers": [], "mode": "stored",
    "bucket": "settings",
    "key": "prices.eu", "revision": 8, "stream": "ORDERS", "seq": 3, "confirm": "ORDERS",
    "consumer": "billing", "seconds": 60,
}  # fmt: skip


WRITING = (
    "api/publish",
    "api/kv-put",
    "api/purge",
    "api/message-delete",
    "api/pause",
    "api/kv-delete",
)


def test_a_read_only_dashboard_changes_nothing_whatever_it_is_asked(shop: Site) -> None:
    before = apart(contents(shop.server))
    secret = ask(shop.url, "api/session").json["secret"]
    assert secret == ""
    paths = every_path()
    assert {"api/publish", "api/purge", "api/kv-put", "api/streams/ORDERS"} <= set(paths)
    statuses = set()
    for path in paths:
        for method in METHODS:
            if path in {"api/live", "api/streams/ORDERS/tail"} and method in {"GET", "HEAD"}:
                continue  # they do not end
            body = BODY if method in {"POST", "PUT", "PATCH", "DELETE"} else None
            headers = {SECRET_HEADER: secret, "origin": "http://" + shop.url.split("/")[2]}
            answer = ask(shop.url, path + QUERY, method, body, headers)
            statuses.add(answer.status)
            if body is not None:
                # Requests that write do not exist here; all others can only be read.
                writes = path in {*WRITING, "login", "logout"}
                assert answer.status == (404 if writes else 405), (method, path)
            assert answer.status < 500, (method, path, answer.body)
    assert statuses <= {200, 400, 404, 405}
    assert apart(contents(shop.server)) == before


def test_every_answer_has_the_headers_that_protect_it(shop: Site) -> None:
    for path in ("", "app.js", "style.css", "api/session", "api/nothing", "api/streams/NONE"):
        headers = ask(shop.url, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert ask(shop.url, "api/session").headers["cache-control"] == "no-store"


def test_a_name_that_resolves_to_this_machine_is_no_entrance(shop: Site) -> None:
    assert ask(shop.url, "api/streams", headers={"host": "evil.example"}).status == 403
    assert ask(shop.url, "", headers={"host": "evil.example"}).status == 403
    assert ask(shop.url, "api/streams", headers={"host": "localhost"}).status == 200


# What the page that asks for the password consists of.
LOGIN_PAGE = {"style.css", "icon.svg", "login.js"}


def test_without_the_password_nothing_is_served(writable: Site) -> None:
    for path in every_path():
        for method in METHODS:
            if method == "GET" and path in LOGIN_PAGE:
                continue
            body = BODY if method in {"POST", "PUT"} else None
            answer = ask(writable.url, path, method, body)
            shown = 400 if (path, method) == ("login", "POST") else 401
            assert answer.status == (200 if path in LOGIN_PAGE and method == "HEAD" else shown)
            assert b"ORDERS" not in answer.body
            # A browser would ask with a dialog of its own.
            assert "basic" not in answer.headers.get("www-authenticate", "").lower()
    assert b"Sign in" in ask(writable.url, "").body
    assert ask(writable.url[:-1], "").headers["location"] == "/dashboard/"
    outside = writable.url.removesuffix("dashboard/")
    for path in ("", "varz", "dashboard.x", "dashboards/", "dashboard/../varz", "%2e/dashboard/"):
        assert ask(outside, path).status == 401, path
    wrong = {"authorization": "Bearer guess"}
    assert ask(writable.url, "api/session", headers=wrong).status == 401
    assert ask(writable.url, "api/session", headers=PASSWORD).status == 200


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({SECRET_HEADER: ""}, id="no secret"),
        pytest.param({SECRET_HEADER: "guess"}, id="another secret"),
        pytest.param({"origin": "http://evil.example"}, id="another origin"),
        pytest.param({"origin": "null"}, id="a sandboxed page"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="another site"),
        pytest.param({"content-type": "text/plain"}, id="a form"),
    ],
)
def test_a_page_of_another_site_changes_nothing(writable: Site, broken: dict[str, str]) -> None:
    secret = ask(writable.url, "api/session", headers=PASSWORD).json["secret"]
    good = {**PASSWORD, SECRET_HEADER: secret, "content-type": "application/json"}
    before = ask(writable.url, "api/streams/ORDERS", headers=PASSWORD).json["info"]["state"]
    for path in WRITING:
        answer = ask(writable.url, path, "POST", BODY, {**good, **broken})
        refusal = 400 if "content-type" in broken else 403
        assert answer.status == refusal, (path, answer.body)
    after = ask(writable.url, "api/streams/ORDERS", headers=PASSWORD).json["info"]["state"]
    assert after == before
    assert ask(writable.url, "api/publish", "POST", BODY, good).status == 200


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("publish", {"subject": 7}, "subject: expected a text"),
        ("publish", {"subject": "a b", "data": ""}, "a b"),
        ("publish", {"subject": "orders.x", "headers": {"a": 1}}, "headers: expected a list"),
        ("publish", {"subject": "orders.x", "data64": "?"}, "data64"),
        ("purge", {"stream": "ORDERS", "confirm": "x"}, "to confirm"),
        ("purge", {"stream": "a.b", "confirm": "a.b"}, "cannot be the name"),
        ("kv-put", {"bucket": "settings", "key": "a", "revision": -1, "data": ""}, "not negative"),
        ("kv-delete", {"bucket": "settings", "key": ">", "revision": 1}, "is no key"),
        ("pause", {"stream": "ORDERS", "consumer": "billing", "seconds": True}, "seconds"),
        ("message-delete", {"stream": "ORDERS", "seq": 2**70}, "seq"),
    ],
)
def test_a_bad_change_says_what_is_wrong(
    writable: Site, path: str, body: dict[str, object], text: str
) -> None:
    secret = ask(writable.url, "api/session", headers=PASSWORD).json["secret"]
    answer = ask(writable.url, f"api/{path}", "POST", body, {**PASSWORD, SECRET_HEADER: secret})
    assert answer.status == 400
    assert text in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("streams/a.b", 400, "cannot be the name of a stream"),
        ("streams/NONE", 404, "stream not found"),
        ("streams/ORDERS/messages?limit=0", 400, "expected 1 to 200 rows"),
        ("streams/ORDERS/messages?limit=100000", 400, "expected 1 to 200 rows"),
        ("streams/ORDERS/messages?from=-1", 400, "from='-1'"),
        ("streams/ORDERS/messages?from=99999999999999999999", 400, "expected a number"),
        ("streams/ORDERS/messages?filter=a..b", 400, "is no subject"),
        ("streams/ORDERS/messages?time=yesterday", 400, "is no time"),
        ("streams/ORDERS/messages/9999", 404, "no message in stream"),
        ("streams/ORDERS/consumers/none", 404, "consumer not found"),
        ("kv/none/keys", 404, "stream not found"),
        ("kv/settings/entry?key=a..b", 400, "is no key"),
        ("kv/settings/keys?q=a.>.b", 400, "is no pattern"),
        ("objects/reports/download?name=none", 404, "no message in stream"),
        ("connections?sort=size", 400, "expected one of"),
        ("streams?q=" + "x" * 2000, 400, "longer than"),
        # A subject of that length would end the connection that all pages share.
        ("streams/" + "x" * 5000, 400, "at most 255 characters"),
        ("streams/ORDERS/consumers/" + "x" * 5000, 400, "at most 255 characters"),
        ("kv/settings/entry?key=" + "x" * 5000, 400, "longer than"),
        ("streams/ORDERS/messages?time=2300-01-01T00:00:00Z", 400, "from 1970 to 2262"),
        ("kv/settings/keys?time=1677-01-01T00:00:00Z", 400, "from 1970 to 2262"),
    ],
)
def test_a_bad_question_says_what_is_wrong(shop: Site, path: str, status: int, text: str) -> None:
    answer = ask(shop.url, f"api/{path}")
    assert (answer.status, text in answer.json["error"]) == (status, True), answer.body


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_browser_signs_in_and_out(writable: Site) -> None:
    entered = ask(writable.url, "login", "POST", {"password": TOKEN})
    assert entered.status == 200
    name, *attributes = entered.headers["set-cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=Lax"]
    assert TOKEN not in name
    cookie = {"cookie": f"other=1; {name}; bad=\x7f(="}
    assert ask(writable.url, "api/session", headers=cookie).json["signed_in"] is True
    assert ask(writable.url, "api/streams", headers=cookie).status == 200
    # The cookie alone changes nothing.
    assert ask(writable.url, "api/publish", "POST", BODY, cookie).status == 403
    outside = writable.url.removesuffix("dashboard/")
    assert ask(outside, "varz", headers=cookie).status == 401
    for guess in (name[:-1], f"{name}x", name.partition("=")[0] + "="):
        assert ask(writable.url, "api/session", headers={"cookie": guess}).status == 401
    evil = {**cookie, "origin": "http://evil.example"}
    assert ask(writable.url, "logout", "POST", {}, evil).status == 403
    left = ask(writable.url, "logout", "POST", {}, cookie)
    assert (left.status, "Max-Age=0" in left.headers["set-cookie"]) == (200, True)
    assert ask(writable.url, "api/session", headers=cookie).status == 401


def test_an_event_stream_ends_with_its_session(writable: Site) -> None:
    cookie = {"cookie": cookie_of(ask(writable.url, "login", "POST", {"password": TOKEN}))}
    parts = urlsplit(writable.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=20)
    try:
        connection.request("GET", f"{parts.path}api/live", headers=cookie)
        stream = connection.getresponse()
        assert stream.readline() == b"retry: 3000\n"
        assert ask(writable.url, "logout", "POST", {}, cookie).status == 200
        # One that does not end has a sample per second or so.
        samples = 0
        for line in stream:
            samples += line.startswith(b"data: ")
            assert samples < 4
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 400),
        ({"content-type": "text/plain"}, 400),
    ],
)
def test_another_site_cannot_sign_a_browser_in(
    writable: Site, headers: dict[str, str], status: int
) -> None:
    answer = ask(writable.url, "login", "POST", {"password": TOKEN}, headers)
    assert (answer.status, "set-cookie" in answer.headers) == (status, False)


USERS = "authorization { users = [ {user: a, password: b} ] }"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("jetspark { dashboard { writable: true } }", "needs 'jetspark.monitor_token'"),
        (
            'http: "0.0.0.0:8222"\njetspark { dashboard: true }',
            "every machine that reaches 0.0.0.0",
        ),
        (
            f"{USERS}\njetspark {{ dashboard: true }}",
            "name the one that the dashboard connects as",
        ),
        (f"{USERS}\njetspark {{ dashboard {{ user: z }} }}", "'z' is not one of the users"),
    ],
)
def test_a_dashboard_that_would_be_open_to_others_is_refused(
    tmp_path: Path, config: str, text: str
) -> None:
    path = tmp_path / "server.conf"
    path.write_text(f"host: 127.0.0.1\nport: -1\n{config}\n")
    with pytest.raises(ConfigRefused, match=text):
        jetspark.Server(config=path)


def test_the_dashboard_connects_as_the_configured_user(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(
        """
        authorization { users [ {user: ops, password: one}, {user: app, password: two} ] }
        jetspark { dashboard { user: ops } }
        """
    )
    with embedded(tmp_path / "store", "-c", str(path)) as site:
        # Who may not connect to the server may not look at its messages either.
        for user, password in (("ops", "two"), ("app", "two"), ("", "one"), ("ops", "")):
            refused = ask(site.url, "login", "POST", {"user": user, "password": password})
            assert (refused.status, refused.json["error"]) == (
                401,
                "The user name or the password is wrong.",
            )
        assert ask(site.url, "api/overview", headers=basic("app", "two")).status == 401
        entered = ask(site.url, "login", "POST", {"user": "ops", "password": "one"})
        cookie = {"cookie": cookie_of(entered)}
        found = ask(site.url, "api/overview", headers=cookie).json["sample"]
        assert found["connected"], found
        rows = ask(site.url, "api/connections", headers=basic("ops", "one")).json["rows"]
        assert [row["authorized_user"] for row in rows] == ["ops"]
        for _ in range(20):
            refused = ask(site.url, "login", "POST", {"user": "ops", "password": "guess"})
        assert refused.status == 429
        assert 0 < int(refused.headers["retry-after"]) <= 6
        assert "too many wrong passwords" in refused.json["error"]
        # A client that waits learns nothing, and open sessions are not affected.
        right = ask(site.url, "login", "POST", {"user": "ops", "password": "one"})
        assert right.status == 429
        assert ask(site.url, "api/overview", headers=basic("ops", "one")).status == 429
        assert ask(site.url, "api/overview", headers=cookie).status == 200


def test_a_reload_changes_who_may_look(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    config = """
        authorization {{ users [ {{user: ops, password: {}}}, {{user: app, password: two}} ] }}
        jetspark {{ dashboard {{ user: ops }} }}
        """
    path.write_text(config.format("one"))
    with embedded(tmp_path / "store", "-c", str(path)) as site:
        entered = ask(site.url, "login", "POST", {"user": "ops", "password": "one"})
        cookie = {"cookie": cookie_of(entered)}
        assert ask(site.url, "api/session", headers=cookie).status == 200

        path.write_text(config.format("other"))
        os.kill(site.pid, signal.SIGHUP)

        wait_until(lambda: ask(site.url, "api/session", headers=cookie).status == 401)
        assert ask(site.url, "api/session", headers=basic("ops", "one")).status == 401
        new = basic("ops", "other")
        wait_until(
            lambda: ask(site.url, "api/session", headers=new).json["deployment"]["connected"]
        )


def basic(user: str, password: str) -> dict[str, str]:
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {text}"}


def test_consumers_that_may_not_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(
        """
        authorization { users [
            {user: app, password: two}
            {user: ops, password: one, permissions: {publish: {deny: "$JS.API.CONSUMER.INFO.>"}}}
        ] }
        jetspark { dashboard { user: ops } }
        """
    )

    async def fill(url: str) -> None:
        async with await jetspark.connect(url, user="app", password="two") as client:
            stream = await client.jetstream().create_stream("S", subjects=["s"])
            await stream.create_consumer(durable="worker")

    with embedded(tmp_path / "store", "-c", str(path)) as site:
        apart(fill(site.server))
        found = ask(site.url, "api/streams/S/consumers", headers=basic("ops", "one")).json
        assert (found["rows"], found["total"], found["unread"]) == ([], 1, 1)
        assert "worker" in found["unread_why"][0]
