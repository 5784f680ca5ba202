"""Error codes: what the server says, and what the client raises."""

import re
from typing import Any

import click

import jetspark.errors
from jetspark.cli.output import Column, Output
from jetspark.errors.base import ApiError, api_error
from jetspark.errors.codes import ErrCode


def _raised(code: ErrCode) -> type[ApiError]:
    """The exception of the client."""
    return type(api_error(code.code, int(code), code.text))


def _fields(code: ErrCode) -> dict[str, Any]:
    return {
        "err_code": int(code),
        "code": code.code,
        "name": code.name,
        "description": code.text,
        "exception": f"{jetspark.errors.__name__}.{_raised(code).__name__}",
    }


def list_codes(output: Output, *, match: str, sort: str, reverse: bool) -> None:
    """List error codes."""
    try:
        wanted = re.compile(match, re.IGNORECASE)
    except re.error as error:
        raise click.UsageError(f"{match!r} is no regular expression: {error}") from None
    found = [code for code in ErrCode if wanted.search(f"{int(code)} {code.name} {code.text}")]
    orders: dict[str, Any] = {"code": int, "http": lambda code: (code.code, int(code))}
    found.sort(key=orders.get(sort, lambda code: code.text), reverse=reverse)
    if output.json:
        output.values(map(_fields, found))
    elif not found:
        output.say(f"No error code matches {match!r}; `jetspark errors ls` lists all")
    else:
        rows = [(str(int(code)), str(code.code), code.text, code.name) for code in found]
        columns = (
            Column("NATS Code", number=True), Column("HTTP Error Code", number=True),
            "Description", "Name",
        )  # fmt: skip
        output.table("NATS Errors", columns, rows)


def show_code(output: Output, *, code: int) -> None:
    """Explain an error code."""
    try:
        found = ErrCode(code)
    except ValueError:
        raise click.ClickException(
            f"error code {code} is unknown: they are numbers from {min(ErrCode):d} to "
            f"{max(ErrCode):d}; `jetspark errors ls TEXT` searches them"
        ) from None
    if output.json:
        output.value(_fields(found))
        return
    raised = _raised(found)
    output.fields(
        f"NATS Error Code: {code}",
        [
            (
                "",
                [
                    ("Description", found.text),
                    ("HTTP Code", found.code),
                    ("Name", found.name),
                    ("Exception", f"{jetspark.errors.__name__}.{raised.__name__}"),
                    ("Meaning", (raised.__doc__ or "").splitlines()[0]),
                ],
            )
        ],
    )
