"""Errors in one line, and suggestions for names that do not exist."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

import click

from jetspark.errors import AuthorizationFailed, BadCredentials, ConnectFailed, Error


def not_found(kind: str, name: str, known: list[str], lister: str) -> click.ClickException:
    """The error for a name that does not exist."""
    close = get_close_matches(name, known, cutoff=0.6) or [
        one for one in known if one.lower() == name.lower()
    ]
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return click.ClickException(
        f"{kind} {name} does not exist: {meant}`{lister}` lists those that do"
    )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of the server, and values that the client refuses, become one line."""
    try:
        yield
    except (BadCredentials, AuthorizationFailed) as error:
        raise click.ClickException(_text(error)) from error
    except ConnectFailed as error:
        raise click.ClickException(f"{_text(error)}{_advice(error)}") from error
    except (Error, ValueError) as error:
        raise click.ClickException(_text(error)) from error


def _advice(error: ConnectFailed) -> str:
    """What to do about it; nothing if a server is running there and the error says enough."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "; --tlsca FILE names the authority that signed it"
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError):
            return (
                "; start a server with `jetspark serve -js`, "
                "or name one with --server or --context"
            )
        cause = cause.__cause__
    return ""


def _text(error: Exception) -> str:
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{error}{notes}"
