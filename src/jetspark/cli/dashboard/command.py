"""`jetspark dashboard`: the declaration."""

import click

from jetspark.cli.commands import local_command
from jetspark.cli.connection import declare_connection


@local_command("dashboard", "jetspark.cli.dashboard.running:run_dashboard")
@click.option(
    "--listen",
    default="127.0.0.1:8280",
    show_default=True,
    metavar="HOST:PORT",
    help="Where browsers connect; port 0 is any free one.",
)
@click.option(
    "--access-token",
    envvar="JETSPARK_DASHBOARD_TOKEN",
    default="",
    show_envvar=True,
    help="Password that browsers must give, with any user name.",
)
@click.option("--write", is_flag=True, help="Allow changes; needs --access-token.")
@click.option(
    "--monitor",
    envvar="JETSPARK_MONITOR",
    default="",
    metavar="URL",
    show_envvar=True,
    help="Monitoring port of the server, http://HOST:8222, for rates and connections.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Name that browsers may use for this dashboard; may be repeated.",
)
@declare_connection
def dashboard() -> None:
    """Show streams, consumers, buckets and connections in a browser, until interrupted.

    Works with every NATS server and reads only, without taking messages from work queues. A
    jetspark server has it built in: `jetspark serve -js --dashboard`.

    \b
    Examples:
      jetspark dashboard
      jetspark dashboard -s nats://hub:4222 --monitor http://hub:8222
      jetspark dashboard --context production --listen 127.0.0.1:9000
      JETSPARK_DASHBOARD_TOKEN=secret jetspark dashboard --write
    """
