"""Running commands of `jetspark` in this process, as a shell would."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from jetspark.cli import confirm, output
from jetspark.cli.main import main
from jetspark.cli.stream import reading

# What differs from run to run, in the order of replacement.
_VARYING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD hh:mm:ss"),
    (r"\b(\d+(\.\d+)?(ms|µs|ns|s)|\d+m\d+s)\b", "<age>"),
)


class CommandLine:
    """Commands for one server."""

    def __init__(self, url: str = "") -> None:
        self._environment = {"NATS_URL": url or None, "NATS_CONTEXT": None}

    def run(self, *words: str | Path, stdin: str | bytes = "") -> Result:
        """Run a command; nothing is checked."""
        result = CliRunner().invoke(
            main, [str(word) for word in words], input=stdin, env=self._environment
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def ok(self, *words: str | Path, stdin: str | bytes = "") -> str:
        """Run a command that succeeds; returns its standard output."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def said(self, *words: str | Path, stdin: str | bytes = "") -> str:
        """Run a command that succeeds; returns its standard error."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stderr

    def json(self, *words: str | Path) -> Any:
        """Run a command with --json; returns what it printed, which is one document."""
        return json.loads(self.ok(*words, "--json"))

    def ndjson(self, *words: str | Path) -> list[Any]:
        """Run a command with --ndjson; returns its lines."""
        return [json.loads(line) for line in self.ok(*words, "--ndjson").splitlines()]

    def fails(self, code: int, *words: str | Path, stdin: str | bytes = "") -> str:
        """Run a command that fails; returns the error, with lines joined."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == code, result.output
        return " ".join(result.stderr.split())


def on_terminal(patch: pytest.MonkeyPatch, width: int) -> None:
    """Let commands believe that they run on a terminal of this width, without colours."""
    patch.setattr(output, "terminal_width", lambda: width)
    patch.setattr(confirm, "can_ask", lambda: True)
    patch.setattr(reading, "can_ask", lambda: True)
    patch.setenv("NO_COLOR", "1")


def steady(text: str) -> str:
    """A text without what differs from run to run; columns keep their width where possible."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, lambda found, new=instead: new.ljust(len(found[0])), text)  # type: ignore[misc]
    return text


class Process:
    """A command in a process of its own, to be signalled or fed."""

    def __init__(self, *words: str | Path, url: str = "", stdin: int | None = None) -> None:
        environment = {**os.environ, "NATS_URL": url}
        environment.pop("NATS_CONTEXT", None)
        self._errors = ""
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jetspark", *map(str, words)],
            stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def wait_for(self, text: str) -> None:
        """Wait until standard error has a text."""
        assert self.process.stderr is not None
        while text not in self._errors:
            line = self.process.stderr.readline()
            assert line, self._errors
            self._errors += line

    def finish(self, number: int | None = None) -> int:
        """Send a signal, if one is given, and wait for the end; returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        if self.process.stdin is not None and self.process.stdin.closed:
            self.process.stdin = None
        self.output, _ = self.process.communicate(timeout=60)
        return self.process.returncode


def run_on_terminal(
    url: str, *words: str | Path, columns: int = 80, answers: Sequence[tuple[str, str]] = ()
) -> tuple[int, str]:
    """Run a command in a process whose terminal has a width; returns exit code and what it showed.

    ``answers``: what to type once a text was shown.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "NATS_URL": url, "TERM": "xterm", "COLUMNS": str(columns)}
        environment.pop("NO_COLOR", None)
        os.execve(
            sys.executable, [sys.executable, "-m", "jetspark", *map(str, words)], environment
        )
    shown, waiting = "", list(answers)
    try:
        while True:
            ready, _, _ = select.select([terminal], [], [], 60)
            assert ready, shown
            try:
                shown += os.read(terminal, 65536).decode()
            except OSError:  # the process has closed its end
                break
            if waiting and waiting[0][0] in shown:
                os.write(terminal, waiting.pop(0)[1].encode())
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n")
