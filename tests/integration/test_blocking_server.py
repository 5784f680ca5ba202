"""The embedded server for blocking code."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jetspark import sync
from jetspark.api.stream import StreamConfig
from jetspark.errors import StoreLocked


def test_a_blocking_program_has_server_and_client(tmp_path: Path) -> None:
    with sync.Server(store_dir=tmp_path) as server:
        client = sync.connect(server.client_url)
        js = client.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=("s",), allow_direct=True))
        assert js.publish("s", b"hello").seq == 1
        assert js.stream("S").get_msg(seq=1).data == b"hello"
        client.close()


def test_a_closed_server_leaves_no_thread_behind() -> None:
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
