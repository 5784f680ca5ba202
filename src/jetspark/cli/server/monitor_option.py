"""The option of commands that may ask a monitoring port."""

from typing import Final

import click

monitor_option: Final = click.option(
    "--monitor", envvar="JETSPARK_MONITOR", metavar="URL", default="", show_envvar=True,
    help="Ask the monitoring port, http://HOST:8222, not the system account; several with commas.",
)  # fmt: skip
