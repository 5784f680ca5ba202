"""Connection options, shared by all commands that are clients.

Names and environment variables are those of natscli, so that users need not learn new ones.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from jetspark import sync
    from jetspark.client.connect_arguments import ConnectArguments

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE: Final = click.Path(exists=True, dir_okay=False)


# The client's DEFAULT_URL, repeated so that help texts do not load the client.
DEFAULT_URL: Final = "nats://127.0.0.1:4222"


class ConnectionSettings(NamedTuple):
    """The connection options of a command."""

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
    def jetstream(self) -> "Iterator[sync.JetStream]":
        """Connect, and close at the end; errors of the server become one clear line."""
        from jetspark import sync
        from jetspark.errors import Error

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

    def arguments(self) -> "ConnectArguments":
        """Return the arguments for ``connect``; of several identities, the effective one."""
        from jetspark.client.contexts import Context

        given: dict[str, Any] = {
            name: getattr(self, option) or "" for name, option in _OF_CONTEXT.items()
        }
        found = Context(**given).arguments()
        found["name"] = "jetspark cli"
        found["timeout"] = self.timeout
        return found


# The fields of a context, and the equivalent options.
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
    """The options of a command, completed by those of a context."""
    from jetspark.client.contexts import read_context, selected_context
    from jetspark.errors import BadCredentials

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
        help="Server, or several, separated by commas.",
    ),
    _option("--context", envvar="NATS_CONTEXT", help="Context of the nats command."),
    _option("--user", envvar="NATS_USER", help="User name; without --password, a token."),
    _option("--password", envvar="NATS_PASSWORD", help="Password of the user."),
    _option("--token", envvar="NATS_TOKEN", help="Token."),
    _option("--creds", envvar="NATS_CREDS", type=_FILE, help="Credentials file."),
    _option("--nkey", envvar="NATS_NKEY", type=_FILE, help="File with an nkey seed."),
    _option("--tlsca", envvar="NATS_CA", type=_FILE, help="CA certificates to verify the server."),
    _option("--tlscert", envvar="NATS_CERT", type=_FILE, help="Client certificate."),
    _option("--tlskey", envvar="NATS_KEY", type=_FILE, help="Key of the client certificate."),
    _option("--inbox-prefix", envvar="NATS_INBOX_PREFIX", help="Prefix of reply subjects."),
    _option(
        "--timeout", envvar="NATS_TIMEOUT", default=5.0, show_default=True,
        type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
        help="Timeout of each request.",
    ),
    _option("--js-domain", help="JetStream domain."),
    _option("--js-api-prefix", help="Prefix of the JetStream API."),
)  # fmt: skip


def connection_options(command: _Command) -> _Command:
    """Add the options to a command; they are passed as one argument ``connection``."""

    @functools.wraps(command)
    def called(*args: Any, **kwargs: Any) -> Any:
        from jetspark.errors import BadCredentials

        given = {name: kwargs.pop(name) for name in ConnectionSettings._fields}
        try:
            settings = _settings(given, kwargs.pop("context"))
        except BadCredentials as error:
            raise click.ClickException(str(error)) from error
        return command(*args, connection=settings, **kwargs)

    decorated: Any = called
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
