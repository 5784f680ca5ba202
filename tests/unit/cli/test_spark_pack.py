"""`jetspark spark pack`; what is in the archive is tested in unit/spark/test_packing.py."""

from pathlib import Path

from tests.support.command_line import CommandLine

CLI = CommandLine()


def test_what_cannot_be_packed_is_named_and_leaves_no_archive(tmp_path: Path) -> None:
    archive = tmp_path / "environment.tar.gz"

    said = CLI.fails(1, "spark", "pack", str(archive), "--with", "no-such-package")

    assert "no-such-package" in said
    assert not archive.exists()
