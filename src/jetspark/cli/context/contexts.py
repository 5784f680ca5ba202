"""Contexts as files: those of the `nats` command, which reads what is written here."""

import os
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from jetspark.cli.confirm import confirm
from jetspark.cli.connection import OF_CONTEXT, take_options
from jetspark.cli.output import Output
from jetspark.cli.refusals import not_found, plain_errors
from jetspark.client.contexts import (
    Context,
    context_file,
    context_folder,
    read_context,
    selected_context,
)
from jetspark.errors import BadCredentials, Error

_SELECTED: Final = "context.txt"
_PREVIOUS: Final = "previous-context.txt"
_SECRET: Final = ("password", "token", "user_seed", "user_jwt")
_FILES: Final = ("creds", "nkey", "cert", "key", "ca")
# Every field that is shown, with natscli's word for it.
_WORDS: Final = {
    "description": "Description", "url": "Server URLs", "socks_proxy": "SOCKS5 Proxy",
    "user": "Username", "password": "Password", "token": "Token", "creds": "Credentials",
    "nkey": "NKey", "user_jwt": "User JWT", "user_seed": "User Seed", "cert": "Certificate",
    "key": "Key", "ca": "CA", "tls_first": "TLS First", "nsc": "NSC Lookup",
    "jetstream_api_prefix": "JS API Prefix", "jetstream_event_prefix": "JS Event Prefix",
    "jetstream_domain": "JS Domain", "inbox_prefix": "Inbox Prefix",
    "color_scheme": "Color Scheme",
}  # fmt: skip


def known_contexts() -> list[str]:
    """The names of all contexts."""
    return sorted(path.stem for path in (context_folder() / "context").glob("*.json"))


def _read(name: str) -> dict[str, Any]:
    """All fields of a context, also those that only natscli knows."""
    with plain_errors():
        file = context_file(name)
        if not file.exists():
            raise not_found("context", name, known_contexts(), "jetspark context ls")
        read_context(name)
        found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        return found


def _write(file: Path, data: bytes) -> None:
    """Replace a file as a whole; only the user may read it, because it may hold secrets."""
    (context_folder() / "context").mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _save(name: str, fields: dict[str, Any]) -> None:
    kept = {field: value for field, value in fields.items() if value not in ("", None, False)}
    encoded = msgspec.json.format(msgspec.json.encode({"description": "", **kept}), indent=2)
    _write(context_file(name), encoded + b"\n")


def _select(name: str) -> str:
    """Select a context, or none; returns the name of the one before."""
    before = selected_context()
    if before and before != name:
        _write(context_folder() / _PREVIOUS, before.encode())
    if name:
        _write(context_folder() / _SELECTED, name.encode())
    else:
        (context_folder() / _SELECTED).unlink(missing_ok=True)
    return before


def list_contexts(output: Output, *, names: bool) -> None:
    """List the contexts."""
    with plain_errors():
        selected = selected_context()
    known = known_contexts()
    if names and not output.json:
        for name in known:
            output.line(name)
        return
    if names:
        output.values(known)
        return
    found = []
    for name in known:
        try:
            found.append((name, _read(name)))
        except click.ClickException as error:
            output.say(f"Could not load: {error.message}")
    if output.json:
        output.values(_as_json(name, fields, selected) for name, fields in found)
    elif not found:
        output.say("No known contexts; save one with `jetspark context add`")
    else:
        rows = [
            (
                f"{name}*" if name == selected else name,
                str(fields.get("description", "")),
                str(fields.get("url", "")),
            )
            for name, fields in found
        ]
        output.table("Known Contexts", ("Name", "Description", "Server URLs"), rows)


def _as_json(name: str, fields: dict[str, Any], selected: str) -> dict[str, Any]:
    return {"name": name, "selected": name == selected, **fields}


def show_context(output: Output, *, name: str | None, connect: bool) -> None:
    """Show a context."""
    with plain_errors():
        name = name or selected_context()
    if not name:
        raise click.UsageError(
            "no context is selected: name one, or select one with `jetspark context select`"
        )
    if _show(output, name, connecting=connect):
        raise click.exceptions.Exit(1)


def _show(output: Output, name: str, *, connecting: bool) -> list[str]:
    """Show a context; returns what is wrong with it."""
    fields = _read(name)
    problems = _problems(fields)
    connected = ""
    if connecting:
        connected = _connection_problem(name)
        if connected:
            problems.append(connected)
    if output.json:
        with plain_errors():
            whole = _as_json(name, fields, selected_context())
        output.value({**whole, "path": str(context_file(name)), "problems": problems})
        return problems
    shown: list[tuple[str, object]] = []
    for field, word in _WORDS.items():
        value = fields.get(field)
        if not value:
            continue
        if field in _SECRET:
            value = "*********"
        elif field in _FILES:
            value = f"{value} ({'OK' if _exists(value) else output.style('ERROR', 'red')})"
        shown.append((word, value))
    shown.append(("Path", str(context_file(name))))
    if connecting:
        shown.append(("Connection", connected or "OK"))
    output.fields(f'NATS Configuration Context "{name}"', [("", shown)])
    overrides = [one for one in ("NATS_URL", "NATS_CONTEXT", "NATS_USER") if os.environ.get(one)]
    if overrides:
        output.say(f"The environment takes precedence: {', '.join(overrides)}")
    return problems


