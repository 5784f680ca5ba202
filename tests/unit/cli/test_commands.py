"""Every command of the command line, without a server: help, options, suggestions, wrong use."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.command_line import CommandLine

from jetspark.cli.commands import Command, resolve
from jetspark.cli.connection import ConnectionOption
from jetspark.cli.main import COMMANDS, main

CLI = CommandLine("nats://127.0.0.1:1")
# They have no page of their own in click's format, or are older than the shared parts.
OWN_FORMAT = {"serve"}


def every(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    if words and words[0] in OWN_FORMAT:
        return
    yield words
    if isinstance(command, click.Group):
        with click.Context(command, **command.context_settings) as context:
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                yield from every(found, (*words, name))


def found(words: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command, **command.context_settings), word)
        assert below is not None
        command = below
    return command


ALL = list(every(main))
LATE = [words for words in ALL if isinstance(found(words), Command) and found(words).target]  # type: ignore[attr-defined]


def options(command: click.Command) -> set[str]:
    shared = {"wants_json", "wants_ndjson"}
    return {
        param.name
        for param in command.params
        if param.name and not isinstance(param, ConnectionOption) and param.name not in shared
    }


@pytest.mark.parametrize("words", LATE, ids=" ".join)
def test_the_function_of_a_command_takes_its_options(words: tuple[str, ...]) -> None:
    command = found(words)
    assert isinstance(command, Command)
    signature = inspect.signature(resolve(command.target))
    first, *rest = signature.parameters.values()
    named = {one.name for one in rest if one.kind is one.KEYWORD_ONLY}

    assert first.name in {"session", "output"}
    if any(one.kind is one.VAR_KEYWORD for one in rest):
        assert named <= options(command)
    else:
        assert named == options(command)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_help_of_a_command_has_an_example_and_every_option_an_explanation(
    words: tuple[str, ...],
) -> None:
    help_text = CLI.ok(*words, "--help")

    assert "Example" in help_text
    assert f"jetspark {' '.join(words)}".rstrip() in help_text.partition("Example")[2]
    unexplained = [
        one.name
        for one in found(words).params
        if isinstance(one, click.Option) and not one.help and not one.hidden
    ]
    assert unexplained == []


def test_the_root_lists_every_command_with_the_first_line_of_its_help() -> None:
    for name, home in COMMANDS.items():
        assert (found((name,)).help or "").splitlines()[0] == home.line


def test_aliases_are_natsclis() -> None:
    context = click.Context(main, **main.context_settings)

    assert main.get_command(context, "str") is main.get_command(context, "stream")
    assert CLI.ok("str", "l", "--help").splitlines()[0].endswith("stream ls [OPTIONS]")


def test_a_mistyped_command_or_option_is_answered_with_what_was_meant() -> None:
    assert "Did you mean 'stream'?" in CLI.fails(2, "strem")
    assert "Did you mean 'info'?" in CLI.fails(2, "stream", "inof")
    assert "--max-msgs" in CLI.fails(2, "stream", "add", "A", "--max-msg", "3")
    assert "No such command 'nonsense'" in CLI.fails(2, "nonsense")


def test_both_forms_of_json_at_once_are_refused() -> None:
    assert "exclude each other" in CLI.fails(2, "stream", "ls", "--json", "--ndjson")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("stream", "add", "A", "--max-age", "tomorrow"), "1h30m"),
        (("stream", "add", "A", "--max-bytes", "much"), "10MB"),
        (("stream", "add", "A", "--metadata", "novalue"), "NAME=VALUE"),
        (("stream", "add", "A", "--replicas", "9"), "at most 5"),
        (("stream", "get", "A", "zero"), "whole number"),
        (("stream", "cat", "A", "--since", "then"), "2h30m"),
        (("stream", "info"), "STREAM"),
        (("stream", "ls", "--timeout", "0"), "more than 0"),
        (("stream", "ls", "--context", "x", "--no-context"), "exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_use_is_answered_with_what_is_expected(
    words: tuple[str, ...], expected: str
) -> None:
    assert expected in CLI.fails(2, *words)


# Tests that assemble the words of a command, by the beginning of the words.
ASSEMBLED = {
    ("bench", "js"): "client/cli/test_bench.py",
    ("completion",): "client/cli/test_completion.py",
    ("doctor", "clock"): "integration/storage/test_clock_changes.py",
    ("doctor",): "unit/cli/test_doctor.py",
    ("pipeline",): "spark/pipelines/test_pipelines.py",
    ("server", "check"): "client/cli/test_server_check.py",
}
TESTS = Path(__file__).parents[2]


def texts_of(source: str) -> Iterator[list[str | None]]:
    """The arguments of calls and the parts of tuples and lists; None if one is no text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(args=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield [
                    part.value
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    else None
                    for part in parts
                ]


@functools.cache
def used_words() -> frozenset[tuple[str | None, ...]]:
    """Texts that follow each other in tests, up to four of them."""
    return frozenset(
        tuple(texts[start : start + count])
        for folder in ("client", "unit/cli", "spark", "integration")
        for file in (TESTS / folder).rglob("*.py")
        if file != Path(__file__)
        for texts in texts_of(file.read_text(encoding="utf-8"))
        for start in range(len(texts))
        for count in range(1, 5)
    )


@pytest.mark.parametrize(
    "words", [one for one in ALL if not isinstance(found(one), click.Group)], ids=" ".join
)
def test_every_command_is_run_by_a_test(words: tuple[str, ...]) -> None:
    command = found(words)
    names = (words[-1], *getattr(command, "aliases", ()))
    if any((*words[:-1], name) in used_words() for name in names):
        return
    file, *_ = [file for begin, file in ASSEMBLED.items() if words[: len(begin)] == begin]
    source = (TESTS / file).read_text(encoding="utf-8")
    assert any(re.search(rf"\b{name}\b", source) for name in names)
