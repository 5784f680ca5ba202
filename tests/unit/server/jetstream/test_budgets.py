"""What JetStream may store where the configuration sets no limit."""

from pathlib import Path

import pytest

from jetspark.server.jetstream.budgets import memory_budget, storage_budget


def test_memory_and_disk_count_for_three_quarters(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:     4096 kB\n")

    assert memory_budget(tmp_path) == 3 * 1024 * 1024
    assert storage_budget(tmp_path) > 0


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: x kB\n"])
def test_what_cannot_be_known_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)

    assert memory_budget(tmp_path) == 0
    assert memory_budget(tmp_path / "nowhere") == 0
    assert storage_budget(tmp_path / "nowhere") == 0
