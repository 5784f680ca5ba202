"""The root of the command line. Sub-commands are imported when they are used."""

import gc
from importlib import import_module
from typing import Any, Final

import click

from jetspark.version import COMPILED, VERSION

# Command -> (module, attribute, the line `jetspark --help` shows without importing the module).
_COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "doctor": (
        "jetspark.cli.doctor.command",
        "doctor",
        "Check, repair and export a store that no server uses.",
    ),
    "pipeline": (
        "jetspark.cli.pipeline.command",
        "pipeline",
        "Create, check, run and monitor Spark pipelines over streams.",
    ),
    "serve": ("jetspark.cli.serve.command", "serve", "Run a NATS server with durable JetStream."),
    "stream": (
        "jetspark.cli.stream.command",
        "stream",
        "Export and import streams of any server, jetspark or nats-server.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        home = _COMMANDS.get(cmd_name)
        if home is None:
            return None
        # What modules create is no garbage: collections meanwhile take a tenth of the start.
        gc.disable()
        try:
            command = getattr(import_module(home[0]), home[1])
        finally:
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an unusable path or a missing package is one line, not a traceback."""
        try:
            return super().invoke(ctx)
        except ImportError as error:
            from jetspark.errors import MissingExtra

            if not isinstance(error, MissingExtra):
                raise
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.filename is None or error.strerror is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, home[2]) for name, home in sorted(_COMMANDS.items())])


def version_text() -> str:
    """The output of `jetspark --version`."""
    return f"jetspark {VERSION} ({'compiled' if COMPILED else 'interpreted'})"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=version_text(), version=VERSION)
def main() -> None:
    """Durable streams, key-value buckets and object stores for Python and Spark.

    When a jetspark server acknowledges a message, the message is on disk.

    Start with `jetspark serve -js`.
    """
