"""What the interop tests share: configuration files and certificates."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.certificates import Certificates, make_certificates

Configure = Callable[[str], Path]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, a server, a client, and a stranger."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def configure(tmp_path_factory: pytest.TempPathFactory) -> Configure:
    """Write a configuration that listens on a free loopback port, and return its path."""
    folder = tmp_path_factory.mktemp("configurations")
    numbers = itertools.count()

    def write(text: str) -> Path:
        path = folder / f"{next(numbers)}.conf"
        path.write_text(f'listen: "127.0.0.1:-1"\n{text}\n')
        return path

    return write
