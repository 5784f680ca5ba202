"""Asking servers about themselves: the system account, or the monitoring port.

Both answer with the same documents (`/varz`, `/connz`, `/jsz` ...). The system account reaches all
servers of a cluster; the monitoring port is one server's.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import click
import msgspec

from jetspark.cli.connection import ConnectionSettings, settings_of
from jetspark.cli.refusals import plain_errors
from jetspark.errors import NoResponders, RequestTimeout

if TYPE_CHECKING:
    from jetspark.client.client import Client

DEFAULT_PORT: Final = 8222
# How long to wait for another server after one has answered.
_STALL: Final = 0.3
_HINT: Final = (
    "connect as a user of the system account, or name the monitoring port of a server with "
    "--monitor http://HOST:8222 (a jetspark server opens it with `serve -m 8222`)"
)
_NO_RIGHTS: Final = "this user may not ask servers"
# What the system account calls documents and options that the monitoring port calls otherwise.
_SUBJECTS: Final = {"accstatz": "$SYS.REQ.ACCOUNT.PING.STATZ"}
# What every user may ask, about its own account.
_OF_ACCOUNT: Final = {
    "connz": "$SYS.REQ.ACCOUNT.PING.CONNZ", "accstatz": "$SYS.REQ.ACCOUNT.PING.STATZ",
}  # fmt: skip
_JSZ_NAMES: Final = {"acc": "account", "consumers": "consumer"}
_STATES: Final = ("open", "closed", "all")


class Answer(NamedTuple):
    """What one server said."""

    server: str
    rtt: float
    data: dict[str, Any]


def ask_servers(
    given: dict[str, Any], monitor: str, kind: str, options: Mapping[str, object] | None = None
) -> list[Answer]:
    """Ask for a document such as `varz`; the error says who can answer."""
    settings = settings_of(given)
    wanted = {name: value for name, value in (options or {}).items() if value}
    if monitor:
        return [_named(url, kind, wanted, settings.timeout) for url in _bases(monitor)]
    with plain_errors():
        return asyncio.run(_asked(settings, kind, wanted))


async def ask_about_account(
    client: "Client", monitor: str, kind: str, options: Mapping[str, object], timeout: float
) -> list[Answer]:
    """Ask for the `connz` or `accstatz` of the connection's account, as every user may."""
    wanted = {name: value for name, value in options.items() if value}
    if monitor:
        return [
            await asyncio.to_thread(_named, url, kind, wanted, timeout) for url in _bases(monitor)
        ]
    found = await _answers(client, _OF_ACCOUNT[kind], kind, wanted, timeout)
    if not found:
        found = await _by_port(client, kind, wanted, timeout)
    if not found:
        raise click.ClickException(f"{_NO_RIGHTS}: {_HINT}")
    return sorted(found, key=lambda answer: answer.server)


def _bases(monitor: str) -> list[str]:
    found = []
    for text in monitor.split(","):
        url = text.strip() if "://" in text else f"http://{text.strip()}"
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise click.UsageError(
                f"--monitor {text}: expected the address of a monitoring port, like "
                f"http://127.0.0.1:{DEFAULT_PORT}"
            )
        found.append(url.rstrip("/"))
    return found


def _named(base: str, kind: str, options: Mapping[str, object], timeout: float) -> Answer:
    """The document of a monitoring port; most do not say the name of their server."""
    found = _fetched(base, kind, options, timeout)
    if kind == "varz":
        return found
    return found._replace(server=_fetched(base, "varz", {}, timeout).server)


def _fetched(base: str, kind: str, options: Mapping[str, object], timeout: float) -> Answer:
    """The document of a monitoring port."""
    query = f"?{urlencode(_query(options))}" if options else ""
    begun = time.monotonic()
    try:
        with urlopen(f"{base}/{kind}{query}", timeout=timeout) as answer:  # noqa: S310 - http only
            text = answer.read()
    except HTTPError as error:
        # A server that is not healthy says so with a status.
        if kind != "healthz":
            raise click.ClickException(f"{base}/{kind}: {error.code} {error.reason}") from None
        text = error.read()
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(f"{base}: no monitoring port answers there: {reason}") from None
    rtt = time.monotonic() - begun
    data = _decoded(text, base)
    name = data.get("server_name") or data.get("server_id") or urlsplit(base).netloc
    return Answer(str(name), rtt, data)


def _query(options: Mapping[str, object]) -> dict[str, object]:
    return {name: 1 if value is True else value for name, value in options.items()}


def _decoded(text: bytes, where: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"{where} answers something else: {error}") from None
    if not isinstance(found, dict):
        raise click.ClickException(f"{where} answers something else than a server does")
    return found


async def _asked(
    settings: ConnectionSettings, kind: str, options: Mapping[str, object]
) -> list[Answer]:
    from jetspark.client.client import connect

    arguments = settings.arguments()
    arguments["error_callback"] = lambda _error: None  # a refused subject is said below
    async with await connect(settings.server, **arguments) as client:
        found = await ask_system_account(client, kind, options, settings.timeout)
        if not found:
            found = await _by_port(client, kind, options, settings.timeout)
    if not found:
        raise click.ClickException(f"{_NO_RIGHTS}: {_HINT}")
    return sorted(found, key=lambda answer: answer.server)


async def ask_system_account(
    client: "Client", kind: str, options: Mapping[str, object], timeout: float
) -> list[Answer]:
    """The answers of all servers; none if this is not a user of the system account."""
    subject = _SUBJECTS.get(kind, f"$SYS.REQ.SERVER.PING.{kind.upper()}")
    # Others get no answer at all: do not wait long for it.
    patience = timeout if client.server_info.acc_is_sys else min(timeout, _STALL)
    return await _answers(client, subject, kind, options, patience)


async def _answers(
    client: "Client", subject: str, kind: str, options: Mapping[str, object], patience: float
) -> list[Answer]:
    """The answers of all servers to a request; none if no server responds."""
    found: list[Answer] = []
    begun = time.monotonic()
    try:
        async for reply in client.request_many(
            subject, msgspec.json.encode(_body(kind, options)), stall=_STALL, timeout=patience
        ):
            answer = _decoded(reply.data, subject)
            server = answer.get("server") or {}
            data = answer.get("data")
            if isinstance(data, dict):
                name = str(server.get("name") or server.get("id") or "?")
                data.setdefault("server_id", server.get("id"))
                found.append(Answer(name, time.monotonic() - begun, data))
    except (NoResponders, RequestTimeout):
        pass
    return found


def _body(kind: str, options: Mapping[str, object]) -> dict[str, object]:
    """The options as the system account takes them."""
    names = _JSZ_NAMES if kind == "jsz" else {}
    body = {names.get(name, name): value for name, value in options.items()}
    if "state" in body:
        body["state"] = _STATES.index(str(body["state"]))
    return body


async def _by_port(
    client: "Client", kind: str, options: Mapping[str, object], timeout: float
) -> list[Answer]:
    """The answer of port 8222 of the connected server, if that is this server's."""
    host = urlsplit(f"//{client.connected_server}").hostname or "127.0.0.1"
    base = f"http://[{host}]:{DEFAULT_PORT}" if ":" in host else f"http://{host}:{DEFAULT_PORT}"
    try:
        varz = await asyncio.to_thread(_fetched, base, "varz", {}, min(timeout, 2.0))
        if varz.data.get("server_id") != client.server_info.server_id:
            return []
        if kind == "varz":
            return [varz]
        found = await asyncio.to_thread(_fetched, base, kind, options, timeout)
    except click.ClickException:
        return []
    return [found._replace(server=varz.server)]
