"""How commands show messages, stored or just received.

As JSON a message has the columns of export files (docs/export.md): what `stream cat --ndjson`
prints, `stream import` reads.
"""

import base64
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

import click

from jetspark.cli.output import Output, visible
from jetspark.cli.quantities import show_time
from jetspark.cli.stream.rows import named_headers, subject_text
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.units import format_rfc3339


def message_fields(
    subject: str, data: bytes, block: bytes, *, before: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """A message as JSON; ``before`` are its first fields."""
    text, exact = subject_text(subject)
    fields: dict[str, Any] = {**(before or {}), "subject": text}
    if exact is not None:
        fields["subject_bytes"] = base64.b64encode(exact).decode()
    if block:
        named = named_headers(block)
        if named is None:
            fields["headers_block"] = base64.b64encode(block).decode()
        else:
            fields["headers"] = named
    fields["data"] = base64.b64encode(data).decode()
    return fields


def stored_fields(message: StreamMessage) -> dict[str, Any]:
    """A stored message as JSON, a row of an export file."""
    before = {
        "stream": message.stream,
        "seq": message.seq,
        "time": format_rfc3339(message.time_ns),
    }
    return message_fields(message.subject, message.data, message.header_block, before=before)


def show_headers(output: Output, block: bytes) -> None:
    """Write the headers of a message, if it has some."""
    if not block:
        return
    output.line()
    for name, values in (named_headers(block) or {}).items():
        for value in values:
            output.line(f"  {visible(name)}: {visible(value)}")


def show_stored(output: Output, message: StreamMessage, *, translate: str) -> None:
    """Write a stored message: a head, its headers, its payload."""
    head = (
        f"[{message.seq}] Subject: {visible(message.subject)} Received: {show_time(message.time)}"
    )
    output.line(output.style(head, "bold"))
    show_headers(output, message.header_block)
    output.line()
    output.data(translated(message.data, translate, message.subject))
    output.line()


def translated(data: bytes, command: str, subject: str) -> bytes:
    """The output of a command that gets the payload; `{{Subject}}` in it is replaced."""
    if not command:
        return data
    words = [word.replace("{{Subject}}", subject) for word in shlex.split(command)]
    try:
        done = subprocess.run(words, input=data, capture_output=True, check=True)  # noqa: S603
    except OSError as error:
        raise click.ClickException(f"--translate {command!r}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise click.ClickException(
            f"--translate {command!r} exited with {error.returncode}: {said}"
        ) from error
    return done.stdout.removesuffix(b"\n")
