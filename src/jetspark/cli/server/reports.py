"""`server report`: connections, JetStream, streams, consumers, accounts, health."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from jetspark.cli.exit_codes import FAILED
from jetspark.cli.output import Column, Output
from jetspark.cli.server.querying import Answer, ask_servers
from jetspark.units import format_bytes

# How many items a server sends at most; its own default is 1024.
_PAGE: Final = 100_000
Item = dict[str, Any]


def _number(name: str) -> Column:
    return Column(name, number=True)


def _sorted(
    items: list[Item], sort: str, keys: dict[str, str], *, reverse: bool, top: int
) -> list[Item]:
    """The items in an order; numbers begin with the largest, which are what one looks for."""
    field = keys.get(sort, sort.replace("-", "_"))

    def order(item: Item) -> Any:
        value = item.get(field) or 0
        return -value if isinstance(value, int | float) else str(value)

    return sorted(items, key=order, reverse=reverse)[:top]


def _report(
    output: Output, title: str, items: list[Item], columns: tuple[Column | str, ...],
    row: Callable[[Item], tuple[str, ...]],
) -> None:  # fmt: skip
    if output.json:
        output.values(items)
    elif not items:
        output.say(f"{title}: nothing to report")
    else:
        output.table(title, columns, [row(item) for item in items])


def connections(
    output: Output, *, account: str, username: str, state: str, sort: str, top: int, reverse: bool,
    monitor: str, **given: Any,
) -> None:  # fmt: skip
    """Report on connections."""
    # Servers that have the field know the account only with the user names.
    options = {"state": state, "auth": True, "acc": account, "user": username, "limit": _PAGE}
    found: list[Item] = []
    for answer in ask_servers(given, monitor, "connz", options):
        found += [
            {"server": answer.server, **one}
            for one in answer.data.get("connections") or ()
            if (not account or one.get("account") in {account, None})
            and (not username or one.get("authorized_user") == username)
        ]
    show_connections(output, found, state=state, sort=sort, top=top, reverse=reverse)


def show_connections(
    output: Output, found: list[Item], *, state: str, sort: str, top: int, reverse: bool
) -> None:
    """Write a report on connections."""
    keys = {"subs": "subscriptions", "uptime": "start"}
    items = _sorted(found, sort, keys, reverse=reverse, top=top)
    columns: tuple[Column | str, ...] = (
        _number("CID"), "Name", *(Column(one, long=True) for one in (
            "Server", "IP", "Account", "User",
        )),
        Column("Uptime", long=True), _number("In Msgs"), _number("Out Msgs"), _number("In Bytes"),
        _number("Out Bytes"), _number("Subs"),
    )  # fmt: skip
    reasons = state != "open"
    if reasons:
        columns = (*columns, Column("Reason", long=True))
    _report(
        output, "Connections", items, columns,
        lambda one: (
            str(one.get("cid", "")), str(one.get("name") or ""), one["server"],
            f"{one.get('ip')}:{one.get('port')}", str(one.get("account") or ""),
            str(one.get("authorized_user") or ""), str(one.get("uptime") or ""),
            *(f"{one.get(name) or 0:,}" for name in ("in_msgs", "out_msgs")),
            *(format_bytes(one.get(name) or 0) for name in ("in_bytes", "out_bytes")),
            f"{one.get('subscriptions') or 0:,}",
            *((str(one.get("reason") or ""),) if reasons else ()),
        ),
    )  # fmt: skip


def jetstream(
    output: Output, *, account: str, sort: str, reverse: bool, monitor: str, **given: Any
) -> None:
    """Report on the use of JetStream."""
    found: list[Item] = []
    for answer in ask_servers(given, monitor, "jsz", {"acc": account}):
        data = answer.data
        found.append(
            {
                "server": answer.server,
                "cluster": (data.get("meta_cluster") or {}).get("name") or "",
                "disabled": bool(data.get("disabled")),
                **{name: data.get(name) or 0 for name in (
                    "streams", "consumers", "messages", "bytes", "memory", "storage",
                )},
                "api_requests": (data.get("api") or {}).get("total") or 0,
                "api_errors": (data.get("api") or {}).get("errors") or 0,
            }
        )  # fmt: skip
    keys = {
        "name": "server", "msgs": "messages", "mem": "memory", "file": "storage",
        "api": "api_requests", "err": "api_errors",
    }  # fmt: skip
    items = _sorted(found, sort, keys, reverse=reverse, top=len(found))
    columns = (
        "Server", "Cluster", _number("Streams"), _number("Consumers"), _number("Messages"),
        _number("Bytes"), Column("Memory", number=True, long=True), _number("File"),
        _number("API Req"), Column("API Err", number=True, long=True),
    )  # fmt: skip
    _report(
        output, "JetStream Summary", items, columns,
        lambda one: (
            f"{one['server']}{' (disabled)' if one['disabled'] else ''}", one["cluster"],
            *(f"{one[name]:,}" for name in ("streams", "consumers", "messages")),
            *(format_bytes(one[name]) for name in ("bytes", "memory", "storage")),
            *(f"{one[name]:,}" for name in ("api_requests", "api_errors")),
        ),
    )  # fmt: skip


def _details(answers: list[Answer], account: str) -> Iterator[tuple[str, str, Item]]:
    """Server, account and stream, for each stream; replicas of it count once."""
    seen: set[tuple[str, str]] = set()
    for answer in answers:
        for one in answer.data.get("account_details") or ():
            name = str(one.get("name") or one.get("id") or "")
            if account and account not in {name, one.get("id")}:
                continue
            for stream in one.get("stream_detail") or ():
                leader = (stream.get("cluster") or {}).get("leader")
                key = (name, str(stream.get("name")))
                if key in seen or (leader and leader != answer.server):
                    continue
                seen.add(key)
                yield answer.server, name, stream


def streams(
    output: Output, *, account: str, sort: str, top: int, reverse: bool, monitor: str, **given: Any
) -> None:
    """Report on streams."""
    options = {"accounts": True, "streams": True, "config": True, "limit": _PAGE}
    answers = ask_servers(given, monitor, "jsz", options)
    found = []
    for server, name, stream in _details(answers, account):
        state = stream.get("state") or {}
        found.append(
            {
                "server": server,
                "account": name,
                "name": stream.get("name"),
                "storage": (stream.get("config") or {}).get("storage") or "",
                "messages": state.get("messages") or 0,
                "bytes": state.get("bytes") or 0,
                "consumers": state.get("consumer_count") or 0,
                "first_seq": state.get("first_seq") or 0,
                "last_seq": state.get("last_seq") or 0,
            }
        )
    items = _sorted(found, sort, {"msgs": "messages"}, reverse=reverse, top=top)
    columns = (
        "Account", "Stream", Column("Server", long=True), Column("Storage", long=True),
        _number("Consumers"), _number("Messages"),
        _number("Bytes"), _number("First"), _number("Last"),
    )  # fmt: skip
    _report(
        output, "Streams", items, columns,
        lambda one: (
            one["account"], str(one["name"]), one["server"], one["storage"],
            f"{one['consumers']:,}", f"{one['messages']:,}", format_bytes(one["bytes"]),
            f"{one['first_seq']:,}", f"{one['last_seq']:,}",
        ),
    )  # fmt: skip


def consumers(
    output: Output, *, account: str, stream: str, sort: str, top: int, reverse: bool, monitor: str,
    **given: Any,
) -> None:  # fmt: skip
    """Report on consumers."""
    options = {
        "accounts": True,
        "streams": True,
        "consumers": True,
        "config": True,
        "limit": _PAGE,
    }
    answers = ask_servers(given, monitor, "jsz", options)
    found = []
    for server, name, one in _details(answers, account):
        if stream and one.get("name") != stream:
            continue
        found += [
            {
                "server": server,
                "account": name,
                "stream": one.get("name"),
                "name": consumer.get("name"),
                "pull": not (consumer.get("config") or {}).get("deliver_subject"),
                "pending": consumer.get("num_pending") or 0,
                "ack_pending": consumer.get("num_ack_pending") or 0,
                "redelivered": consumer.get("num_redelivered") or 0,
                "waiting": consumer.get("num_waiting") or 0,
            }
            for consumer in one.get("consumer_detail") or ()
        ]
    items = _sorted(found, sort, {}, reverse=reverse, top=top)
    columns = (
        "Account", "Stream", "Consumer", Column("Server", long=True), "Mode",
        _number("Unprocessed"), _number("Ack Pending"), _number("Redelivered"), _number("Waiting"),
    )  # fmt: skip
    _report(
        output, "Consumers", items, columns,
        lambda one: (
            one["account"], str(one["stream"]), str(one["name"]), one["server"],
            "Pull" if one["pull"] else "Push",
            *(f"{one[name]:,}" for name in ("pending", "ack_pending", "redelivered", "waiting")),
        ),
    )  # fmt: skip


def accounts(
    output: Output, *, account: str, sort: str, top: int, reverse: bool, monitor: str, **given: Any
) -> None:
    """Report on accounts, over all servers."""
    totals: dict[str, Item] = {}
    for answer in ask_servers(given, monitor, "accstatz"):
        for one in answer.data.get("account_statz") or ():
            name = str(one.get("acc") or "")
            if account and name != account:
                continue
            total = totals.setdefault(name, {"account": name})
            sent, received = one.get("sent") or {}, one.get("received") or {}
            for key, value in (
                ("conns", one.get("conns")), ("subs", one.get("num_subscriptions")),
                ("in_msgs", received.get("msgs")), ("in_bytes", received.get("bytes")),
                ("out_msgs", sent.get("msgs")), ("out_bytes", sent.get("bytes")),
            ):  # fmt: skip
                total[key] = total.get(key, 0) + (value or 0)
    items = _sorted(list(totals.values()), sort, {}, reverse=reverse, top=top)
    columns = (
        "Account", _number("Connections"), _number("In Msgs"), _number("Out Msgs"),
        _number("In Bytes"), _number("Out Bytes"), _number("Subs"),
    )  # fmt: skip
    _report(
        output, "Accounts", items, columns,
        lambda one: (
            one["account"], f"{one['conns']:,}", f"{one['in_msgs']:,}", f"{one['out_msgs']:,}",
            format_bytes(one["in_bytes"]), format_bytes(one["out_bytes"]), f"{one['subs']:,}",
        ),
    )  # fmt: skip


def health(output: Output, *, monitor: str, **given: Any) -> None:
    """Report on the health of servers."""
    found = [
        {
            "server": answer.server,
            "status": str(answer.data.get("status") or "unknown"),
            "error": str(answer.data.get("error") or ""),
        }
        for answer in ask_servers(given, monitor, "healthz")
    ]
    _report(
        output, "Health Report", found, ("Server", "Status", "Error"),
        lambda one: (one["server"], one["status"], one["error"]),
    )  # fmt: skip
    if any(one["status"] != "ok" for one in found):
        raise click.exceptions.Exit(FAILED)
