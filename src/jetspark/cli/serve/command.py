"""`jetspark serve`: nats-server's flags; the server is loaded only to run one."""

import gc
import os
import signal
import sys

import click

from jetspark.cli.serve.help import help_text, tls_help_text
from jetspark.server.config.command_line import (
    CheckedFile,
    Exit,
    Instruction,
    SendSignal,
    ShowHelp,
    ShowTlsHelp,
    ShowVersion,
    from_command_line,
)
from jetspark.server.config.problem import ConfigRefused
from jetspark.server.config.settings import Settings
from jetspark.version import NATS_VERSION, VERSION


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[FLAGS]",
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="")
def serve(flags: tuple[str, ...]) -> None:
    """Run a NATS server with durable JetStream."""
    asked = from_command_line(flags, os.environ)
    if not isinstance(asked, Settings):
        _do_instead(asked)
        return
    # Garbage collection while modules are loaded takes a tenth of the start; see run_server.
    gc.disable()
    from jetspark.cli.serve.running import run_server

    run_server(asked, flags)


def _do_instead(asked: Instruction) -> None:
    """Do what the flags requested instead of serving."""
    match asked:
        case ShowVersion():
            click.echo(f"nats-server: v{NATS_VERSION} (jetspark {VERSION})")
        case ShowHelp():
            click.echo(help_text())
        case ShowTlsHelp():
            click.echo(tls_help_text())
        case SendSignal(signal=name, pid=pid):
            try:
                os.kill(pid, signal.Signals[name])
            except OSError as error:
                click.echo(f"jetspark: process {pid}: {error.strerror}", err=True)
                sys.exit(1)
        case CheckedFile(settings=settings, line=line):
            from jetspark.errors import MissingExtra
            from jetspark.server.auth.users import build_directory
            from jetspark.server.config.packages import check_packages
            from jetspark.server.start_errors import in_words

            # What the server checks at its start, after it has read the file.
            try:
                check_packages(settings)
                build_directory(settings)
            except (ConfigRefused, MissingExtra) as refusal:
                for problem in in_words(refusal).splitlines():
                    click.echo(f"[FTL] {settings.config_file}: {problem}", err=True)
                sys.exit(1)
            click.echo(line, err=True)
        case Exit(code=code, error=error):
            click.echo(error, err=True, nl=False)
            sys.exit(code)
