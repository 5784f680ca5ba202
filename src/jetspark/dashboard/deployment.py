"""The deployment that the dashboard shows: one connection, and what all pages ask of it.

Everything is bounded: requests run a few at a time, lists come in pages, and a page of rows costs
as many requests as it has rows. The verbs of the JetStream API that a read-only dashboard may use
are a list (`READS`): nothing else is sent, whatever a page asks for.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from jetspark.client.client import Client, connect
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.jetstream.context import JetStream
from jetspark.client.jetstream.streams import Stream
from jetspark.dashboard.errors import BadInput
from jetspark.errors import (
    ConnectionClosed,
    Error,
    JetStreamNotEnabled,
    NoResponders,
    PermissionsViolation,
    RequestTimeout,
    api_error,
)

T = TypeVar("T")

# Requests of all pages together that may be in flight; the others wait.
CONCURRENT: Final = 16
# Pages of messages that are read at a time: each holds some megabytes, if messages are large.
PAGES: Final = 6
# A page must not wait long for one row; the connection's own timeout is for programs.
TIMEOUT_S: Final = 4.0
NAMES_PAGE: Final = 1024
# How old a list of names may be: typing into a search box asks for it with every letter.
NAMES_AGE_S: Final = 2.0
# The names of more streams are not listed: a page says so.
NAMES_MAX: Final = 200_000
_DENIED_KEPT: Final = 64
_SUBJECT: Final = re.compile(r'(?:Publish|Subscription) to "([^"]+)"')

READS: Final = frozenset(
    {
        "INFO",
        "STREAM.INFO",
        "STREAM.LIST",
        "STREAM.NAMES",
        "STREAM.MSG.GET",
        "CONSUMER.INFO",
        "CONSUMER.LIST",
        "CONSUMER.NAMES",
        "CONSUMER.EXPLAIN",
    }
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where to connect, and as which user."""

    url: str
    arguments: ConnectArguments
    domain: str = ""
    prefix: str = ""


