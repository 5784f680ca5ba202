"""What JetStream may store where the configuration sets no limit."""

from pathlib import Path

import pytest

from jetspark.server.jetstream.budgets import (
    input_budget,
    memory_budget,
    output_budget,
    storage_budget,
)


def test_memory_and_disk_count_for_three_quarters(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:     4096 kB\n")

    assert memory_budget(tmp_path) == 3 * 1024 * 1024
    assert storage_budget(tmp_path) > 0


@pytest.mark.parametrize(
    ("container", "expected"), [("max\n", 2048), ("1048576\n", 512), ("", 2048)]
)
def test_unread_output_may_be_half_of_the_machine_or_the_container(
    tmp_path: Path, container: str, expected: int
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:     4096 kB\n")
    (tmp_path / "memory.max").write_text(container)

    assert output_budget(0, tmp_path, tmp_path / "memory.max") == expected * 1024
    assert output_budget(0, tmp_path, tmp_path / "nowhere") == 2048 * 1024
    assert output_budget(7, tmp_path) == 7


def test_unprocessed_input_may_be_half_as_much_unless_it_is_configured() -> None:
    assert input_budget(0) == output_budget(0) // 2 > 0
    assert input_budget(7) == 7


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: x kB\n"])
def test_what_cannot_be_known_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "meminfo").write_text(text)

    assert memory_budget(tmp_path) == 0
    assert memory_budget(tmp_path / "nowhere") == 0
    assert storage_budget(tmp_path / "nowhere") == 0
