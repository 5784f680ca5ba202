"""Payloads of `pub` and `req`: from the command or standard input; templates; headers."""

import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

from jetspark.cli.messaging.templates import expand, expand_text
from jetspark.cli.output import Output
from jetspark.cli.standard_input import chunks


class Draft(NamedTuple):
    """A message to be sent."""

    subject: str
    data: bytes
    headers: list[tuple[str, str]]


class Drafts:
    """The messages of one command: each payload ``count`` times."""

    def __init__(
        self, output: Output, subject: str, body: str | None, headers: tuple[tuple[str, str], ...],
        *, count: int, send_on: str, templates: bool,
    ) -> None:  # fmt: skip
        self._output = output
        self._subject = subject
        self._body = body
        self._headers = headers
        self._count = count
        self._lines = body is None and send_on == "newline"
        self._templates = templates
        # Whether the next message depends on input that was not read yet.
        self.must_wait: bool = False

    @property
    def single(self) -> bool:
        """Whether it is one message."""
        return self._count == 1 and not self._lines

    @property
    def total(self) -> int | None:
        """How many there are, if that is known."""
        return None if self._lines else self._count

    async def __aiter__(self) -> AsyncIterator[Draft]:
        """The messages, in order."""
        number = 0
        async for data in self._payloads():
            for _ in range(self._count):
                number += 1
                yield self._draft(data, number)

    def _draft(self, data: bytes, number: int) -> Draft:
        if not self._templates:
            return Draft(self._subject, data, list(self._headers))
        return Draft(
            expand_text(self._subject, number),
            expand(data, number),
            [(name, expand_text(value, number)) for name, value in self._headers],
        )

    async def _payloads(self) -> AsyncIterator[bytes]:
        if self._body is not None:
            yield self._body.encode("utf-8", "surrogateescape")
            return
        if sys.stdin.isatty():
            ends = "each line is sent" if self._lines else "Ctrl-D sends it"
            self._output.say(f"Reading payload from standard input: {ends}")
        rest = b""
        async for chunk in chunks():
            rest += chunk
            if self._lines and b"\n" in chunk:
                *lines, rest = rest.split(b"\n")
                for number, line in enumerate(lines, 1):
                    self.must_wait = number == len(lines)
                    yield line.removesuffix(b"\r")
        if rest or not self._lines:
            yield rest
