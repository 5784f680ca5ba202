"""Dashboards for tests: in a server of ours, and as a process over any server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tests.support.served import Served
from tests.support.servers import ServerProcess

T = TypeVar("T")


class Site(NamedTuple):
    """A dashboard: where it is, and the server that it shows; ``pid`` if it is in its process."""

    kind: str
    url: str
    server: str
    pid: int = 0


class Answer(NamedTuple):
    """What a dashboard answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str,
    path: str,
    method: str = "GET",
    body: object | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request; ``path`` is relative to the dashboard."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=20)
    try:
        text = None if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json"} if text is not None else {}
        connection.request(method, parts.path + path, text, {**given, **(headers or {})})
        found = connection.getresponse()
        lower = {name.lower(): value for name, value in found.getheaders()}
        return Answer(found.status, lower, found.read())
    finally:
        connection.close()


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread: Playwright has a running loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


@contextlib.contextmanager
def embedded(store: Path, *flags: str) -> Iterator[Site]:
    """The dashboard of `jetspark serve --dashboard`."""
    served = Served(store, "-p", "-1", "-m", "-1", "--dashboard", *flags)
    try:
        found = re.search(r"Starting http monitor on (\S+)", "".join(served.lines))
        assert found, served.lines
        yield Site("jetspark", f"http://{found[1]}/dashboard/", served.url, served.process.pid)
    finally:
        served.end()


@contextlib.contextmanager
def standalone(
    server: str, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """`jetspark dashboard` over a server; gives its address."""
    command = [sys.executable, "-m", "jetspark", "dashboard", "-s", server]
    process = subprocess.Popen(
        [*command, "--no-context", "--listen", "127.0.0.1:0", "--ndjson", *flags],
        stdout=subprocess.PIPE,
        env=environment,
    )
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@contextlib.contextmanager
def over_nats_server(store: Path) -> Iterator[Site]:
    """A dashboard over nats-server with its monitoring port."""
    server = ServerProcess("nats-server", store, "-js", "-m", "-1")
    try:
        assert server.monitor
        with standalone(server.url, "--monitor", server.monitor) as url:
            yield Site("nats-server", url, server.url)
    finally:
        server.kill()


async def ask_in_loop(url: str, path: str) -> Answer:
    """The same for a dashboard in the loop of the test."""
    return await asyncio.to_thread(ask, url, path)
