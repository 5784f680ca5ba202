"""`account report`: connections of the account, and what it does on each server."""

import re
from typing import Any, Final

import click

from jetspark.cli.output import Column
from jetspark.cli.server.querying import Answer, ask_about_account
from jetspark.cli.server.reports import show_connections
from jetspark.cli.session import Session
from jetspark.subjects.match import overlaps
from jetspark.units import format_bytes

_PAGE: Final = 100_000


async def account_connections(
    session: Session, *, subject: str, username: str, state: str, closed_reason: str, sort: str,
    top: int, reverse: bool, monitor: str,
) -> None:  # fmt: skip
    """Report on the connections of the account."""
    try:
        reason = re.compile(closed_reason, re.IGNORECASE)
    except re.error as error:
        raise click.UsageError(
            f"--closed-reason {closed_reason!r} is no expression: {error}"
        ) from None
    options = {"state": state, "auth": True, "subs": bool(subject), "limit": _PAGE}
    answers = await _ask(session, monitor, "connz", options)
    found = [
        {"server": answer.server, **one}
        for answer in answers
        for one in answer.data.get("connections") or ()
    ]
    own = _own_account(session, found)
    found = [
        one
        for one in found
        if (own is None or one.get("account") in {own, None})
        and (not username or one.get("authorized_user") == username)
        and (not closed_reason or reason.search(str(one.get("reason") or "")))
        and (not subject or _listens(one, subject))
    ]
    show_connections(session.output, found, state=state, sort=sort, top=top, reverse=reverse)


async def account_statistics(session: Session, *, monitor: str) -> None:
    """Report on what the account does on each server."""
    own: str | None = None
    if not session.client.server_info.acc_is_sys:
        connections = await _ask(session, monitor, "connz", {"auth": True, "limit": _PAGE})
        listed = [one for answer in connections for one in answer.data.get("connections") or ()]
        own = _own_account(session, listed)
    found = [
        {"server": answer.server, **one}
        for answer in await _ask(session, monitor, "accstatz", {})
        for one in answer.data.get("account_statz") or ()
        if own is None or one.get("acc") == own
    ]
    output = session.output
    if output.json:
        output.values(found)
        return
    if not found:
        output.say("Server Statistics: nothing to report")
        return
    names = ("Connections", "Subscriptions", "Leafnodes", "Sent Bytes", "Sent Messages",
             "Received Bytes", "Received Messages", "Slow Consumers")  # fmt: skip
    output.table(
        "Server Statistics",
        ("Server", "Account", *(Column(name, number=True) for name in names)),
        [(one["server"], str(one.get("acc") or ""), *_figures(one)) for one in found],
    )


async def _ask(
    session: Session, monitor: str, kind: str, options: dict[str, object]
) -> list[Answer]:
    return await ask_about_account(
        session.client, monitor, kind, options, session.settings.timeout
    )


def _own_account(session: Session, connections: list[dict[str, Any]]) -> str | None:
    """The account of this connection; None if servers do not say it, or list no other."""
    own = session.client.server_info.client_id
    for one in connections:
        if one.get("cid") == own and one.get("account"):
            return str(one["account"])
    return None


def _listens(connection: dict[str, Any], subject: str) -> bool:
    return any(
        overlaps(str(one).encode(), subject.encode())
        for one in connection.get("subscriptions_list") or ()
    )


def _figures(one: dict[str, Any]) -> tuple[str, ...]:
    sent, received = one.get("sent") or {}, one.get("received") or {}
    return (
        f"{one.get('conns') or 0:,}",
        f"{one.get('num_subscriptions') or 0:,}",
        f"{one.get('leafnodes') or 0:,}",
        format_bytes(sent.get("bytes") or 0),
        f"{sent.get('msgs') or 0:,}",
        format_bytes(received.get("bytes") or 0),
        f"{received.get('msgs') or 0:,}",
        f"{one.get('slow_consumers') or 0:,}",
    )
