"""Runs a dashboard until a signal ends it."""

import asyncio
import contextlib
import signal
import sys
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from jetspark.cli.connection import ConnectionSettings, settings_of
from jetspark.cli.output import Output
from jetspark.cli.refusals import plain_errors
from jetspark.errors.extras import extra
from jetspark.server.config.checks import is_loopback
from jetspark.server.config.packages import MONITORING


class _Address(NamedTuple):
    host: str
    port: int


def run_dashboard(
    output: Output, *, listen: str, access_token: str, write: bool, monitor: str,
    host_names: tuple[str, ...], **given: Any,
) -> None:  # fmt: skip
    """Serve the dashboard of the deployment that the connection options name."""
    address = _address(listen)
    if write and not access_token:
        raise click.UsageError(
            "--write needs a password for browsers: set JETSPARK_DASHBOARD_TOKEN, or give "
            "--access-token"
        )
    if not access_token and not is_loopback(address.host):
        raise click.UsageError(
            f"--listen {listen}: every machine that reaches this address could read your "
            "messages. Set JETSPARK_DASHBOARD_TOKEN (or give --access-token), or listen on "
            "127.0.0.1"
        )
    if monitor:
        monitor = _monitor_url(monitor)
    settings = settings_of(given)
    with extra(*MONITORING):
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    with plain_errors(), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _serve(output, settings, address, access_token, monitor, host_names, writable=write)
        )


async def _serve(
    output: Output, settings: ConnectionSettings, address: _Address, token: str, monitor: str,
    host_names: tuple[str, ...], *, writable: bool,
) -> None:  # fmt: skip
    from jetspark.dashboard.standalone import StandaloneDashboard

    dashboard = StandaloneDashboard(
        settings.server,
        settings.arguments(),
        domain=settings.js_domain or "",
        prefix=settings.js_api_prefix or "",
        monitor=monitor,
        token=token,
        hosts=host_names,
        is_writable=writable,
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with dashboard:
        try:
            port = await dashboard.listen(address.host, address.port)
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}; stop "
                "what uses it, or choose another address with --listen"
            ) from error
        shown = f"[{address.host}]" if ":" in address.host else address.host
        url = f"http://{shown}:{port}/"
        if output.json:
            output.value({"url": url, "writable": writable})
        else:
            kind = "writable" if writable else "read-only"
            output.line(f"Dashboard of {settings.server} ({kind}): {url}")
        sys.stdout.flush()
        await ended.wait()


def _address(text: str) -> _Address:
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {text}: expected HOST:PORT, like 127.0.0.1:8280")
    return _Address(host, int(port))


def _monitor_url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise click.UsageError(
            f"--monitor {text}: expected the address of a monitoring port, like "
            "http://127.0.0.1:8222"
        )
    return url.rstrip("/")
