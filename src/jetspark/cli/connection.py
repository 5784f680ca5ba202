"""How commands that are clients find their server: one set of options for all of them.

Names and environment variables are those of natscli, so that users keep their habits.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click
import msgspec

from jetspark import sync
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.contexts import Context, read_context, selected_context
from jetspark.client.server_pool import DEFAULT_URL
from jetspark.errors import BadCredentials, Error

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
            with sync.connect(self.server, **self.arguments()) as client:
                yield client.jetstream(
                    domain=self.js_domain or "",
                    prefix=self.js_api_prefix or "",
                    timeout=self.timeout,
                )
        except Error as error:
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
            raise click.ClickException(f"{error}{notes}") from error

    def arguments(self) -> ConnectArguments:
        """Return what ``connect`` takes; of several identities, the one that counts."""
        given: dict[str, Any] = {
            name: getattr(self, option) or "" for name, option in _OF_CONTEXT.items()
        }
        found = Context(**given).arguments()
        found["name"] = "jetspark cli"
        found["timeout"] = self.timeout
        return found


# The fields of a context, and the options that say the same.
_OF_CONTEXT: Final = {
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "creds",
    "nkey": "nkey",
    "ca": "tlsca",
    "cert": "tlscert",
    "key": "tlskey",
    "inbox_prefix": "inbox_prefix",
    "jetstream_domain": "js_domain",
    "jetstream_api_prefix": "js_api_prefix",
}
_WHO: Final = ("user", "password", "token", "creds", "nkey")
_NOT_HERE: Final = ("user_jwt", "user_seed", "tls_first", "socks_proxy", "nsc")


def _settings(given: dict[str, Any], context: str | None) -> ConnectionSettings:
    """The options of a command, and those of a context where the command has none."""
    name = context or ("" if given["server"] else selected_context())
    if name:
        found = read_context(name)
        for field in _NOT_HERE:
            if getattr(found, field):
                raise BadCredentials(f"context {name!r}: {field} is not supported by this command")
        given["server"] = given["server"] or found.url
        named = any(given[option] for option in _WHO)
        for field, option in _OF_CONTEXT.items():
            if not given[option] and not (named and option in _WHO):
                given[option] = getattr(found, field) or None
    return ConnectionSettings(**{**given, "server": given["server"] or DEFAULT_URL})


_option = functools.partial(click.option, show_envvar=True)
_OPTIONS: Final = (
    _option(
        "-s", "--server", envvar="NATS_URL", metavar="URL",
        show_default=f"the selected context, or {DEFAULT_URL}",
        help="Server, or several separated by commas.",
    ),
    _option("--context", envvar="NATS_CONTEXT", help="Context of the nats command."),
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
        given = {name: kwargs.pop(name) for name in names}
        try:
            settings = _settings(given, kwargs.pop("context"))
        except BadCredentials as error:
            raise click.ClickException(str(error)) from error
        return command(*args, connection=settings, **kwargs)

    decorated: Any = called
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