class Deployment:
    """One connection to a deployment, opened in the background and kept open."""

    def __init__(self, target: Callable[[], Target]) -> None:
        self._target = target
        self._client: Client | None = None
        self._jetstream: JetStream | None = None
        self._prefix = "$JS.API"
        self._slots = asyncio.Semaphore(CONCURRENT)
        self.pages: Final = asyncio.Semaphore(PAGES)
        self._problem = "connecting"
        self._denied: dict[str, tuple[float, str]] = {}
        self._names: tuple[float, list[str], bool] = (-NAMES_AGE_S, [], True)
        self._names_lock = asyncio.Lock()

    async def open(self) -> None:
        """Start to connect; failed attempts are repeated in the background."""
        target = self._target()
        arguments: ConnectArguments = {
            "name": "jetspark dashboard",
            **target.arguments,
            "retry_on_failed_connect": True,
            "max_reconnects": -1,
            "reconnect_wait": 0.5,
            "reconnect_wait_max": 5.0,
            "error_callback": self._on_error,
            "disconnected_callback": self._on_disconnected,
        }
        self._client = await connect(target.url, **arguments)
        self._jetstream = self._client.jetstream(
            domain=target.domain, prefix=target.prefix, timeout=TIMEOUT_S
        )
        if target.prefix:
            self._prefix = target.prefix.rstrip(".")
        elif target.domain:
            self._prefix = f"$JS.{target.domain}.API"

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def client(self) -> Client:
        """The connection; raises ConnectionClosed while there is none."""
        client = self._client
        if client is None:
            raise ConnectionClosed(f"not connected: {self._problem}")
        if not client.is_connected:
            reason = str(client.last_error or "") or self._problem
            raise ConnectionClosed(f"not connected: {reason}")
        return client

    @property
    def jetstream(self) -> JetStream:
        """JetStream of the connection."""
        self.client  # noqa: B018 - raises while there is no connection
        assert self._jetstream is not None
        return self._jetstream

    def state(self) -> dict[str, object]:
        """What the head of every page shows of the connection."""
        try:
            client = self.client
        except ConnectionClosed as error:
            return {"connected": False, "problem": str(error)}
        info = client.server_info
        ours = info.jetspark
        return {
            "connected": True,
            "server_name": info.server_name or info.server_id,
            "server_id": info.server_id,
            "version": info.version,
            "jetspark": ours.version if ours is not None else "",
            "cluster": info.cluster or "",
            "account": info.remote_account or "",
            "address": client.connected_server or "",
            "max_payload": info.max_payload,
        }

    # Requests ----------------------------------------------------------------------------------

    async def api(self, verb: str, asset: str = "", body: Mapping[str, Any] | None = None) -> Any:
        """Send a request that only reads to the JetStream API; returns the decoded answer."""
        if verb not in READS:
            raise AssertionError(f"{verb} is not a request that only reads")
        subject = ".".join(filter(None, (self._prefix, verb, asset)))
        began = time.monotonic()
        try:
            async with self._slots:
                reply = await self.client.request(
                    subject, msgspec.json.encode(body) if body else b"", timeout=TIMEOUT_S
                )
        except NoResponders as error:
            raise JetStreamNotEnabled(
                503, 10039, f"JetStream does not answer on {self._prefix}"
            ) from error
        except RequestTimeout:
            self._raise_denied(subject, began)
            raise
        try:
            answer = msgspec.json.decode(reply.data)
        except msgspec.MsgspecError as error:
            raise Error(f"{subject}: the answer is no JSON: {error}") from error
        found = answer.get("error") if isinstance(answer, dict) else None
        if found:
            raise api_error(
                int(found.get("code", 500)),
                int(found.get("err_code", 0)),
                str(found.get("description", "")),
            )
        return answer

    async def run(self, work: Awaitable[T]) -> T:
        """Run a call of the client as one of the few at a time."""
        began = time.monotonic()
        async with self._slots:
            try:
                return await work
            except RequestTimeout:
                self._raise_denied("", began)
                raise

    async def stream(self, name: str) -> Stream:
        """A handle of a stream, with its current state."""
        return await self.run(self.jetstream.stream(checked_name(name, "stream")))

    async def rows(self, work: Iterable[Awaitable[T]]) -> list[T | Error]:
        """Run one request for each row of a page; a row that fails has its error."""

        async def one(each: Awaitable[T]) -> T | Error:
            try:
                return await each
            except Error as error:
                return error

        return await asyncio.gather(*map(one, work))

    async def stream_names(self) -> tuple[list[str], bool]:
        """The names of all streams, sorted, at most two seconds old; False: there are more."""
        async with self._names_lock:
            at, names, whole = self._names
            if time.monotonic() - at < NAMES_AGE_S:
                return names, whole
            found: list[str] = []
            while True:
                page = await self.api("STREAM.NAMES", body={"offset": len(found)})
                some = page.get("streams") or []
                found += some
                total = int(page.get("total", 0))
                if not some or len(found) >= min(total, NAMES_MAX):
                    break
            found.sort()
            self._names = (time.monotonic(), found, len(found) >= total)
            return self._names[1], self._names[2]

    # Errors without a call ---------------------------------------------------------------------

    def _on_error(self, error: Exception) -> None:
        if not isinstance(error, PermissionsViolation):
            return
        found = _SUBJECT.search(str(error))
        subject = found[1] if found else ""
        self._denied.pop(subject, None)
        self._denied[subject] = (time.monotonic(), str(error))
        while len(self._denied) > _DENIED_KEPT:
            del self._denied[next(iter(self._denied))]

    def _on_disconnected(self, error: Exception | None) -> None:
        self._problem = str(error) if error is not None else "disconnected"

    def _raise_denied(self, subject: str, began: float) -> None:
        """Raise the violation that explains why there was no answer, if there was one."""
        for denied, (at, text) in self._denied.items():
            if at >= began and (not subject or denied == subject):
                raise PermissionsViolation(text)


NAME_MAX: Final = 255
_BAD_NAME: Final = re.compile(r"[\s.*>/\\\x00]")


def checked_name(name: str, what: str) -> str:
    """A name that is one token of a subject; raises BadInput for any other."""
    if len(name) > NAME_MAX:
        # A longer subject would end the connection, which all pages share.
        raise BadInput(f"the name of a {what} has at most {NAME_MAX} characters")
    if not name or _BAD_NAME.search(name):
        raise BadInput(f"{name!r} cannot be the name of a {what}: no blanks, dots, *, >, / or \\")
    return name
