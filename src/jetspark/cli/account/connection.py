"""`account info` and `rtt`."""

from typing import Any

import msgspec

from jetspark.api.account import AccountInfo, Tier
from jetspark.api.base import Timestamp
from jetspark.cli.output import Fields
from jetspark.cli.quantities import show_duration, show_limit, show_seconds
from jetspark.cli.session import Session
from jetspark.client.client import Client, connect
from jetspark.clock import SystemClock
from jetspark.errors import Error, JetStreamNotEnabled, NoResponders, RequestTimeout
from jetspark.units import format_bytes, format_rfc3339

_USER_INFO = "$SYS.REQ.USER.INFO"
_SECOND = 1_000_000_000


async def account_info(session: Session) -> None:
    """Show the connection and its account."""
    client = session.client
    server = client.server_info
    user = await _user(client, session.settings.timeout)
    rtt = await client.rtt()
    try:
        usage: AccountInfo | None = await session.jetstream.account_info()
        problem = ""
    except (JetStreamNotEnabled, NoResponders):
        usage, problem = None, "JetStream is not enabled for this account"
    except RequestTimeout as error:
        usage, problem = None, str(error)
    output = session.output
    if output.json:
        output.value(
            {
                "user": user,
                "client_id": server.client_id,
                "client_ip": server.client_ip,
                "rtt": round(rtt * _SECOND),
                "max_payload": client.max_payload,
                "connected_url": client.connected_server,
                "server": msgspec.to_builtins(server),
                "jetstream": usage,
            }
        )
        return
    permissions = user.get("permissions") or {}
    sections: list[tuple[str, Fields]] = [
        (
            "",
            [
                ("User", user.get("user", "")),
                ("Account", user.get("account", "")),
                ("Expires", _expiry(user)),
                ("Client ID", server.client_id),
                ("Client IP", server.client_ip),
                ("RTT", show_seconds(rtt)),
                ("Headers Supported", "true" if server.headers else "false"),
                ("Maximum Payload", format_bytes(client.max_payload)),
                ("Connected Cluster", server.cluster),
                ("Connected URL", client.connected_server),
                ("Connected Server ID", server.server_id),
                ("Connected Server Version", server.version),
                ("Connected Server Name", server.server_name),
                ("TLS Required", "true" if server.tls_required else "no"),
            ],
        ),
        ("Publish Permissions", _permissions(permissions.get("publish"))),
        ("Subscribe Permissions", _permissions(permissions.get("subscribe"))),
    ]
    if usage is not None:
        domain = f" for domain {usage.domain}" if usage.domain else ""
        sections.append((f"JetStream Account Information{domain}", _usage_fields(usage)))
        for name, tier in sorted((usage.tiers or {}).items()):
            sections.append((f"Tier {name}", _tier_fields(tier)))
    output.fields("Account Information", sections)
    if problem:
        output.line()
        output.line(f"JetStream: {problem}")


async def _user(client: Client, timeout: float) -> dict[str, Any]:
    """What the server knows about this user; nothing if it does not say."""
    try:
        answer = await client.request(_USER_INFO, b"", timeout=min(timeout, 1.0))
        found = msgspec.json.decode(answer.data)
    except (Error, msgspec.MsgspecError):
        return {}
    data = found.get("data") if isinstance(found, dict) else None
    return data if isinstance(data, dict) else {}


def _expiry(user: dict[str, Any]) -> str:
    if not user:
        return ""
    left = user.get("expires") or 0
    return f"in {show_duration(left)}" if left else "never"


def _permissions(found: dict[str, Any] | None) -> Fields:
    return (
        [] if not found else [(word.capitalize(), found.get(word)) for word in ("allow", "deny")]
    )


def _usage_fields(usage: AccountInfo) -> Fields:
    return [
        *_tier_fields(usage),
        ("API Level", usage.api.level),
        ("API Requests", f"{usage.api.total:,}"),
        ("API Errors", f"{usage.api.errors:,}"),
    ]


def _tier_fields(tier: Tier) -> Fields:
    limits = tier.limits
    memory, storage = limits.memory_max_stream_bytes, limits.storage_max_stream_bytes
    return [
        ("Stream Requires Max Bytes Set", "true" if limits.max_bytes_required else "false"),
        ("Consumer Maximum Ack Pending", show_limit(limits.max_ack_pending)),
        ("Memory", _used(tier.memory, limits.max_memory, tier.reserved_memory)),
        ("Memory Per Stream", show_limit(memory, format_bytes(memory))),
        ("Storage", _used(tier.storage, limits.max_storage, tier.reserved_storage)),
        ("Storage Per Stream", show_limit(storage, format_bytes(storage))),
        ("Streams", f"{tier.streams:,} of {show_limit(limits.max_streams)}"),
        (
            "Consumers",
            f"{tier.consumers:,}, maximum {show_limit(limits.max_consumers)} per stream",
        ),
    ]  # fmt: skip


def _used(used: int, limit: int, reserved: int) -> str:
    text = f"{format_bytes(used)} of {show_limit(limit, format_bytes(limit))}"
    return f"{text} ({format_bytes(reserved)} reserved)" if reserved else text


async def round_trips(session: Session, *, iterations: int) -> None:
    """Measure the round-trip time to each server."""
    output = session.output
    results: list[dict[str, Any]] = []
    failed: Error | None = None
    for url in session.settings.server.split(","):
        when = SystemClock().now_ns()
        try:
            rtt, address = await _measured(session, url.strip(), iterations)
        except Error as error:
            failed = error
            output.say(f"{url}: {error}")
            continue
        results.append(
            {
                "url": url.strip(),
                "address": address,
                "time": format_rfc3339(Timestamp(when)),
                "rtt": round(rtt * _SECOND),
            }
        )
    if output.json:
        output.values(results)
    for one in () if output.json else results:
        output.line(f"{one['url']}:\n\n   {one['address']}: {show_duration(one['rtt'])}\n")
    if failed is not None:
        raise failed


async def _measured(session: Session, url: str, iterations: int) -> tuple[float, str]:
    """The mean round-trip time to one server, and its address."""
    arguments = session.settings.arguments()
    # Only this one: no other server of its cluster may answer for it.
    arguments["ignore_discovered"] = True
    async with await connect(url, **arguments) as client:
        times = [await client.rtt() for _ in range(iterations)]
        return sum(times) / iterations, client.connected_server
