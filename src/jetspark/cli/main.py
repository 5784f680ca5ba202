"""The root of the command line. Sub-commands are imported when they are used."""

import errno
import sys
from typing import Any, Final, NamedTuple

import click

from jetspark.cli.commands import HELP_NAMES, refuse_unknown, resolve
from jetspark.cli.connection import CONNECTION_OPTIONS, ConnectionOption
from jetspark.cli.exit_codes import INTERRUPTED
from jetspark.cli.standard_output import drop_buffered, leave_closed_pipe
from jetspark.version import COMPILED, VERSION


class Home(NamedTuple):
    """Where a command is, and what `jetspark --help` shows without importing it."""

    module: str
    attribute: str
    line: str
    section: str
    aliases: tuple[str, ...] = ()


_MESSAGES: Final = "Messages"
_JETSTREAM: Final = "JetStream"
_SERVERS: Final = "Servers and connections"
_TOOLS: Final = "Tools"
_MESSAGING: Final = "jetspark.cli.messaging.command"
COMMANDS: Final[dict[str, Home]] = {
    "pub": Home(_MESSAGING, "pub", "Publish messages.", _MESSAGES, ("publish",)),
    "sub": Home(_MESSAGING, "sub", "Show messages as they arrive.", _MESSAGES, ("subscribe",)),
    "req": Home(
        _MESSAGING, "req", "Send a request and show the reply.", _MESSAGES, ("request",)
    ),
    "reply": Home(_MESSAGING, "reply", "Answer requests.", _MESSAGES),
    "stream": Home(
        "jetspark.cli.stream.command", "stream",
        "Manage streams: create, look into, change, back up, export.",
        _JETSTREAM, ("str", "st", "s"),
    ),
    "consumer": Home(
        "jetspark.cli.consumer.command", "consumer",
        "Manage consumers: positions in a stream that the server tracks.",
        _JETSTREAM, ("con", "obs", "c"),
    ),
    "kv": Home(
        "jetspark.cli.kv.command", "kv", "Manage key-value buckets and their keys.", _JETSTREAM
    ),
    "object": Home(
        "jetspark.cli.object.command", "object_group",
        "Manage object stores: files of any size in streams.", _JETSTREAM, ("obj",),
    ),
    "schema": Home(
        "jetspark.cli.schema.command", "schema",
        "Manage schemas of payloads: a registry in a bucket, with versions.",
        _JETSTREAM, ("schemas",),
    ),
    "account": Home(
        "jetspark.cli.account.command", "account",
        "Show the account of the connection: its user, server, usage and limits; back it up.",
        _SERVERS, ("a",),
    ),
    "context": Home(
        "jetspark.cli.context.command", "context",
        "Manage contexts: saved connection options.", _SERVERS, ("ctx",),
    ),
    "events": Home(
        "jetspark.cli.events.command", "events",
        "Show what happens on a server, as it happens, until it is interrupted.",
        _SERVERS, ("event", "e"),
    ),
    "rtt": Home(
        "jetspark.cli.account.command", "rtt",
        "Measure the round-trip time to each server.", _SERVERS,
    ),
    "server": Home(
        "jetspark.cli.server.command", "server",
        "Check servers, and report what they do.", _SERVERS, ("srv",),
    ),
    "top": Home(
        "jetspark.cli.top.command", "top",
        "Show the load of a server and its connections, refreshed until interrupted.", _SERVERS,
    ),
    "dashboard": Home(
        "jetspark.cli.dashboard.command", "dashboard",
        "Show streams, consumers, buckets and connections in a browser, until interrupted.",
        _SERVERS,
        ("ui",),
    ),
    "doctor": Home(
        "jetspark.cli.doctor.command", "doctor",
        "Check, repair and export a store that no server uses.", _SERVERS,
    ),
    "serve": Home(
        "jetspark.cli.serve.command", "serve",
        "Run a NATS server with durable JetStream.", _SERVERS,
    ),
    "bench": Home(
        "jetspark.cli.bench.command", "bench",
        "Measure messages per second of a server, with this client.", _TOOLS,
    ),
    "shell": Home(
        "jetspark.cli.shell.command", "shell",
        "Start a Python shell that is connected, with await.", _TOOLS,
    ),
    "completion": Home(
        "jetspark.cli.completion.command", "completion",
        "Print a script that completes commands, options and names in your shell.", _TOOLS,
    ),
    "errors": Home(
        "jetspark.cli.errors.command", "errors",
        "Look up the error codes of JetStream.", _TOOLS, ("err", "error"),
    ),
    "pipeline": Home(
        "jetspark.cli.pipeline.command", "pipeline",
        "Create, check, run and monitor Spark pipelines over streams.", _TOOLS,
    ),
    "spark": Home(
        "jetspark.cli.spark.command", "spark",
        "Prepare what a cluster of Spark needs.", _TOOLS,
    ),
}  # fmt: skip


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        home = COMMANDS.get(_ALIASES.get(cmd_name, cmd_name))
        if home is None:
            return None
        command = resolve(f"{home.module}:{home.attribute}")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for a mistyped one, suggest what was meant."""
        name = _ALIASES.get(args[0], args[0])
        if name not in COMMANDS and not ctx.resilient_parsing:
            refuse_unknown(ctx, args[0], {**{one: one for one in COMMANDS}, **_ALIASES})
        return super().resolve_command(ctx, [name, *args[1:]])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an unusable path or a missing package is one line, not a traceback."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            leave_closed_pipe()
        except ImportError as error:
            from jetspark.errors import MissingExtra

            if not isinstance(error, MissingExtra):
                raise
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.strerror is None:
                raise
            if error.filename is None:
                if error.errno not in _DISK_ERRORS:
                    raise
                drop_buffered()
                raise click.ClickException(
                    f"the output cannot be written: {error.strerror}"
                ) from error
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List commands without importing them."""
        widest = max(map(len, COMMANDS))
        for section in (_MESSAGES, _JETSTREAM, _SERVERS, _TOOLS):
            listed = [
                (name.ljust(widest), home.line)
                for name, home in COMMANDS.items()
                if home.section == section
            ]
            if listed:
                with formatter.section(section):
                    formatter.write_dl(listed)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands first, then the options of all clients."""
        self.format_commands(ctx, formatter)
        own: list[tuple[str, str]] = []
        connection: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                (connection if isinstance(param, ConnectionOption) else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        with formatter.section("Connection, before or after the command"):
            formatter.write_dl(connection)


# What writing to standard output may raise, which has no file name.
_DISK_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
_ALIASES: Final = {alias: name for name, home in COMMANDS.items() for alias in home.aliases}


def version_text() -> str:
    """The output of `jetspark --version`."""
    return f"jetspark {VERSION} ({'compiled' if COMPILED else 'interpreted'})"


@click.group(cls=LazyGroup, context_settings=HELP_NAMES, params=list(CONNECTION_OPTIONS))
@click.version_option(None, "-V", "--version", message=version_text())
def main(**_connection: Any) -> None:
    """Durable streams, key-value buckets and object stores for Python and Spark.

    When a jetspark server acknowledges a message, the message is on disk.

    \b
    Examples:
      jetspark serve -js                                start a server
      jetspark stream add ORDERS --subjects 'orders.>'  create a stream
      jetspark pub orders.new 'one' --jetstream         store a message
      jetspark stream view ORDERS                       look at it
    """
