"""Running a check: whatever happens, the answer is one that a monitor understands."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from jetspark.cli.connection import ConnectionSettings, settings_of
from jetspark.cli.output import Output
from jetspark.cli.server.check.result import Format, Result
from jetspark.cli.session import ServerErrors, Session
from jetspark.client.client import connect
from jetspark.errors import Error

Check = Callable[[Session, Result], Awaitable[None]]


def run_check(output: Output, given: dict[str, Any], suite: str, name: str, check: Check) -> None:
    """Connect, check, write the result, exit with its code."""
    form, namespace, target = take_format(output, given)
    settings = settings_of(given)
    result = Result(suite, name)
    try:
        asyncio.run(_checked(settings, output, result, check))
    except Error as error:
        result.critical(str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, a monitor gets an answer
        result.failed(error)
    finish(output, result, form, namespace, target)


def finish(
    output: Output, result: Result, form: Format, namespace: str, target: Path | None
) -> None:
    """Write the result and exit with its code."""
    written = result.render(form, namespace, output)
    if written is not None and target is not None:
        _replace(target, written + b"\n")
    elif written is not None:
        click.echo(written)
    sys.exit(result.code(form))


def take_format(output: Output, given: dict[str, Any]) -> tuple[Format, str, Path | None]:
    """Take the format, the namespace and the file out of the options."""
    form: Format | None = given.pop("form")
    namespace: str | None = given.pop("namespace")
    target: Path | None = given.pop("outfile")
    # They may stand before the name of the check too, as natscli's.
    above = click.get_current_context().parent
    before = above.params if above is not None else {}
    chosen: Format = form or before.get("form") or ("json" if output.json else "nagios")
    if target is None:
        target = before.get("outfile")
    if target is not None and chosen == "text":
        raise click.UsageError("--outfile needs a --format for programs, not text")
    return chosen, namespace or before.get("namespace") or "nats_server_check", target


async def _checked(
    settings: ConnectionSettings, output: Output, result: Result, check: Check
) -> None:
    arguments = settings.arguments()
    # A check answers soon: it does not wait for a server to come back.
    arguments["allow_reconnect"] = False
    arguments["error_callback"] = lambda _error: None
    async with await connect(settings.server, **arguments) as client:
        errors = ServerErrors(output, lambda: None)
        await check(Session(client, settings, output, errors), result)


def _replace(target: Path, data: bytes) -> None:
    """Write a file that readers see whole: collectors read it at any time."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
