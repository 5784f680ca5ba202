"""Servers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.served import Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start servers; what a test leaves running is killed by pid."""
    started: list[Served] = []

    def start(*arguments: str, command: bool = False) -> Served:
        served = Served(tmp_path / "store", *arguments, command=command)
        started.append(served)
        return served

    yield start
    for served in started:
        served.end()
