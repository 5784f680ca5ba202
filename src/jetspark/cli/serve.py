"""`jetspark serve`: run the server until a signal ends it."""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import click

from jetspark.errors.storage import StorageFault
from jetspark.server.server import Server
from jetspark.version import NATS_VERSION, VERSION

STORE_DEFAULT: Final = Path("jetspark-data")  # decisions.md, store directory
# Interpreted, the lock changes hands only every 5 ms by default; acks would wait for that.
SWITCH_INTERVAL_S: Final = 0.0005
_LEVELS: Final = {
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "FTL",
}

log = logging.getLogger("jetspark.server")


class NatsFormatter(logging.Formatter):
    """Lines as nats-server writes them, because tools that start a server read them."""

    def format(self, record: logging.LogRecord) -> str:
        """`[pid] 2026/11/15 07:01:04.606146 [INF] text`."""
        second = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(record.created))
        micro = int(record.created % 1 * 1_000_000)
        level = _LEVELS.get(record.levelno, "INF")
        return f"[{os.getpid()}] {second}.{micro:06d} [{level}] {record.getMessage()}"


@click.command(context_settings={"show_default": True})
@click.option("-a", "-addr", "--addr", "host", default="0.0.0.0", help="Address to listen on.")  # noqa: S104
@click.option("-p", "-port", "--port", default=4222, help="Port for clients; -1 for any free one.")
@click.option("-js", "-jetstream", "--jetstream", is_flag=True, help="Switch JetStream on.")
@click.option(
    "-sd",
    "-store_dir",
    "--store_dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for streams; switches JetStream on. [default: ./jetspark-data]",
)
@click.option("-n", "-name", "--name", "--server_name", help="Name of this server.")
@click.option(
    "-v",
    "-version",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _param, value: _print_version(ctx) if value else None,
    help="Print the version line that tools for nats-server expect.",
)
def serve(
    *, host: str, port: int, jetstream: bool, store_dir: Path | None, name: str | None
) -> None:
    """Run a NATS server with durable JetStream.

    \b
    Examples:
      jetspark serve -js                  streams in ./jetspark-data, port 4222
      jetspark serve -sd /data -p 4333    streams in /data
      jetspark serve -p -1                core NATS only, any free port
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(NatsFormatter())
    logging.getLogger("jetspark").addHandler(handler)
    logging.getLogger("jetspark").setLevel(logging.INFO)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = Server(
        host=host,
        port=port,
        jetstream=jetstream or store_dir is not None,
        store_dir=store_dir or STORE_DEFAULT,
        server_name=name,
    )
    try:
        _run(server)
    except (StorageFault, OSError) as error:
        log.critical("%s", error)
        sys.exit(1)


def _run(server: Server) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(_until_signalled(server))
    else:
        uvloop.run(_until_signalled(server))


async def _until_signalled(server: Server) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log.info("Starting nats-server compatible jetspark %s", VERSION)
    async with server:
        await stop.wait()
        log.info("Initiating Shutdown...")
    log.info("Server Exiting..")


def _print_version(ctx: click.Context) -> None:
    click.echo(f"nats-server: v{NATS_VERSION} (jetspark {VERSION})")
    ctx.exit()
