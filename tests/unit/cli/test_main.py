"""The root of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import jetspark
from jetspark.cli import connection
from jetspark.cli.main import main
from jetspark.client.connection.server_pool import DEFAULT_URL


def test_version_says_which_build_runs() -> None:
    build = "compiled" if jetspark.COMPILED else "interpreted"

    assert CliRunner().invoke(main, ["--version"]).output == (
        f"jetspark {jetspark.__version__} ({build})\n"
    )


def test_serve_version_is_the_line_that_tools_for_nats_server_parse() -> None:
    """decisions.md, Server."""
    assert CliRunner().invoke(main, ["serve", "--version"]).output == (
        f"nats-server: v2.15.1 (jetspark {jetspark.__version__})\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["serve", "--help"],
        ["doctor", "--help"],
        ["stream", "--help"],
    ],
)
def test_help_teaches_by_example(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0
    assert "jetspark" in result.output


def test_the_help_of_serve_fits_a_terminal_of_80_columns() -> None:
    lines = CliRunner().invoke(main, ["serve", "--help"]).output.splitlines()

    assert [line for line in lines if len(line) > 80] == []
    assert "    -js, --jetstream                          Enable JetStream" in lines


def test_help_lists_every_command_with_the_words_of_its_own_help() -> None:
    listing = CliRunner().invoke(main, ["--help"]).output
    for name in ("doctor", "serve", "stream"):
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.help is not None
        assert command.help.splitlines()[0] in " ".join(listing.split())


def test_an_unknown_command_or_flag_is_refused() -> None:
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
    told = CliRunner().invoke(main, ["serve", "--nonsense"])
    assert told.exit_code == 2
    assert told.output.startswith("flag provided but not defined: -nonsense\n")


def test_no_help_loads_what_only_the_command_needs() -> None:
    """Every help page within 200 ms: no client, no store, no Spark, not even rich or asyncio."""
    code = (
        "import sys\n"
        "import click\n"
        "from click.testing import CliRunner\n"
        "from jetspark.cli.main import main\n"
        "heavy = 'asyncio msgspec rich pyspark pyarrow jetspark.client jetspark.engine '\n"
        "heavy += 'jetspark.errors jetspark.spark jetspark.store jetspark.sync'\n"
        "def pages(command, words):\n"
        "    yield words\n"
        "    if isinstance(command, click.Group):\n"
        "        with click.Context(command, **command.context_settings) as context:\n"
        "            for name in command.list_commands(context):\n"
        "                if name != 'serve':\n"
        "                    found = command.get_command(context, name)\n"
        "                    yield from pages(found, [*words, name])\n"
        "for words in pages(main, []):\n"
        "    done = CliRunner().invoke(main, [*words, '--help'])\n"
        "    loaded = [name for name in heavy.split() if name in sys.modules]\n"
        "    print(' '.join(words), done.exit_code, loaded)\n"
        # Its help lists the flags of the configuration, which are defined there.
        "CliRunner().invoke(main, ['serve', '--help'])\n"
        "heavy += ' jetspark.server.server jetspark.server.net jetspark.server.routing'\n"
        "loaded = [name for name in heavy.split() if name in sys.modules]\n"
        "print('serve', set(loaded) - {'msgspec', 'jetspark.errors'})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    *lines, serve = done.stdout.splitlines()
    assert [line for line in lines if not line.endswith(" 0 []")] == []
    assert len(lines) > 12
    assert serve == "serve set()"


def test_help_shows_the_address_that_the_client_uses() -> None:
    assert connection.DEFAULT_URL == DEFAULT_URL


def test_serve_does_not_load_the_client_before_a_remote_is_wanted() -> None:
    """Most servers have no remotes, and the client costs every start its loading."""
    code = (
        "import sys\n"
        "import jetspark.cli.serve.running\n"
        "heavy = ('jetspark.client', 'jetspark.replica', 'starlette')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    below = str(tmp_path / "file" / "below")
    result = CliRunner().invoke(main, ["pipeline", "init", "shop", "--in", below])

    assert result.exit_code == 1
    assert "Not a directory" in result.output
    assert len(result.output.splitlines()) == 1


def test_help_names_the_variables_that_options_are_taken_from() -> None:
    told = CliRunner().invoke(main, ["--help"]).output

    shown = "[env var: NATS_URL; default: (the selected context, or nats://127.0.0.1:4222)]"
    assert shown in " ".join(told.split())
