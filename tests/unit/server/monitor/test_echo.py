"""Settings as monitoring shows them; shapes seen on nats-server 2.15.1 with the same settings."""

from __future__ import annotations

from typing import Any

from jetspark.server.config.blocks.accounts import Account
from jetspark.server.config.blocks.jetstream import Durability, JetStream, JetStreamLimits
from jetspark.server.config.blocks.mappings import Destination, SubjectMapping
from jetspark.server.config.blocks.sharing import Export, Import, ResponseType, Shared
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.blocks.users import Authorization
from jetspark.server.config.blocks.websocket import Websocket
from jetspark.server.config.settings import Settings
from jetspark.server.monitor.account_details import MappingDestination, Share
from jetspark.server.monitor.echo import account_details, jetstream_echo, server_echo
from jetspark.server.monitor.settings_echo import ServerEcho, WebsocketEcho
from jetspark.units import seconds


def echo(settings: Settings, **changes: Any) -> ServerEcho:
    arguments = {
        "port": 4333,
        "http_port": 8222,
        "https_port": 0,
        "config_load_ns": 7,
        "auth_required": False,
    }
    return server_echo(settings, **(arguments | changes))


def test_defaults_are_those_that_an_unconfigured_server_shows() -> None:
    found = echo(Settings(host="127.0.0.1"))

    assert found == ServerEcho(
        host="127.0.0.1", port=4333, config_load_ns=7, http_host="0.0.0.0", http_port=8222
    )


def test_what_was_set_is_shown() -> None:
    settings = Settings(
        tls=Tls(timeout=seconds(5), verify=True),
        authorization=Authorization(timeout=seconds(1.5)),
        http_base_path="/mon",
        no_system_account=True,
        websocket=Websocket(port=8443, no_tls=True, handshake_timeout=seconds(3)),
    )

    found = echo(settings, auth_required=True)

    assert (found.tls_required, found.tls_verify, found.tls_timeout_s) == (True, True, 5.0)
    assert (found.auth_required, found.auth_timeout_s) == (True, 1.5)
    assert (found.http_base_path, found.system_account) == ("/mon", "")
    assert found.websocket == WebsocketEcho(
        host="0.0.0.0", port=8443, no_tls=True, handshake_timeout=seconds(3)
    )


def test_tls_is_not_required_where_plain_clients_are_let_in() -> None:
    assert not echo(Settings(tls=Tls(), allow_non_tls=True)).tls_required


def test_the_limits_of_jetstream_are_those_that_hold() -> None:
    settings = JetStream(
        durability=Durability.INTERVAL,
        sync_interval=seconds(1),
        domain="hub",
        limits=JetStreamLimits(max_ack_pending=5),
    )

    found = jetstream_echo(settings, store_dir="/x", max_memory=1, max_storage=2)

    assert (found.durability, found.sync_interval, found.domain) == ("interval", seconds(1), "hub")
    assert (found.max_memory, found.max_storage, found.store_dir) == (1, 2, "/x")
    assert found.limits.max_ack_pending == 5


def test_an_account_shows_what_it_shares_and_maps() -> None:
    settings = Settings(
        accounts=(
            Account(
                name="A",
                exports=(
                    Export(kind=Shared.SERVICE, subject="s", response_type=ResponseType.STREAM),
                    Export(kind=Shared.STREAM, subject="t", accounts=("B",)),
                ),
                imports=(
                    Import(kind=Shared.SERVICE, account="B", subject="x", to="y", share=True),
                    Import(kind=Shared.STREAM, account="B", subject="u", prefix="p"),
                    Import(kind=Shared.STREAM, account="B", subject="v"),
                ),
                mappings=(
                    SubjectMapping(
                        source="m", destinations=(Destination(subject="n", weight=40),)
                    ),
                ),
            ),
        )
    )

    found = account_details(settings, "A", 9)

    assert found.updated_ns == 9
    assert found.exports == (
        Share(subject="s", kind="service", response_type="Streamed"),
        Share(subject="t", kind="stream", approved_accounts=("B",)),
    )
    assert [(each.subject, each.local_subject) for each in found.imports] == [
        ("x", "y"),
        ("u", "p.u"),
        ("v", "v"),
    ]
    assert found.mappings == {"m": (MappingDestination(subject="n", weight=40),)}


def test_the_global_account_has_the_mappings_of_the_server() -> None:
    mapping = SubjectMapping(source="m", destinations=(Destination(subject="n"),))

    found = account_details(Settings(mappings=(mapping,)), "$G", 0)

    assert found.mappings == {"m": (MappingDestination(subject="n", weight=100),)}
