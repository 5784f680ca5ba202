"""How commands that are clients find their server: one set of options for all of them.

Names and environment variables are those of natscli, so that users keep their habits.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from jetspark import sync
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.server_pool import DEFAULT_URL
from jetspark.client.tls import TlsFiles
from jetspark.errors import Error

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE: Final = click.Path(exists=True, dir_okay=False)


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of a command said about the server."""

    server: str = DEFAULT_URL
    user: str | None = None
    password: str | None = None
    token: str | None = None
    creds: str | None = None
    nkey: str | None = None
    tlsca: str | None = None
    tlscert: str | None = None
    tlskey: str | None = None
    inbox_prefix: str | None = None
    timeout: float = 5.0
    js_domain: str | None = None
    js_api_prefix: str | None = None

    @contextmanager
    def jetstream(self) -> Iterator[sync.JetStream]:
        """Connect, and close at the end; what goes wrong with the server is one clear line."""
        try:
            with sync.connect(self.server, **self._arguments()) as client:
                yield client.jetstream(
                    domain=self.js_domain or "",
                    prefix=self.js_api_prefix or "",
                    timeout=self.timeout,
                )
        except Error as error:
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            raise click.ClickException(f"{error}{notes}") from error

    def _arguments(self) -> ConnectArguments:
        found: ConnectArguments = {"name": "jetspark cli", "timeout": self.timeout}
        if self.user and not self.password and not self.token:
            found["token"] = self.user  # as natscli: a user without a password is a token
        else:
            found["user"] = self.user or ""
            found["password"] = self.password or ""
        if self.token:
            found["token"] = self.token
        if self.creds:
            found["credentials"] = Path(self.creds)
        if self.nkey:
            found["nkey_seed"] = Path(self.nkey).read_text(encoding="utf-8").strip()
        if self.tlsca or self.tlscert or self.tlskey:
            found["tls"] = TlsFiles(
                ca_file=self.tlsca or "",
                certificate_file=self.tlscert or "",
                key_file=self.tlskey or "",
            )
        if self.inbox_prefix:
            found["inbox_prefix"] = self.inbox_prefix
        return found


_option = functools.partial(click.option, show_envvar=True)
_OPTIONS: Final = (
    _option(
        "-s", "--server", envvar="NATS_URL", default=DEFAULT_URL, show_default=True,
        metavar="URL", help="Server, or several separated by commas.",
    ),
    _option("--user", envvar="NATS_USER", help="User; without a password: a token."),
    _option("--password", envvar="NATS_PASSWORD", help="Password of the user."),
    _option("--token", envvar="NATS_TOKEN", help="Token."),
    _option("--creds", envvar="NATS_CREDS", type=_FILE, help="Credentials file."),
    _option("--nkey", envvar="NATS_NKEY", type=_FILE, help="File with an nkey seed."),
    _option("--tlsca", envvar="NATS_CA", type=_FILE, help="Who vouches for the server."),
    _option("--tlscert", envvar="NATS_CERT", type=_FILE, help="Own certificate."),
    _option("--tlskey", envvar="NATS_KEY", type=_FILE, help="Its key."),
    _option("--inbox-prefix", envvar="NATS_INBOX_PREFIX", help="Begins reply subjects."),
    _option(
        "--timeout", envvar="NATS_TIMEOUT", default=5.0, show_default=True,
        type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
        help="How long to wait for each answer.",
    ),
    _option("--js-domain", help="JetStream domain."),
    _option("--js-api-prefix", help="Prefix of the JetStream API."),
)  # fmt: skip


def connection_options(command: _Command) -> _Command:
    """Give a command the options; they arrive as one argument ``connection``."""

    @functools.wraps(command)
    def called(*args: Any, **kwargs: Any) -> Any:
        names = ConnectionSettings.__struct_fields__
        settings = ConnectionSettings(**{name: kwargs.pop(name) for name in names})
        return command(*args, connection=settings, **kwargs)

    decorated: Any = called
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
