"""The options of ``connect``, and where to connect if none are given.

The defaults are NATS_URL, or a context of the ``nats`` command (ADR-21).

A context is a file ``nats/context/<name>.json`` below XDG_CONFIG_HOME (or ``~/.config``);
``nats/context.txt`` holds the name of the selected one (``nats context select``).
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Unpack

import msgspec

from jetspark.client.arguments import closest
from jetspark.client.connect_arguments import ConnectArguments
from jetspark.client.connection.server_pool import DEFAULT_URL, parse_servers
from jetspark.client.connection.shown import shown_path
from jetspark.client.connection.tls import TlsFiles
from jetspark.client.options import ClientOptions
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import BadCredentials

# The options that identify a user: a context's are ignored if the caller gives any of them.
_WHO: Final = (
    "user",
    "password",
    "token",
    "credentials",
    "nkey_seed",
    "nkey",
    "jwt_callback",
    "signature_callback",
)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a context that a client needs; paths may begin with ``~``."""

    url: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    nkey: str = ""
    user_jwt: str = ""
    user_seed: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    tls_first: bool = False
    inbox_prefix: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    socks_proxy: str = ""
    nsc: str = ""
    windows_cert_store: str = ""

    def arguments(self) -> ConnectArguments:
        """The arguments for ``connect``; BadCredentials if a setting is not supported."""
        for name, instead in (
            ("socks_proxy", "connect without a proxy, or over WebSocket"),
            ("nsc", "write a credentials file with `nsc generate creds` and name it as creds"),
            ("windows_cert_store", "name files as cert, key and ca"),
        ):
            if getattr(self, name):
                raise BadCredentials(f"{name} is not supported: {instead}")
        found = self._who()
        if self.cert or self.key or self.ca:
            found["tls"] = TlsFiles(
                ca_file=_path(self.ca),
                certificate_file=_path(self.cert),
                key_file=_path(self.key),
            )
        if self.tls_first:
            found["tls_first"] = True
        if self.inbox_prefix:
            found["inbox_prefix"] = self.inbox_prefix
        if self.jetstream_domain:
            found["jetstream_domain"] = self.jetstream_domain
        if self.jetstream_api_prefix:
            found["jetstream_prefix"] = self.jetstream_api_prefix
        return found

    def _who(self) -> ConnectArguments:
        """The credentials that the ``nats`` command would use, if several are given."""
        if self.user and not self.password:
            return {"token": self.token or self.user}  # a user without a password is a token
        if self.user:
            return {"user": self.user, "password": self.password}
        if self.creds:
            return {"credentials": Path(_path(self.creds))}
        if self.nkey:
            return {"nkey_seed": _read_seed(_path(self.nkey))}
        if self.user_jwt:
            if not self.user_seed:
                raise BadCredentials("user_jwt without user_seed: both are needed to sign in")
            return {"credentials": _credentials_text(self.user_jwt, self.user_seed)}
        if self.user_seed:
            return {"nkey_seed": self.user_seed}
        return {"token": self.token} if self.token else {}

    def __repr__(self) -> str:
        # Passwords, tokens and seeds stay out of logs; a URL may carry them too.
        return "Context(...)"


def client_options(
    servers: str | Sequence[str] | None = None,
    *,
    context: str = "",
    **arguments: Unpack[ConnectArguments],
) -> ClientOptions:
    """The options of ``connect`` as a struct to keep, compare and pickle.

    A context is read by this call.
    """
    known = ConnectArguments.__annotations__
    for name in arguments:
        if name not in known:
            raise TypeError(f"connect has no {name!r}{closest(name, known)}")
    if servers is None and not context:
        servers = os.environ.get("NATS_URL") or None
        context = "" if servers is not None else selected_context()
    if context:
        found = read_context(context)
        servers = servers if servers is not None else found.url or None
        arguments = _with_context(context, found, arguments)
    return ClientOptions(
        servers=tuple(parse_servers(DEFAULT_URL if servers is None else servers)),
        **_in_seconds(arguments),
    )


def _in_seconds(given: ConnectArguments) -> dict[str, Any]:
    """The options with all durations in seconds."""
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in given.items()
    }


def _with_context(name: str, found: Context, given: ConnectArguments) -> ConnectArguments:
    """The options of a context, overridden by those of the caller."""
    try:
        merged = found.arguments()
    except BadCredentials as error:
        raise BadCredentials(f"context {name!r} ({context_file(name)}): {error}") from None
    if any(given.get(each) for each in _WHO):
        for each in _WHO:
            merged.pop(each, None)  # type: ignore[misc]  # each of them is a key of it
    merged.update(given)
    return merged


def selected_context() -> str:
    """The name of the selected context; empty if none is selected."""
    try:
        return (context_folder() / "context.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadCredentials(
            f"the selected context cannot be read from {context_folder() / 'context.txt'}: {error}"
        ) from None


def read_context(name: str) -> Context:
    """Read a context by name; BadCredentials if it does not exist or cannot be read."""
    if not isinstance(name, str):
        raise TypeError(f"context must be a name (str), not {type(name).__name__}")
    file = context_file(name)
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        known = ", ".join(sorted(repr(path.stem) for path in file.parent.glob("*.json")))
        raise BadCredentials(
            f"context {name!r} does not exist: no file {file}; "
            + (f"existing contexts: {known}" if known else "create it with `nats context add`")
        ) from None
    except OSError as error:
        raise BadCredentials(
            f"context {name!r}: {file} cannot be read: {error.strerror}"
        ) from None
    try:
        return msgspec.json.decode(text, type=Context)
    except UNREADABLE as error:
        # The error names the field or the byte, and shows no value.
        raise BadCredentials(f"context {name!r}: {file} is not a context: {error}") from None


def context_folder() -> Path:
    """The folder of the ``nats`` command: contexts, and the names of the selected ones."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if home else Path("~/.config").expanduser()) / "nats"


def context_file(name: str) -> Path:
    """The file of a context; BadCredentials if that is no valid name."""
    if not name or ".." in name or "/" in name or os.sep in name:
        raise BadCredentials(f"context {name!r}: expected a name, not a path")
    return context_folder() / "context" / f"{name}.json"


def _path(text: str) -> str:
    return str(Path(text).expanduser()) if text else ""


def _read_seed(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadCredentials(
            f"the nkey seed file {shown_path(path)} cannot be read: {reason}"
        ) from None
    seeds = [line.strip() for line in lines if line.strip().startswith("S")]
    if not seeds:
        raise BadCredentials(f"the file {path} contains no nkey seed (S...)")
    return seeds[0]


def _credentials_text(jwt: str, seed: str) -> str:
    """A user's JWT and seed in the format of a credentials file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
