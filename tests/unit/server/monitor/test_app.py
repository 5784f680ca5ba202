"""The application as a whole: paths, headers, the token, mounts, JSONP."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import MutableMapping
from typing import Any

import pytest
from tests.support.monitor_fakes import FakeView, ask, busy_view

from jetspark.server.monitor.store_stats import StreamStore
from jetspark.server.monitor.web.app import create_app

PATHS = [
    "/varz", "/connz", "/subsz", "/subscriptionsz", "/routez", "/leafz", "/gatewayz", "/accountz",
    "/accstatz", "/jsz", "/storez", "/healthz", "/readyz",
]  # fmt: skip


async def page(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
    """A small application to mount."""
    body = f"{scope['root_path']}|{scope['path']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("path", PATHS)
async def test_every_endpoint_answers_json_that_any_page_may_read(path: str) -> None:
    answer = await ask(create_app(busy_view()), path)

    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    assert answer.header("access-control-allow-origin") == "*"
    assert isinstance(answer.json, dict)


@pytest.mark.parametrize("path", ["/routez", "/leafz", "/gatewayz"])
async def test_other_servers_are_none_but_arguments_are_checked(path: str) -> None:
    answer = await ask(create_app(busy_view()), f"{path}?subs=x")

    assert answer.status == 400
    assert answer.text.startswith("Error decoding boolean for 'subs'")


@pytest.mark.parametrize("path", ["/nope", "/varz/", "/varz/x", "//varz"])
async def test_an_unknown_path_is_refused_in_gos_words(path: str) -> None:
    answer = await ask(create_app(FakeView()), path)

    assert (answer.status, answer.text) == (404, "404 page not found\n")
    assert answer.header("x-content-type-options") == "nosniff"


async def test_the_root_links_to_every_endpoint() -> None:
    answer = await ask(create_app(FakeView(), mounts={"/dashboard": page}), "/")

    assert answer.status == 200
    for path in [*PATHS, "/metrics", "/dashboard"]:
        if path != "/subscriptionsz":
            assert f'href="{path}"' in answer.text
    # On the body alone, a browser in dark mode would show light links on a white page.
    assert ":root{color-scheme:light dark}" in answer.text


async def test_a_base_path_stands_before_everything() -> None:
    """nats-server's http_base_path."""
    app = create_app(FakeView(), base_path="/mon/", mounts={"/dash": page})

    assert (await ask(app, "/mon/varz")).status == 200
    assert 'href="/mon/varz"' in (await ask(app, "/mon")).text
    assert (await ask(app, "/varz")).status == 404
    assert (await ask(app, "/mon/dash/x")).text == "/mon/dash|/mon/dash/x"


async def test_a_mount_is_reached_with_and_without_a_slash() -> None:
    app = create_app(FakeView(), mounts={"/dashboard": page})

    assert (await ask(app, "/dashboard/a/b")).text == "/dashboard|/dashboard/a/b"
    without = await ask(app, "/dashboard")
    assert (without.status, without.header("location")) == (307, "/dashboard/")


@pytest.mark.parametrize("path", ["/", "", "dashboard", "/varz", "/metrics/"])
def test_a_mount_that_hides_something_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="bad mount"):
        create_app(FakeView(), mounts={path: page})


def test_a_base_path_must_be_a_path() -> None:
    with pytest.raises(ValueError, match="http_base_path"):
        create_app(FakeView(), base_path="mon")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("path", [*PATHS, "/metrics", "/", "/dashboard/", "/nope"])
async def test_with_a_token_nothing_is_open(path: str) -> None:
    app = create_app(FakeView(), token="s3cret", mounts={"/dashboard": page})

    answer = await ask(app, path)

    assert answer.status == 401
    assert [value for name, value in answer.headers if name == "www-authenticate"] == [
        'Bearer realm="jetspark"',
        'Basic realm="jetspark", charset="UTF-8"',
    ]


