"""Reloads of very many accounts: what they leave for Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.server_log import restored_log

from jetspark.cli.serve.running import MANY_OBJECTS, Reloads
from jetspark.server.server import Server


@pytest.fixture
def own_log() -> Iterator[None]:
    """A reload sets up the log of the process."""
    with restored_log():
        yield


@pytest.fixture
def nothing_to_collect() -> None:
    """As after the collection of all tests (conftest.py)."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("own_log", "nothing_to_collect")
async def test_accounts_that_replace_as_many_are_not_left_for_one_pass_of_the_collector(
    tmp_path: Path,
) -> None:
    config = tmp_path / "server.conf"

    def write(accounts: int) -> None:
        each = (f"A{n} {{ users: [{{ user: u{n}, password: p }}] }}" for n in range(accounts))
        store = f'jetstream {{ store_dir: "{tmp_path / "store"}" }}'
        config.write_text(f'listen: "127.0.0.1:-1"\n{store}\naccounts {{ {", ".join(each)} }}')

    write(1)
    async with Server(config=config) as server:
        reloads = Reloads(server, ("-c", str(config)), ExitStack())
        for accounts in (5_000, 4_999, 4_998):
            write(accounts)

            await reloads.run()

            assert len(server.directory.accounts) >= accounts
            assert len(gc.get_objects()) < MANY_OBJECTS
