"""Both servers, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.both_servers import jetspark_server, nats_server
from tests.support.raw_requests import RawClient


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[RawClient]:
    with nats_server(tmp_path / "theirs") as client:
        yield client


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RawClient]:
    with jetspark_server(tmp_path / "ours") as client:
        yield client