def _exists(text: str) -> bool:
    return Path(text).expanduser().is_file()


def _problems(fields: dict[str, Any]) -> list[str]:
    return [
        f"{field}: {fields[field]} does not exist"
        for field in _FILES
        if fields.get(field) and not _exists(fields[field])
    ]


def _connection_problem(name: str) -> str:
    """Why a context cannot connect; empty if it can."""
    import asyncio

    from jetspark.client.client import connect

    async def attempt() -> None:
        async with await connect(context=name, allow_reconnect=False):
            pass

    try:
        asyncio.run(attempt())
    except (Error, OSError) as error:
        return str(error)
    return ""


def add_context(
    output: Output, *, name: str, description: str | None, select: bool, **given: Any
) -> None:
    """Save the options of the connection."""
    taken = take_options(given)
    fields: dict[str, Any] = {}
    with plain_errors():
        if context_file(name).exists():
            fields = _read(name)
        elif taken["context"]:
            fields = _read(taken["context"])
    if taken["user"] and not taken["password"]:
        # natscli: a user without a password is a token.
        taken["token"], taken["user"] = taken["token"] or taken["user"], None
    for field, option in OF_CONTEXT.items():
        value = taken[option]
        if value:
            # The context is used in other folders too.
            fields[field] = str(Path(value).absolute()) if field in _FILES else value
    if taken["server"]:
        fields["url"] = taken["server"]
    if taken["tlsfirst"]:
        fields["tls_first"] = True
    if description is not None:
        fields["description"] = description
    fields.setdefault("url", "nats://127.0.0.1:4222")
    _check(fields)
    _save(name, fields)
    _saved(output, name, select=select)


def _check(fields: dict[str, Any]) -> None:
    """Refuse what no client could use."""
    known = {field: fields[field] for field in Context.__struct_fields__ if field in fields}
    with plain_errors():
        msgspec.convert(known, Context).arguments()


def copy_context(
    output: Output, *, source: str, name: str, description: str | None, select: bool
) -> None:
    """Save a context under another name."""
    fields = _read(source)
    with plain_errors():
        if context_file(name).exists():
            raise BadCredentials(f"context {name!r} exists: choose another name, or remove it")
    if description is not None:
        fields["description"] = description
    _save(name, fields)
    _saved(output, name, select=select)


def _saved(output: Output, name: str, *, select: bool) -> None:
    if select:
        _select(name)
    if not output.json:
        output.say(f"Context {name} was saved{' and selected' if select else ''}")
    _show(output, name, connecting=False)


def select_context(output: Output, *, name: str) -> None:
    """Select a context."""
    _read(name)
    with plain_errors():
        before = _select(name)
    output.done(f"Selected context {name}", selected=name, previous=before)


def unselect_context(output: Output) -> None:
    """Select no context."""
    with plain_errors():
        before = _select("")
    text = f'Unselected the "{before}" context' if before else "No context is selected"
    output.done(text, selected="", previous=before)


def select_previous(output: Output) -> None:
    """Select the context that was selected before."""
    try:
        name = (context_folder() / _PREVIOUS).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        name = ""
    if not name:
        raise click.ClickException("no context was selected before: `jetspark context ls`")
    select_context(output, name=name)


def validate_contexts(output: Output, *, name: str | None, connect: bool) -> None:
    """Check contexts."""
    wrong: dict[str, list[str]] = {}
    names = [name] if name else known_contexts()
    for one in names:
        try:
            problems = _problems(_read(one))
            if connect and (problem := _connection_problem(one)):
                problems.append(problem)
        except click.ClickException as error:
            problems = [error.message]
        if problems:
            wrong[one] = problems
    if output.json:
        output.values({"name": one, "problems": wrong.get(one, [])} for one in names)
    for one in () if output.json else names:
        output.line(f"{one}: {'; '.join(wrong[one]) if one in wrong else 'OK'}")
    if wrong:
        raise click.exceptions.Exit(1)


def remove_context(output: Output, *, name: str, force: bool) -> None:
    """Delete a context."""
    with plain_errors():
        file = context_file(name)
        selected = selected_context() == name
    if not file.exists():
        raise not_found("context", name, known_contexts(), "jetspark context ls")
    if selected and not force:
        raise click.ClickException(
            f"context {name} is selected: select another one, `jetspark context unselect`, or "
            "use --force"
        )
    confirm(f"Really delete context {name}?", force=force)
    if selected:
        _select("")
    file.unlink()
    output.done(f"Context {name} was deleted", context=name, removed=True)
