"""The embedded server for blocking code."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from jetspark import ExternalStream, StreamConfig, StreamSource, sync
from jetspark.errors import StoreLocked


def test_a_blocking_program_has_server_and_client(tmp_path: Path) -> None:
    with sync.Server(store_dir=tmp_path) as server:
        client = sync.connect(server.client_url)
        js = client.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=("s",), allow_direct=True))
        assert js.publish("s", b"hello").seq == 1
        assert js.stream("S").get_msg(seq=1).data == b"hello"
        client.close()


def test_a_blocking_server_takes_what_the_async_one_takes() -> None:
    async def page(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the page"})

    with sync.Server(http_port=-1, mounts={"/page": page}) as server:
        answer = urlopen(f"{server.monitor_url}/page").read()

    assert answer == b"the page"

    with pytest.raises(TypeError, match="unexpected keyword argument 'durable'"):
        sync.Server(durable=True)  # type: ignore[call-arg]


def test_a_blocking_server_copies_from_remotes() -> None:
    with sync.Server(server_name="hub") as hub, hub.connect() as there:
        there.jetstream().create_stream(StreamConfig(name="S", subjects=("s",)))
        there.jetstream().publish("s", b"hello")
        source = StreamSource(name="S", external=ExternalStream(api="$JS.hub.API"))
        remotes = {"hub": {"url": hub.client_url}}
        with sync.Server(remotes=remotes) as copier, copier.connect() as here:
            here.jetstream().create_stream(StreamConfig(name="M", mirror=source))
            stream = here.jetstream().stream("M")
            deadline = time.monotonic() + 20
            while not stream.info().state.messages:
                assert time.monotonic() < deadline
                time.sleep(0.02)

            assert stream.get_msg(seq=1).data == b"hello"


def test_a_closed_server_leaves_no_thread() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with sync.Server(), sync.Server():
        pass

    assert {thread.ident for thread in threading.enumerate()} <= before


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    before = threading.active_count()
    with sync.Server(store_dir=tmp_path):
        count = threading.active_count()
        with pytest.raises(StoreLocked):
            sync.Server(store_dir=tmp_path).start()
        assert threading.active_count() == count

    assert threading.active_count() == before
