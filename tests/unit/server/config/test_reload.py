"""SIGHUP: which changes a running server takes over, as nats-server allows them."""

import pytest

from jetspark.server.config.loader import load_text
from jetspark.server.config.reload import RELOADABLE, plan_reload
from jetspark.server.config.settings import Settings

BASE = "server_name: one\n"
TLS = "tls { cert_file: c, key_file: k, "


def load(text: str) -> Settings:
    return load_text(BASE + text, {}, check_tls=lambda _tls: None, not_yet={})


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("", "", []),
        ("", "debug: on", ["debug"]),
        ("", "max_payload: 2MB\nmax_connections: 5", ["max_payload", "max_connections"]),
        ("", "ping_interval: 1s\nping_max: 5\nwrite_deadline: 1s",
         ["ping_interval", "ping_max", "write_deadline"]),
        ("authorization { token: a }", "authorization { token: b }", ["authorization"]),
        ("", "accounts: [A]", ["accounts"]),
        ("", "mappings { a: b }", ["mappings"]),
        ("", "server_tags: a\nserver_metadata { a: b }", ["server_tags", "server_metadata"]),
        ("", "logfile: l\npid_file: p", ["logfile", "pid_file"]),
        ("", f"{TLS} }}", ["tls", "authorization"]),
        (f"{TLS} }}", f"{TLS} verify: on, timeout: 3 }}", ["tls", "authorization"]),
        ("jetstream { max_mem: 1k, max_file: 1k }", "jetstream { max_mem: 2k, max_file: 1k }",
         ["jetstream"]),
        ("", "jetspark { commit_delay: 1ms, held_reads_max: 5, fast { per_stream: 2 } }",
         ["jetspark"]),
        ("", "jetspark { limits { connections_per_user: 5 }, memory { pending: 1GB } }",
         ["jetspark"]),
        ("accounts { A {} }", "accounts { A { limits { max_conn: 5 } } }", ["accounts"]),
        ("port: 4333", "port: -1", []),
        ("no_auth_user: a\nauthorization { users: [{user: a}] }",
         "authorization { users: [{user: b}] }", ["authorization", "no_auth_user"]),
    ],
)  # fmt: skip
def test_what_may_change_is_taken_over(old: str, new: str, names: list[str]) -> None:
    plan = plan_reload(load(old), load(new))

    assert [change.name for change in plan.changes] == names
    assert plan.refusals == ()


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("port: 4333", "port: 4334", ["port"]),
        ("", "host: localhost", ["host", "http_host"]),
        ("", "http_port: 8222", ["http_port"]),
        ("", "max_pending: 1GB", ["max_pending"]),
        ("", "max_subs: 5", ["max_subscriptions"]),
        ("", "lame_duck_duration: 5m30s", ["lame_duck_duration"]),
        ("", "no_header_support: on", ["no_header_support"]),
        ("", "logfile_size_limit: 1k", ["logfile_size_limit"]),
        ("accounts: [S]", "accounts: [S]\nsystem_account: S", ["system_account"]),
        (f"{TLS} }}", f"{TLS} connection_rate_limit: 5 }}", ["tls.connection_rate_limit"]),
        (f"{TLS} verify: on }}", f"{TLS} verify_and_map: on }}", ["tls.verify_and_map"]),
        ("", "jetstream: on", ["jetstream"]),
        ("jetstream { max_mem: 2k }", "jetstream: off", ["jetstream"]),
        ("jetstream: on\naccounts { A {} }", "jetstream: on\naccounts { A { jetstream: on } }",
         ["accounts.A.jetstream"]),
        ("", "jetspark { monitor_token: t }", ["jetspark.monitor_token"]),
        ("", "jetspark { memory { batches: 1MB, pending: 1MB } }", ["jetspark.memory.batches"]),
        ("jetstream: on", "jetstream { domain: hub }", ["jetstream.domain"]),
        ("jetstream: on", "jetstream { store_dir: d }", ["jetstream.store_dir"]),
        ("jetstream: on", "jetstream { sync: 1s }",
         ["jetstream.durability", "jetstream.sync_interval"]),
        ("jetstream { max_mem: 2k }", "jetstream { max_mem: 1k }", ["jetstream.max_mem"]),
        ("jetstream: on", "jetstream { max_file: 1k }", ["jetstream.max_file"]),
        ("jetstream { max_file: 1k }", "jetstream: on", ["jetstream.max_file"]),
        ("", "jetspark { remotes { a { url: 'nats://a' } } }", ["jetspark.remotes"]),
        ("", "ws { port: 1, no_tls: on }", ["websocket"]),
        ("ws { port: 1, no_tls: on }", "ws { port: 1, no_tls: on, compression: on }",
         ["websocket.compression"]),
        ("authorization { users: [{user: a}] }",
         "no_auth_user: a\nauthorization { users: [{user: a}] }", ["no_auth_user"]),
        ("no_auth_user: a\nauthorization { users: [{user: a}] }",
         "authorization { users: [{user: a}] }", ["no_auth_user"]),
    ],
)  # fmt: skip
def test_what_was_decided_at_the_start_is_refused(old: str, new: str, names: list[str]) -> None:
    plan = plan_reload(load(old), load(new))

    assert [refusal.name for refusal in plan.refusals] == names
    assert all(refusal.reason for refusal in plan.refusals)


def test_a_name_cannot_change() -> None:
    plan = plan_reload(Settings(server_name="one"), Settings(server_name="two"))

    assert [(change.old, change.new) for change in plan.changes] == [("one", "two")]
    assert plan.refusals[0].reason.endswith("restart the server to change it")


def test_a_change_shows_no_secret() -> None:
    plan = plan_reload(
        load("authorization { token: hunter2 }"), load("authorization { token: hunter3 }")
    )

    assert "hunter" not in repr(plan)


def test_where_settings_come_from_is_no_change() -> None:
    assert plan_reload(Settings(config_file="a"), Settings(config_file="b")).changes == ()


def test_only_settings_are_listed_as_reloadable() -> None:
    assert set(Settings.__struct_fields__) >= RELOADABLE
