"""What the interop tests share: configuration files and certificates; and which begin first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import tests.support.patience  # noqa: F401 - it sets the default of Hypothesis
from tests.support.certificates import Certificates, make_certificates

Configure = Callable[[str], Path]

TESTS = Path(__file__).parents[1]
# Files that take longest: they begin first, so that the workers end at about the same time.
LONGEST = (
    "interop/clients/test_recorded_clients.py",
    "integration/kit/test_sample_project.py",
    "integration/clients/test_extreme_inputs.py",
    "integration/kit/test_endings.py",
    "interop/api/test_limits_of_values.py",
    "interop/publishing/test_batch_differential.py",
    "integration/remotes/test_mirrors.py",
    "interop/consumers/test_differential.py",
    "interop/server/test_config_verdicts.py",
    "interop/publishing/test_publish_differential.py",
    "integration/server/test_signals.py",
    "integration/replica/test_histories.py",
    "integration/clients/test_bad_input.py",
    "integration/server/test_serve.py",
    "interop/clients/test_nats_js.py",
    "integration/clients/test_slow_consumers.py",
    "interop/wire/test_differential.py",
    "interop/replication/test_mirror_differential.py",
    "integration/storage/test_storage.py",
    "interop/api/test_differential.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort whole files; within a file, and among the others, tests stay in their order."""
    turns = {TESTS / name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path, len(LONGEST)))


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
