"""Whether the tests prove what the options of the Spark formats do: ignore one, and see them fail.

    python -m tests.campaigns.spark.options [FORMAT:OPTION...]

An option that is parsed and then not used passes any test of its parser, so those do not count.
Only tests without a JVM run: Spark's own processes would not ignore the option.
"""

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support import ignored_option
from tests.support.spark_formats import FORMATS, PARSERS

ROOT: Final = Path(__file__).resolve().parents[3]
TIMEOUT_S: Final = 900
# Whatever is left out of these, no connection comes about, or the read is of nothing.
_JVM: Final = re.compile(r'SparkSession|usefixtures\("spark"\)')


class Outcome(NamedTuple):
    """What happened to the tests of an ignored option."""

    option: str
    noticed: bool
    summary: str


def options() -> list[str]:
    """Return every option of every format, as ``FORMAT:OPTION``."""
    found = {
        f"{name}:{option}"
        for name, format_ in FORMATS.items()
        for names in format_.uses.values()
        for option in names
    }
    return sorted(found)


def tests_of(name: str) -> Iterator[str]:
    """Yield the files of tests without a JVM that name an option."""
    format_name, option = name.split(":")
    # Keyword arguments have no dots.
    spellings = {option, option.replace(".", "_")}
    for place in FORMATS[format_name].tests:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
            text = file.read_text()
            uses_jvm = format_name != "connections" and _JVM.search(text)
            if file.name not in PARSERS and not uses_jvm and any(one in text for one in spellings):
                yield str(file.relative_to(ROOT))


def ignore(name: str) -> Outcome:
    """Run the tests of an option while it is ignored."""
    files = list(tests_of(name))
    if not files:
        return Outcome(name, noticed=False, summary="no test without a JVM names it")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-p", ignored_option.__name__, "-k", "not spark_distributes", *files]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, ignored_option.VARIABLE: name},
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    # 1: tests failed. Anything else is a mistake of the run itself.
    return Outcome(name, noticed=done.returncode == 1, summary=lines[-1])


def campaign(
    names: list[str], go_on: Callable[[], bool] = lambda: True
) -> tuple[list[Outcome], list[Outcome]]:
    """Ignore one option after the other; return those that were noticed, and the others."""
    noticed: list[Outcome] = []
    unnoticed: list[Outcome] = []
    for name in names:
        if noticed and not go_on():
            break
        outcome = ignore(name)
        (noticed if outcome.noticed else unnoticed).append(outcome)
    return noticed, unnoticed


def run(deadline: float, seed: int) -> str:
    """Ignore options in random order until the deadline."""
    names = options()
    random.Random(seed).shuffle(names)
    noticed, unnoticed = campaign(names, lambda: time.monotonic() < deadline)
    if unnoticed:
        raise AssertionError("\n".join(f"{one.option}: {one.summary}" for one in unnoticed))
    return f"{len(noticed)} of {len(names)} options ignored, each noticed by a test"


def main() -> None:
    """Ignore all options, or those that are named."""
    noticed, unnoticed = campaign(sys.argv[1:] or options())
    for one in (*noticed, *unnoticed):
        word = "noticed" if one.noticed else "NOT NOTICED"
        sys.stdout.write(f"{one.option}: {word} ({one.summary})\n")
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
