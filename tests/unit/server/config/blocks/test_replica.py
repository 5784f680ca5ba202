"""The ``jetspark.replica`` block and its flags (docs/replicas.md)."""

from __future__ import annotations

import pytest

from jetspark.cli.serve.help import help_text
from jetspark.server.config.blocks.replica import Replica
from jetspark.server.config.command_line import Exit, from_command_line
from jetspark.server.config.settings import Settings


def told(*flags: str, file: str = "") -> Settings | str:
    """The settings of a command line, or its error."""
    arguments = [*(("-c", "server.conf") if file else ()), *flags]
    found = from_command_line(arguments, {}, read=lambda _path: file.encode())
    if isinstance(found, Exit):
        return found.error
    assert isinstance(found, Settings)
    return found


def test_flags_make_a_replica_with_a_store_for_its_copies() -> None:
    found = told(
        "--replica-of", "nats://a:1, nats://b:2", "--streams", "KV_*,ORDERS", "--no-reads", "KV_x",
        "--read-only",
    )  # fmt: skip

    assert isinstance(found, Settings)
    assert found.jetstream.enabled
    assert found.jetspark.replica == Replica(
        of=("nats://a:1", "nats://b:2"),
        streams=("KV_*", "ORDERS"),
        no_reads=("KV_x",),
        read_only=True,
    )


def test_a_file_says_the_same_and_flags_win_over_it() -> None:
    file = 'jetspark { remotes { hub { url: "nats://h:1" } }, replica { of: hub, streams: "A" } }'

    found = told("-streams=B", file=file)

    assert isinstance(found, Settings)
    assert found.jetspark.replica is not None
    assert (found.jetspark.replica.remote, found.jetspark.replica.streams) == ("hub", ("B",))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--streams", "KV_*"], "expected 'of' with the leader's URL"),
        (["--read-only"], "expected 'of' with the leader's URL"),
        (["--replica-of", "http://leader"], "not the URL of a leader"),
        (["--replica-of", ""], "not the URL of a leader"),
        (["--replica-of", "nats://a:1", "--streams", "KV.*"], "names have no dots"),
        (["--replica-of", "nats://a:1", "--streams", ""], "expected names of streams"),
    ],
)
def test_wrong_use_says_what_was_expected(flags: list[str], words: str) -> None:
    found = told(*flags)

    assert isinstance(found, str)
    assert words in found


def test_the_help_teaches_replicas() -> None:
    text = help_text()

    assert "--replica-of nats://leader:4222 --streams 'KV_*'" in text
    assert all(flag in text for flag in ("--replica-of", "--streams", "--no-reads", "--read-only"))
