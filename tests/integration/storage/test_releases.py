"""Stores that earlier releases wrote are read by this version, message by message."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.release_store import FOLDER, contents, opened

import jetspark

ARCHIVES = sorted(FOLDER.glob("store-*.tar.gz"))


def kept(before: Any, after: Any) -> bool:
    """Whether everything is as it was. A later version may have more fields."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and kept(each, after[key]) for key, each in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(kept, before, after))
    return bool(before == after)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
async def test_the_store_of_a_release_is_read_and_written(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    before = json.loads((tmp_path / "contents.json").read_text())

    after = await opened(tmp_path / "store")

    assert sorted(after) == sorted(before)
    for name, stream in before.items():
        for part, value in stream.items():
            assert kept(value, after[name][part]), (name, part, value, after[name][part])
    async with jetspark.Server(store_dir=tmp_path / "store") as server, server.connect() as client:
        js = client.jetstream()
        repeated = await js.publish("orders.0", b"order 0", msg_id="id-0")
        # Its id is older than the window of the stream.
        assert repeated.seq == before["ORDERS"]["state"]["last_seq"] + 1
        assert not repeated.duplicate
        assert (await contents(client))["ORDERS"]["messages"][:1] == before["ORDERS"]["messages"][
            :1
        ]


def test_this_series_of_versions_has_an_archive() -> None:
    series = ".".join(jetspark.__version__.split(".")[:2])

    assert any(path.name.startswith(f"store-{series}.") for path in ARCHIVES)