@pytest.mark.parametrize(
    "given",
    ["Bearer s3cr:et", "bearer  s3cr:et", basic("", "s3cr:et"), basic("prometheus", "s3cr:et")],
)
async def test_the_token_lets_in_as_bearer_and_as_password(given: str) -> None:
    app = create_app(FakeView(), token="s3cr:et")

    assert (await ask(app, "/varz", {"Authorization": given})).status == 200


@pytest.mark.parametrize(
    "given",
    [
        "Bearer wrong",
        "Bearer",
        "Bearer s3cret2",
        "Digest s3cret",
        "s3cret",
        basic("s3cret", ""),
        "Basic s3cret",
        "Basic \N{LATIN SMALL LETTER U WITH DIAERESIS}",
        "Bearer s3cr\N{LATIN SMALL LETTER E WITH ACUTE}t",
    ],
)
async def test_anything_else_stays_outside(given: str) -> None:
    app = create_app(FakeView(), token="s3cret")

    assert (await ask(app, "/varz", {"Authorization": given})).status == 401


async def test_a_token_may_have_any_letters() -> None:
    app = create_app(FakeView(), token="grün")

    assert (await ask(app, "/varz", {"Authorization": basic("x", "grün")})).status == 200
    assert (await ask(app, "/varz", {"Authorization": "Bearer grün"})).status == 200


async def test_with_a_token_no_other_page_may_read() -> None:
    """A browser sends the basic credentials it knows along with scripts of any page."""
    app = create_app(FakeView(), token="s3cret")

    answer = await ask(app, "/varz?callback=cb", {"Authorization": "Bearer s3cret"})

    assert answer.header("access-control-allow-origin") is None
    assert answer.header("content-type") == "application/json"
    assert answer.json["server_id"] == "NID"


@pytest.mark.parametrize("name", ["cb", "jQuery.x_1", "$"])
async def test_a_callback_is_called_with_the_answer(name: str) -> None:
    """JSONP, as nats-server had it up to 2.14.0."""
    answer = await ask(create_app(FakeView()), f"/healthz?callback={name}")

    assert answer.header("content-type") == "application/javascript"
    assert answer.text == f'/**/{name}({{"status":"ok"}})'


@pytest.mark.parametrize(
    "name", ["alert(1)//", "a;b", "1a", "a..b", "a%0ab", "%3Cscript%3E", "x" * 200]
)
async def test_a_callback_that_is_a_program_is_ignored(name: str) -> None:
    """As nats-server does with every callback since it dropped JSONP."""
    answer = await ask(create_app(FakeView()), f"/healthz?callback={name}")

    assert (answer.text, answer.header("content-type")) == ('{"status":"ok"}', "application/json")


async def test_the_store_says_what_it_knows() -> None:
    view = busy_view()
    assert view.js is not None
    view.js.held[0].held[0].files = StreamStore(
        segments=3, quarantined_bytes=17, compactions=2, scrub_damage=1, read_only=True
    )

    found = (await ask(create_app(view), "/storez?stream=S")).json

    assert [each["stream"] for each in found["streams"]] == ["S"]
    stream = found["streams"][0]
    assert (stream["segments"], stream["quarantined_bytes"], stream["read_only"]) == (3, 17, True)
    assert (stream["compactions"], stream["scrub_damage"]) == (2, 1)
    assert "snapshot" not in stream


async def test_a_store_that_is_off_says_so() -> None:
    assert (await ask(create_app(FakeView()), "/storez")).json["disabled"] is True


def test_the_web_libraries_are_loaded_only_for_an_open_port() -> None:
    """Imported only when the port is on."""
    program = (
        "import sys, jetspark.server.server, jetspark.server.monitor.metrics.scrape; "
        "print([name for name in ('starlette', 'uvicorn', 'h11') if name in sys.modules])"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert found.stdout.decode().strip() == "[]"
