"""Connection options, shared by all commands that are clients.

Names and environment variables are those of natscli, so that users need not learn new ones.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from jetspark.cli.quantities import SECONDS

if TYPE_CHECKING:
    from jetspark import sync
    from jetspark.client.connect_arguments import ConnectArguments

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _NamedFile(click.Path):
    """A file that exists; what looks like the contents of one is not repeated in the error."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except (click.BadParameter, ValueError):
            from jetspark.client.connection.shown import looks_secret

            if looks_secret(os.fspath(value)):
                self.fail("expected the path of a file; this (not shown) is no path", param, ctx)
            raise


_FILE: Final = _NamedFile(exists=True, dir_okay=False)


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
    jwt: str | None = None
    seed: str | None = None
    tlsfirst: bool = False
    connection_name: str | None = None

    @contextmanager
    def jetstream(self) -> "Iterator[sync.JetStream]":
        """Connect, and close at the end; errors of the server become one clear line."""
        from jetspark import sync
        from jetspark.errors import Error

        arguments = self.arguments()
        arguments["error_callback"] = _ignore  # what the server refuses fails the call, too
        try:
            with sync.connect(self.server, **arguments) as client:
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
            name: getattr(self, option) or "" for name, option in OF_CONTEXT.items()
        }
        found = Context(**given, tls_first=self.tlsfirst).arguments()
        found["name"] = self.connection_name or "jetspark cli"
        found["timeout"] = self.timeout
        return found


def _ignore(_error: Exception) -> None:
    pass


# The fields of a context, and the equivalent options.
OF_CONTEXT: Final = {
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "creds",
    "nkey": "nkey",
    "user_jwt": "jwt",
    "user_seed": "seed",
    "ca": "tlsca",
    "cert": "tlscert",
    "key": "tlskey",
    "inbox_prefix": "inbox_prefix",
    "jetstream_domain": "js_domain",
    "jetstream_api_prefix": "js_api_prefix",
}
_WHO: Final = ("user", "password", "token", "creds", "nkey", "jwt", "seed")
_NOT_HERE: Final = ("socks_proxy", "nsc", "windows_cert_store")


def _settings(
    given: dict[str, Any], context: str | None, *, no_context: bool
) -> ConnectionSettings:
    """The options of a command, completed by those of a context."""
    from jetspark.client.contexts import read_context, selected_context
    from jetspark.errors import BadCredentials

    if context and no_context:
        raise click.UsageError("--context and --no-context exclude each other: give one of them")
    for option in ("jwt", "seed"):
        given[option] = _text_or_file(given[option])
    name = context or ("" if given["server"] or no_context else selected_context())
    if name:
        found = read_context(name)
        for field in _NOT_HERE:
            if getattr(found, field):
                raise BadCredentials(f"context {name!r}: {field} is not supported by this command")
        given["server"] = given["server"] or found.url
        given["tlsfirst"] = given["tlsfirst"] or found.tls_first
        named = any(given[option] for option in _WHO)
        for field, option in OF_CONTEXT.items():
            if not given[option] and not (named and option in _WHO):
                given[option] = getattr(found, field) or None
    return ConnectionSettings(**{**given, "server": given["server"] or DEFAULT_URL})


def _text_or_file(text: str | None) -> str | None:
    """A JWT or seed, or the content of the file that has it."""
    if text and os.path.exists(text):  # noqa: PTH110 - a JWT may be too long for a path
        with open(text, encoding="utf-8") as file:  # noqa: PTH123
            return file.read().strip()
    return text


class ConnectionOption(click.Option):
    """An option of the connection: every client command has it, and so has the root."""


_option = functools.partial(ConnectionOption, show_envvar=True)
CONNECTION_OPTIONS: Final[tuple[ConnectionOption, ...]] = (
    _option(
        ["-s", "--server"], envvar="NATS_URL", metavar="URL",
        show_default=f"the selected context, or {DEFAULT_URL}",
        help="Server, or several, separated by commas.",
    ),
    _option(["--context"], envvar="NATS_CONTEXT", help="Context of the nats command."),
    _option(["--no-context"], is_flag=True, help="Ignore the selected context."),
    _option(["--user"], envvar="NATS_USER", help="User name; without --password, a token."),
    _option(["--password"], envvar="NATS_PASSWORD", help="Password of the user."),
    _option(["--token"], envvar="NATS_TOKEN", help="Token."),
    _option(["--creds"], envvar="NATS_CREDS", type=_FILE, help="Credentials file."),
    _option(["--nkey"], envvar="NATS_NKEY", type=_FILE, help="File with an nkey seed."),
    _option(["--jwt"], envvar="NATS_JWT", help="JWT of the user, or a file that has it."),
    _option(["--seed"], envvar="NATS_SEED", help="Seed for --jwt, or a file that has it."),
    _option(
        ["--tlsca"], envvar="NATS_CA", type=_FILE, help="CA certificates to verify the server."
    ),
    _option(["--tlscert"], envvar="NATS_CERT", type=_FILE, help="Client certificate."),
    _option(["--tlskey"], envvar="NATS_KEY", type=_FILE, help="Key of the client certificate."),
    _option(["--tlsfirst"], is_flag=True, help="TLS before the server's greeting."),
    _option(["--inbox-prefix"], envvar="NATS_INBOX_PREFIX", help="Prefix of reply subjects."),
    _option(
        ["--timeout"], envvar="NATS_TIMEOUT", default="5s", show_default=True, type=SECONDS,
        metavar="DURATION", help="Timeout of each request: 2s, 500ms; a number is seconds.",
    ),
    _option(["--js-domain", "--domain"], help="JetStream domain."),
    _option(["--js-api-prefix"], help="Prefix of the JetStream API."),
    _option(["--connection-name"], help="Name of the connection, shown by the server."),
)  # fmt: skip


def take_options(given: dict[str, Any]) -> dict[str, Any]:
    """Take the connection's options out of those of a command, as they were given.

    An option of the command takes precedence over the same one before the command
    (`jetspark -s URL stream ls`), and both over the environment.
    """
    here = click.get_current_context()
    root = here.find_root()
    taken: dict[str, Any] = {}
    for option in CONNECTION_OPTIONS:
        name = option.name or ""
        taken[name] = given.pop(name)
        said = here.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not said and root.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            taken[name] = root.params[name]
    return taken


def settings_of(given: dict[str, Any]) -> ConnectionSettings:
    """Take the connection's options out of those of a command, completed by the context."""
    from jetspark.errors import BadCredentials

    taken = take_options(given)
    context, no_context = taken.pop("context"), taken.pop("no_context")
    try:
        return _settings(taken, context, no_context=no_context)
    except BadCredentials as error:
        raise click.ClickException(str(error)) from error


def declare_connection(described: _Command) -> _Command:
    """Add the options to a declaration whose function takes them itself: `take_options`."""
    decorated: Any = described
    decorated.__click_params__ = [
        *reversed(CONNECTION_OPTIONS), *getattr(decorated, "__click_params__", []),
    ]  # fmt: skip
    return decorated  # type: ignore[no-any-return]


def connection_options(command: _Command) -> _Command:
    """Add the options to a command; they are passed as one argument ``connection``."""

    @functools.wraps(command)
    def called(*args: Any, **kwargs: Any) -> Any:
        settings = settings_of(kwargs)
        return command(*args, connection=settings, **kwargs)

    return declare_connection(called)  # type: ignore[return-value]
