"""`jetspark server check`: declarations. The functions are in the modules next to this one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from jetspark.cli.bucket_options import declare
from jetspark.cli.commands import Group
from jetspark.cli.connection import declare_connection
from jetspark.cli.quantities import COUNT, DURATION, HEADER, LIMIT, SEQUENCE, SIZE, Whole
from jetspark.cli.server.monitor_option import monitor_option

_Declared = TypeVar("_Declared", bound=Callable[..., Any])
# Nagios: the state is unknown.
UNKNOWN: Final = 3
_FORMS: Final = (
    click.option(
        "--format", "form", type=click.Choice(("nagios", "json", "prometheus", "text")),
        help="How to print the result. Default: nagios.",
    ),
    click.option("--namespace", help="Prefix of Prometheus metrics. Default: nats_server_check."),
    click.option(
        "--outfile", type=click.Path(path_type=Path, dir_okay=False),
        help="Write the result to this file, which is replaced as a whole.",
    ),
)  # fmt: skip
_stream = click.option("--stream", required=True, help="The stream to check.")
_PERCENT: Final = Whole(-1, 100)


def _checked(described: _Declared) -> _Declared:
    """Add the options of all checks."""
    return declare_connection(declare(_FORMS)(described))


def _pair(
    name: str, what: str, kind: Any, default: Any = None
) -> Callable[[_Declared], _Declared]:
    """Both thresholds of a value."""
    shown = default is not None
    return declare(
        (
            click.option(
                f"--{name}-warn", type=kind, default=default and default[0], show_default=shown,
                help=f"Warn at this {what}.",
            ),
            click.option(
                f"--{name}-critical", type=kind, default=default and default[1],
                show_default=shown, help=f"Critical at this {what}.",
            ),
        )
    )  # fmt: skip


@click.group(cls=Group, failure=UNKNOWN)
@declare(_FORMS)
def check(**_options: Any) -> None:
    """Check the health of servers, streams, consumers and buckets.

    The exit code is that of Nagios: 0 OK, 1 warning, 2 critical, 3 unknown (also for wrong use).
    With --format prometheus it is 0, and the status is a metric. For numbers of subjects and of
    values a critical threshold below the warning one means that less is worse.

    \b
    Examples:
      jetspark server check connection
      jetspark server check stream --stream ORDERS --msgs-critical 1
      jetspark server check consumer --stream ORDERS --consumer worker --unprocessed-critical 1000
      jetspark server check jetstream --format prometheus --outfile /var/lib/node/nats.prom
    """


@check.local("connection", "jetspark.cli.server.check.basics:connection", aliases=("conn",))
@_pair("connect", "time to connect", DURATION, ("500ms", "1s"))
@_pair("rtt", "round-trip time", DURATION, ("500ms", "1s"))
@_pair("req", "time for a message to itself", DURATION, ("500ms", "1s"))
@_checked
def _connection() -> None:
    """Check that a server accepts connections and delivers messages.

    \b
    Examples:
      jetspark server check connection
      jetspark server check connection --rtt-warn 50ms --rtt-critical 200ms
    """


@check.local("request", "jetspark.cli.server.check.basics:request", aliases=("req",))
@click.option("--subject", required=True, help="The subject to send a request to.")
@click.option("--payload", default="", help="The payload of the request.")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="A header to send.")
@click.option("--match-payload", default="", help="Regular expression that the reply must match.")
@_pair("response", "time until the reply", DURATION)
@_checked
def _request() -> None:
    """Check that a service answers.

    \b
    Example:
      jetspark server check request --subject orders.status --match-payload '^ok' \\
        --response-critical 1s
    """


@check.local("stream", "jetspark.cli.server.check.streams:stream")
@_stream
@click.option("--lag-critical", type=SEQUENCE, help="Critical if a copy lags so many messages.")
@click.option("--seen-critical", type=DURATION, help="Critical if an origin was not seen so long.")
@click.option("--min-sources", type=SEQUENCE, help="Critical with fewer sources.")
@click.option("--max-sources", type=SEQUENCE, help="Critical with more sources.")
@click.option("--peer-expect", type=SEQUENCE, help="Replicas to expect in a cluster.")
@click.option("--peer-lag-critical", type=SEQUENCE, help="Critical if a replica lags so much.")
@click.option(
    "--peer-seen-critical", type=DURATION, help="Critical if a replica was not seen so long."
)
@click.option("--msgs-warn", type=SEQUENCE, help="Warn at this many messages or fewer.")
@click.option("--msgs-critical", type=SEQUENCE, help="Critical at this many messages or fewer.")
@_pair("subjects", "number of subjects", SEQUENCE)
@_checked
def _check_stream() -> None:
    """Check a stream: its replicas, mirror, sources, messages and subjects.

    Thresholds can also be metadata of the stream (`io.nats.monitor.lag-critical: 200`); options
    override them.

    \b
    Examples:
      jetspark server check stream --stream ORDERS --msgs-critical 1
      jetspark server check stream --stream COPY --lag-critical 1000 --seen-critical 1m
    """


@check.local("consumer", "jetspark.cli.server.check.streams:consumer")
@_stream
@click.option("--consumer", required=True, help="The consumer to check.")
@click.option("--outstanding-ack-critical", type=LIMIT, help="Critical at so many outstanding.")
@click.option("--waiting-critical", type=LIMIT, help="Critical at so many waiting pulls.")
@click.option("--unprocessed-critical", type=LIMIT, help="Critical at so many undelivered.")
@click.option("--last-delivery-critical", type=DURATION, help="Critical if none for so long.")
@click.option("--last-ack-critical", type=DURATION, help="Critical if none for so long.")
@click.option("--redelivery-critical", type=LIMIT, help="Critical at so many redelivered.")
@click.option("--pinned", is_flag=True, help="Every priority group must have a pinned client.")
@_checked
def _consumer() -> None:
    """Check a consumer: what waits for delivery or acknowledgement, and since when.

    Thresholds can also be metadata of the consumer (`io.nats.monitor.waiting-critical: 20`).

    \b
    Example:
      jetspark server check consumer --stream ORDERS --consumer worker \\
        --unprocessed-critical 1000 --last-ack-critical 5m
    """


@check.local("message", "jetspark.cli.server.check.streams:message")
@_stream
@click.option("--subject", default=">", show_default=True, help="The last message of this one.")
@_pair("age", "age", DURATION)
@click.option("--content", default="", help="Regular expression that the payload must match.")
@click.option("--body-timestamp", is_flag=True, help="The payload is a Unix time: check that age.")
@_checked
def _message() -> None:
    """Check the last message of a subject in a stream: its age and content.

    \b
    Example:
      jetspark server check message --stream BACKUPS --subject backup.done --age-critical 25h
    """


@check.local("jetstream", "jetspark.cli.server.check.basics:jetstream", aliases=("js",))
@_pair("mem", "percentage of the memory limit", _PERCENT, (75, 90))
@_pair("store", "percentage of the storage limit", _PERCENT, (75, 90))
@_pair("streams", "percentage of the maximum of streams", _PERCENT, (-1, -1))
@_pair("consumers", "percentage of the maximum of consumers", _PERCENT, (-1, -1))
@click.option(
    "--replicas/--no-replicas", default=True, show_default=True, help="Check replicas too."
)
@click.option(
    "--replica-seen-critical",
    type=DURATION,
    default="5s",
    show_default=True,
    help="Critical if a replica was not seen so long.",
)
@click.option(
    "--replica-lag-critical",
    type=SEQUENCE,
    default=200,
    show_default=True,
    help="Critical if a replica lags so many operations.",
)
@_checked
def _jetstream() -> None:
    """Check the use of JetStream by the account, and the replicas of its streams.

    \b
    Examples:
      jetspark server check jetstream
      jetspark server check jetstream --store-warn 60 --store-critical 80
    """  # fmt: skip


@check.local("meta", "jetspark.cli.server.check.servers:meta", aliases=("raft",))
@click.option("--expect", type=COUNT, required=True, metavar="SERVERS", help="Servers to expect.")
@click.option(
    "--lag-critical",
    type=COUNT,
    required=True,
    metavar="OPS",
    help="Critical if a server lags more operations.",
)
@click.option(
    "--seen-critical",
    type=DURATION,
    required=True,
    help="Critical if a server was not seen for longer.",
)
@monitor_option
@_checked
def _meta() -> None:
    """Check the meta cluster: the servers that agree on streams and consumers.

    Needs a user of the system account, or --monitor with the ports of all servers.

    \b
    Example:
      jetspark server check meta --expect 3 --lag-critical 100 --seen-critical 5s
    """


@check.local("server", "jetspark.cli.server.check.servers:server")
@click.option("--name", required=True, help="The name or id of the server.")
@_pair("cpu", "CPU usage, in percent", Whole())
@_pair("mem", "size of memory", SIZE)
@_pair("conn", "number of connections", COUNT)
@_pair("subs", "number of subscriptions", COUNT)
@_pair("uptime", "uptime or less", DURATION)
@click.option("--auth-required", is_flag=True, help="Critical without authentication.")
@click.option("--tls-required", is_flag=True, help="Critical if TLS is not required.")
@click.option("--js-required", is_flag=True, help="Critical without JetStream.")
@click.option("--tls-cert-warn", type=DURATION, help="Warn if the certificate expires so soon.")
@click.option("--tls-cert-crit", type=DURATION, help="Critical if it expires so soon.")
@monitor_option
@_checked
def _server() -> None:
    """Check a server: its load, its uptime, and what it requires of clients.

    Needs a user of the system account, or --monitor.

    \b
    Examples:
      jetspark server check server --name n1 --conn-warn 1000 --conn-critical 2000
      jetspark server check server --name n1 --js-required --uptime-critical 5m
    """


@check.local("kv", "jetspark.cli.server.check.basics:bucket")
@click.option("--bucket", required=True, help="The bucket to check.")
@_pair("values", "number of values", LIMIT)
@click.option("--key", default="", help="This key must have a value.")
@_checked
def _kv() -> None:
    """Check a bucket: that it exists, has a key, and how many values.

    \b
    Example:
      jetspark server check kv --bucket SETTINGS --key color --values-critical 100000
    """


@check.local("credential", "jetspark.cli.server.check.credentials:credential")
@click.option(
    "--credential",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The credentials file to check.",
)
@click.option("--validity-warn", type=DURATION, help="Warn if it expires within this time.")
@click.option("--validity-critical", type=DURATION, help="Critical if it does.")
@click.option(
    "--require-expiry/--no-require-expiry",
    default=True,
    show_default=True,
    help="Critical if it never expires.",
)
@declare(_FORMS)
def _credential() -> None:
    """Check when a credentials file expires; needs no server.

    \b
    Example:
      jetspark server check credential --credential me.creds --validity-critical 7d
    """  # fmt: skip
