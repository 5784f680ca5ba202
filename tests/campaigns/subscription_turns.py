"""How long subscriptions keep the loop: ``python -m tests.campaigns.subscription_turns``.

CPU time of the longest callback of the loop, in milliseconds: for one client's literal
subscriptions, and for messages to new subjects while there are wildcard patterns that agree with
them in the first tokens and match none. Patterns that fail at one token are skipped; of those that
fail at one of two, the search visits every branch.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.turn_probe import TurnProbe, Wire

LITERALS = (350_000, 1_000_000)
DEPTHS = (13, 16)
ENDINGS = {"one token": (b".z",), "one of two tokens": (b".z.*", b".*.z")}
MESSAGES = 20


@contextmanager
def probed() -> Iterator[TurnProbe]:
    """Run a server whose turns are measured."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch) as probe,
    ):
        yield probe


def subscribe(client: Wire, subjects: Iterable[bytes]) -> None:
    """Subscribe to all of them."""
    client.send(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in enumerate(subjects)))
    client.settle()


def measure_literals(count: int) -> float:
    """The longest turn of a number of subscriptions of one client."""
    with probed() as probe, probe.client() as client:
        probe.longest_ms()
        subscribe(client, (b"s.%d" % n for n in range(count)))
        return probe.longest_ms()


def measure_patterns(depth: int, endings: tuple[bytes, ...]) -> tuple[int, float, float]:
    """How many patterns; the longest turns of subscribing to them and of messages for none."""
    heads = [b".".join(each) for each in itertools.product([b"a", b"*"], repeat=depth)]
    patterns = [head + ending for head in heads for ending in endings]
    with probed() as probe, probe.client() as client:
        probe.longest_ms()
        subscribe(client, patterns)
        subscribed = probe.longest_ms()
        prefix = b".".join([b"a"] * depth)
        tokens = len(endings[0].split(b".")) - 1
        subjects = [prefix + b".%d" % n * tokens for n in range(MESSAGES)]
        client.send(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in subjects))
        client.settle()
        return len(patterns), subscribed, probe.longest_ms()


def main() -> None:
    """Print a line for each measurement."""
    for count in LITERALS:
        sys.stdout.write(f"{count} literal subscriptions: {measure_literals(count):.1f}\n")
    for (what, endings), depth in itertools.product(ENDINGS.items(), DEPTHS):
        count, subscribed, sent = measure_patterns(depth - len(endings) + 1, endings)
        line = f"subscribe {subscribed:.1f}, publish {sent:.1f}"
        sys.stdout.write(f"{count} patterns that fail at {what}: {line}\n")


if __name__ == "__main__":
    main()
