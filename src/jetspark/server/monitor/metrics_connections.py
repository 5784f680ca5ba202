"""``gnatsd_connz_*``: all connections together, and each of them on request."""

from typing import Final

from jetspark.server.monitor.connection_view import ConnectionView
from jetspark.server.monitor.connz import GLOBAL_ACCOUNT, LIMIT_DEFAULT
from jetspark.server.monitor.exposition import COUNTER, GAUGE, Exposition, format_labels
from jetspark.server.monitor.metrics_options import MetricsOptions
from jetspark.server.monitor.status import ServerStatus
from jetspark.server.pacing import paced

_NS_PER_MS: Final = 1_000_000
_NS_PER_US: Final = 1_000
_KINDS: Final = {
    "pending_bytes": GAUGE,
    "subscriptions": GAUGE,
    "in_bytes": COUNTER,
    "out_bytes": COUNTER,
    "in_msgs": COUNTER,
    "out_msgs": COUNTER,
}


async def add_connections(out: Exposition, view: ServerStatus, options: MetricsOptions) -> None:
    """Add the sums, and the series of each connection if requested."""
    server_id = view.identity.server_id
    now_ns = view.now_ns()
    sums = dict.fromkeys(_KINDS, 0)
    count = 0
    async for connection in paced(view.connections()):
        count += 1
        for name, value in _amounts(connection).items():
            sums[name] += value
        if options.connections and options.wants_account(connection.account):
            _add_connection(out, view, connection, server_id, now_ns)
    labels = format_labels((("server_id", server_id),))
    for name, value in sums.items():
        out.family(f"gnatsd_connz_{name}", name, _KINDS[name]).add(labels, value)
    for name, value in (
        ("num_connections", count),
        ("total", count),
        ("offset", 0),
        ("limit", LIMIT_DEFAULT),
    ):
        out.family(f"gnatsd_connz_{name}", name).add(labels, value)


def _amounts(connection: ConnectionView) -> dict[str, int]:
    traffic = connection.traffic
    return {
        "pending_bytes": connection.pending_bytes,
        "subscriptions": connection.subscription_count,
        "in_bytes": traffic.in_bytes,
        "out_bytes": traffic.out_bytes,
        "in_msgs": traffic.in_msgs,
        "out_msgs": traffic.out_msgs,
    }


def _add_connection(
    out: Exposition, view: ServerStatus, connection: ConnectionView, server_id: str, now_ns: int
) -> None:
    labels = _labels(connection, server_id)
    start_ns, last_ns = view.date(connection.start_ns), view.date(connection.last_ns)
    for name, value in _amounts(connection).items():
        out.family(f"gnatsd_connz_{name}", name, _KINDS[name]).add(labels, value)
    for name, meaning, value in (
        ("start", "epoch milliseconds at which it was accepted", start_ns // _NS_PER_MS),
        (
            "last_activity",
            "epoch milliseconds of the last activity",
            last_ns // _NS_PER_MS,
        ),
        ("rtt", "round trip in microseconds", connection.rtt_ns // _NS_PER_US),
        ("uptime", "age in milliseconds", (now_ns - connection.start_ns) // _NS_PER_MS),
        ("idle", "idle time in milliseconds", (now_ns - connection.last_ns) // _NS_PER_MS),
    ):
        out.family(f"gnatsd_connz_{name}", meaning).add(labels, value)


def _labels(connection: ConnectionView, server_id: str) -> str:
    details = connection.details()
    account = "" if details.account == GLOBAL_ACCOUNT else details.account
    tls = details.tls
    return format_labels(
        (
            ("server_id", server_id),
            ("cid", str(connection.cid)),
            ("kind", details.kind),
            ("type", details.type),
            ("ip", details.ip),
            ("port", str(details.port)),
            ("name", details.name),
            ("name_tag", details.name_tag or details.account),
            ("account", account),
            ("account_id", account),
            ("lang", details.lang),
            ("version", details.version),
            ("tls_version", tls.version if tls else ""),
            ("tls_cipher_suite", tls.cipher_suite if tls else ""),
        )
    )
