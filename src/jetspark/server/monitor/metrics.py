"""``/metrics``: Prometheus metrics, with the names that Grafana dashboards for NATS use.

Names, labels and types are those of prometheus-nats-exporter, which reads ``/varz`` and the others
and flattens the answers; the same is done here with the same answers, so that a field has the same
name in both. ``server_id`` is the server's own id. Our own metrics start with ``jetspark_``
(`metrics_own`).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jetspark.api.base import encode
from jetspark.server.monitor.accountz import AccountStat, accstatz
from jetspark.server.monitor.exposition import Exposition, format_labels
from jetspark.server.monitor.healthz import OK, HealthzOptions, healthz
from jetspark.server.monitor.metrics_connections import add_connections
from jetspark.server.monitor.metrics_copies import add_copies
from jetspark.server.monitor.metrics_jetstream import add_jetstream
from jetspark.server.monitor.metrics_options import MetricsOptions
from jetspark.server.monitor.metrics_own import add_own
from jetspark.server.monitor.process import ProcessUsage
from jetspark.server.monitor.status import AccountStatus, ServerStatus
from jetspark.server.monitor.subsz import SubszOptions, subsz
from jetspark.server.monitor.topology import leafz, routez
from jetspark.server.monitor.varz import varz
from jetspark.server.pacing import paced
from jetspark.units import parse_rfc3339

# Strings that become a series of value 1 with the string as a label; all others are omitted.
_TEXTS: Final = frozenset({"server_id", "server_name", "version", "domain", "leader", "name"})
_TIMES: Final = frozenset({"start", "config_load_time"})
# The last has names of its own (`metrics_copies`).
_SKIPPED: Final = frozenset({"leaf", "trusted_operators_claim", "jetspark_replica"})
_NS_PER_MS: Final = 1_000_000


async def metrics(
    view: ServerStatus, requests: Mapping[str, int], usage: ProcessUsage, options: MetricsOptions
) -> Exposition:
    """Collect everything that was requested."""
    out = Exposition()
    server_id = view.identity.server_id
    _flatten(out, "gnatsd_varz", await varz(view, requests, usage), server_id)
    _flatten(out, "gnatsd_subsz", await subsz(view, SubszOptions()), server_id)
    _flatten(out, "gnatsd_routez", routez(view), server_id)
    out.family("gnatsd_leafz_conn_nodes_total", "nodes_total").add(
        format_labels((("server_id", server_id),)), leafz(view).leafnodes
    )
    await _add_health(out, view, server_id)
    await add_connections(out, view, options)
    await _add_accounts(out, view, server_id, options)
    await add_jetstream(out, view, options)
    add_own(out, view)
    add_copies(out, view, options)
    return out


def _flatten(out: Exposition, prefix: str, answer: object, server_id: str) -> None:
    """Add series for the numbers of an answer, nested names joined by ``_``."""
    labels = format_labels((("server_id", server_id),))

    def visit(found: dict[str, Any], path: str) -> None:
        for key, value in found.items():
            name = _joined(path, key)
            if name in _SKIPPED:
                continue
            if isinstance(value, dict):
                visit(value, name)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                out.family(f"{prefix}_{name}", name).add(labels, value)
            elif key in _TIMES:
                milliseconds = parse_rfc3339(value) // _NS_PER_MS
                out.family(f"{prefix}_{name}", name).add(labels, milliseconds)
            elif key in _TEXTS:
                both = format_labels((("server_id", server_id), ("value", value)))
                out.family(f"{prefix}_{name}", name).add(both, 1)

    visit(msgspec.json.decode(encode(answer)), "")


def _joined(path: str, key: str) -> str:
    """Return a name as the exporter does: slashes become ``_``, runs of ``_`` one."""
    joined = f"{path}_{key}" if path else key
    return "_".join(part for part in joined.replace("/", "_").split("_") if part)


async def _add_health(out: Exposition, view: ServerStatus, server_id: str) -> None:
    for endpoint, asked in (
        ("healthz", HealthzOptions()),
        ("healthz_js_enabled_only", HealthzOptions(js_enabled_only=True)),
        ("healthz_js_server_only", HealthzOptions(js_server_only=True)),
    ):
        _, found = await healthz(view, asked)
        is_ok = found.status == OK
        # The exporter has it both ways round: 0 is good in the first, 1 in the second.
        out.family(f"gnatsd_{endpoint}_status", "status").add(
            format_labels((("server_id", server_id),)), not is_ok
        )
        out.family(f"gnatsd_{endpoint}_status_value", "status").add(
            format_labels((("server_id", server_id), ("value", found.status))), is_ok
        )


async def _add_accounts(
    out: Exposition, view: ServerStatus, server_id: str, options: MetricsOptions
) -> None:
    accounts = {account.name: account for account in view.accounts()}
    statz = accstatz(view, unused=True)
    async for stat in paced(statz.account_statz):
        account = accounts.get(stat.acc)
        if account is not None and options.wants_account(stat.acc):
            _add_account_stat(out, stat, server_id)
            _add_account(out, account, stat, server_id)


def _add_account(
    out: Exposition, account: AccountStatus, stat: AccountStat, server_id: str
) -> None:
    details = account.details()
    names = (("account_id", account.name), ("account_name", account.name_tag))
    labels = format_labels((("server_id", server_id), *names))
    for name, value in (
        ("client_connections", stat.conns),
        ("leafnode_connections", stat.leafnodes),
        ("subscriptions", stat.num_subscriptions),
        ("is_system", account.is_system),
        ("expired", details.expired),
        ("complete", details.complete),
        ("jetstream_enabled", account.jetstream_enabled),
    ):
        out.family(f"gnatsd_accountz_{name}", name).add(labels, value)


def _add_account_stat(out: Exposition, stat: AccountStat, server_id: str) -> None:
    labels = format_labels(
        (
            ("server_id", server_id),
            ("account", stat.acc),
            ("account_id", stat.acc),
            ("account_name", stat.name),
        )
    )
    for name, value in (
        ("current_connections", stat.conns),
        ("total_connections", stat.total_conns),
        ("subscriptions", stat.num_subscriptions),
        ("leaf_nodes", stat.leafnodes),
        ("sent_messages", stat.sent.msgs),
        ("sent_bytes", stat.sent.bytes),
        ("received_messages", stat.received.msgs),
        ("received_bytes", stat.received.bytes),
        ("slow_consumers", stat.slow_consumers),
    ):
        if value is not None:
            out.family(f"gnatsd_accstatz_{name}", name).add(labels, value)
