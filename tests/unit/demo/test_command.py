"""The command of `make demo`, as far as it needs neither server nor Spark."""

from pathlib import Path

from click.testing import CliRunner
from demo.command import demo


def test_its_help_says_how_to_run_it() -> None:
    result = CliRunner().invoke(demo, ["--help"])

    assert result.exit_code == 0
    assert "python -m demo" in result.output


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(demo, ["--output", str(tmp_path / "file" / "below")])

    assert result.exit_code == 1
    assert "Not a directory" in result.output
    assert len(result.output.splitlines()) == 1


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    result = CliRunner().invoke(demo, ["--output", str(tmp_path)])

    assert result.exit_code == 1
    assert "choose another --output" in result.output
    assert (tmp_path / "mine").read_text() == "precious"
