"""`jetspark shell`: the command line."""

import click

from jetspark.cli.commands import HELP_NAMES, Command
from jetspark.cli.connection import ConnectionSettings, connection_options


@click.command(cls=Command, context_settings=HELP_NAMES)
@click.option("-c", "--command", "source", metavar="CODE", help="Run this instead of asking.")
@connection_options
def shell(*, source: str | None, connection: ConnectionSettings) -> None:
    """Start a Python shell that is connected, with await.

    `nc` is the connection, `js` its JetStream; all public names of jetspark are imported. Without
    a terminal the program is read from standard input.

    \b
    Examples:
      jetspark shell
      jetspark shell -c 'print(await js.account_info())'
      jetspark shell < program.py
    """
    from jetspark.cli.shell.console import run_shell

    run_shell(connection, source)
