"""From a configuration to settings: what each setting becomes, and what is refused."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from jetspark.server.config.blocks.accounts import AccountJetStream, AccountLimits
from jetspark.server.config.blocks.jetspark import Dashboard, FastLimits, Limits, Memory, Remote
from jetspark.server.config.blocks.jetstream import AtomicLimits, Durability, JetStreamLimits
from jetspark.server.config.blocks.mappings import Destination, SubjectMapping
from jetspark.server.config.blocks.tls import Certificate, Tls
from jetspark.server.config.blocks.users import User, is_bcrypt
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.loader import load_file, load_text
from jetspark.server.config.not_yet import NOT_YET
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings, WriteTimeout
from jetspark.server.config.top import FIELDS
from jetspark.server.config.unsupported import UNSUPPORTED
from jetspark.server.jetstream.runtime import batch_limits
from jetspark.units import ByteCount, gib, kib, mib, milliseconds, minutes, seconds

PEMS: Final = Path(__file__).parent / "tls"
PAIR: Final = f"cert_file: '{PEMS / 'server-cert.pem'}', key_file: '{PEMS / 'server-key.pem'}'"

TWO_ACCOUNTS = "accounts { A { jetstream: enabled }, B { jetstream: enabled } }"


def load(text: str) -> Settings:
    return load_text(text, {}, name="a.conf", not_yet={})


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigRefused) as refused:
        load(text)
    return [str(problem) for problem in refused.value.problems]


# The path of a setting, a text that makes it, where it is found, and what it is then.
SAMPLES: Final[list[tuple[str, str, str, Any]]] = [
    ("listen", "listen: 'localhost:4333'", "host", "localhost"),
    ("listen", "listen: 4333", "port", 4333),
    ("host", "net: localhost", "host", "localhost"),
    ("port", "port: -1", "port", -1),
    ("server_name", "server_name: one", "server_name", "one"),
    ("client_advertise", "client_advertise: 'a:1'", "client_advertise", "a:1"),
    ("no_header_support", "no_header_support: true", "no_header_support", True),
    ("max_payload", "max_payload: 2MB", "max_payload", mib(2)),
    ("max_control_line", "max_control_line: 8kb", "max_control_line", kib(8)),
    ("max_pending", "max_pending: 1GB", "max_pending", gib(1)),
    ("max_connections", "max_conn: 0", "max_connections", -1),
    ("max_subscriptions", "max_subs: 5", "max_subscriptions", 5),
    ("max_subscription_tokens", "max_sub_tokens: 9", "max_subscription_tokens", 9),
    ("max_closed_clients", "max_closed_clients: 9", "max_closed_clients", 9),
    ("ping_interval", "ping_interval: '100ms'", "ping_interval", milliseconds(100)),
    ("ping_max", "ping_max: 3", "ping_max", 3),
    ("write_deadline", "write_deadline: 3s", "write_deadline", seconds(3)),
    ("write_timeout", "write_timeout: retry", "write_timeout", WriteTimeout.RETRY),
    ("lame_duck_duration", "lame_duck_duration: '3m'", "lame_duck_duration", minutes(3)),
    ("lame_duck_grace_period", "lame_duck_grace_period: 1s", "lame_duck_grace_period", seconds(1)),
    ("http", "http: 'localhost:8222'", "http_host", "localhost"),
    ("http", "http: 'localhost:8222'", "http_port", 8222),
    ("https", f"https: 8222, tls {{ {PAIR} }}", "https_port", 8222),
    ("http_port", "monitor_port: 8222", "http_port", 8222),
    ("https_port", f"https_port: 8222, tls {{ {PAIR} }}", "https_port", 8222),
    ("http_base_path", "http_base_path: a/b/", "http_base_path", "/a/b"),
    ("tls", f"tls {{ {PAIR}, verify_and_map: true }}", "tls.verify", True),
    ("tls", f"tls {{ {PAIR}, first: auto }}", "tls.fallback_delay", milliseconds(50)),
    ("tls.verify_and_map", f"tls {{ {PAIR}, verify_and_map: true }}", "tls.verify_and_map", True),
    ("tls.insecure", f"tls {{ {PAIR}, insecure: true }}", "tls.insecure", True),
    ("tls.connection_rate_limit", f"tls {{ {PAIR}, connection_rate_limit: 3 }}",
     "tls.connection_rate_limit", 3),
    ("tls.pinned_certs", f"tls {{ {PAIR}, pinned_certs: ['{'a' * 64}'] }}",
     "tls.pinned_certs", frozenset({"a" * 64})),
    ("tls.curve_preferences", f"tls {{ {PAIR}, curve_preferences: [X25519] }}",
     "tls.curve_preferences", ("X25519",)),
    ("accounts.*.jetstream.max_memory", "accounts { A { jetstream { max_memory: 7 } } }",
     "accounts.0.jetstream.max_memory", 7),
    ("accounts.*.jetstream.max_store", "accounts { A { jetstream { max_store: 7 } } }",
     "accounts.0.jetstream.max_store", 7),
    ("accounts.*.jetstream.max_streams", "accounts { A { jetstream { max_streams: 7 } } }",
     "accounts.0.jetstream.max_streams", 7),
    ("accounts.*.jetstream.max_consumers", "accounts { A { jetstream { max_consumers: 7 } } }",
     "accounts.0.jetstream.max_consumers", 7),
    ("accounts.*.jetstream.memory_max_stream_bytes", "accounts { A { jetstream { memory_max_stream_bytes: 7 } } }",  # noqa: E501
     "accounts.0.jetstream.memory_max_stream_bytes", 7),
    ("accounts.*.jetstream.store_max_stream_bytes", "accounts { A { jetstream { store_max_stream_bytes: 7 } } }",  # noqa: E501
     "accounts.0.jetstream.store_max_stream_bytes", 7),
    ("accounts.*.jetstream.max_ack_pending", "accounts { A { jetstream { max_ack_pending: 7 } } }",
     "accounts.0.jetstream.max_ack_pending", 7),
    ("accounts.*.jetstream.max_bytes_required",
     "accounts { A { jetstream { max_bytes_required: true } } }",
     "accounts.0.jetstream.max_bytes_required", True),
    ("accounts.*.limits", "accounts { A { limits { max_conn: 3 } } }",
     "accounts.0.limits.max_connections", 3),
    ("accounts.*.nkey", "accounts { A { nkey: ADFB2JXYTXOJEL6LNAXDREUGRX35BOLZI3B4PFFAC7IRPR3OA4QNKBN2 } }",  # noqa: E501
     "accounts.0.name", "A"),
    ("accounts.*.mappings", "accounts { A { mappings { a: b } } }", "accounts.0.name", "A"),
    ("accounts.*.exports", "accounts { A { exports: [{stream: a}] } }", "accounts.0.name", "A"),
    ("accounts.*.imports",
     "accounts { B { exports: [{stream: a}] }, A { imports: [{stream: {account: B, subject: a}}] } }",  # noqa: E501
     "accounts.1.name", "A"),
    ("tls", f"tls {{ {PAIR}, timeout: 0.5 }}", "tls.timeout", milliseconds(500)),
    ("tls", f"tls {{ {PAIR} }}", "authorization.timeout", seconds(3)),
    ("allow_non_tls", "allow_non_tls: true", "allow_non_tls", True),
    ("authorization", "authorization { token: t }", "authorization.token", Secret("t")),
    ("authorization", "authorization { user: u }", "authorization.user", "u"),
    ("authorization", "authorization { token: t, timeout: 1.5 }", "authorization.timeout",
     milliseconds(1500)),
    ("accounts", "accounts { A { jetstream: on } }", "accounts.0.jetstream", AccountJetStream()),
    ("no_auth_user", "no_auth_user: a\nauthorization { users: [{user: a}] }", "no_auth_user", "a"),
    ("system_account", "system: S\naccounts: [S]", "system_account", "S"),
    ("no_system_account", "no_sys_acc: on", "no_system_account", True),
    ("websocket", "ws { port: -1, no_tls: on }", "websocket.port", -1),
    ("websocket", "ws { listen: 'a:1', no_tls: on }", "websocket.host", "a"),
    ("mappings", "maps { a: b }", "mappings",
     (SubjectMapping(source="a", destinations=(Destination(subject="b"),)),)),
    ("store_dir", "store_dir: s", "jetstream.store_dir", "s"),
    ("store_dir", "store_dir: s", "jetstream.enabled", False),
    ("jetstream", "jetstream: enabled", "jetstream.enabled", True),
    ("jetstream", "jetstream: enabled", "jetstream.store_dir", "jetspark-data"),
    ("jetstream.enabled", "jetstream { enabled: no }", "jetstream.enabled", False),
    ("jetstream.store_dir", "jetstream { store: s }", "jetstream.store_dir", "s"),
    ("jetstream.max_mem", "jetstream { max_mem: 1G }", "jetstream.max_mem", 10**9),
    ("jetstream.max_file", "jetstream { max_file: '1G' }", "jetstream.max_file", gib(1)),
    ("jetstream.domain", "jetstream { domain: hub }", "jetstream.domain", "hub"),
    ("jetstream.strict", "jetstream { strict: no }", "jetstream.strict", False),
    ("jetstream.sync_interval", "jetstream { sync: '10s' }", "jetstream.sync_interval",
     seconds(10)),
    ("jetstream.key", "jetstream { ek: k }", "jetstream.key", Secret("k")),
    ("jetstream.prev_key", "jetstream { prev_ek: k }", "jetstream.prev_key", Secret("k")),
    ("jetstream.cipher", "jetstream { cipher: ChaChaPoly }", "jetstream.cipher", "chacha"),
    ("jetstream.max_buffered_size", "jetstream { max_buffered_size: 1k }",
     "jetstream.max_buffered_size", 1000),
    ("jetstream.max_buffered_msgs", "jetstream { max_buffered_msgs: 7 }",
     "jetstream.max_buffered_msgs", 7),
    ("jetstream.limits.max_ack_pending",
     "jetstream { limits { max_ack_pending: 7, duplicate_window: 1m30s } }",
     "jetstream.limits", JetStreamLimits(max_ack_pending=7, duplicate_window=seconds(90))),
    ("jetstream.limits.max_request_batch", "jetstream { limits { max_request_batch: 7 } }",
     "jetstream.limits.max_request_batch", 7),
    ("jetstream.limits.batch", "jetstream { limits { batch { max_msgs: 7, timeout: 3s } } }",
     "jetstream.limits.batch", AtomicLimits(messages=7, timeout=seconds(3))),
    ("default_js_domain", "default_js_domain { A: hub }\naccounts: [A]", "default_js_domain",
     {"A": "hub"}),
    ("jetspark.durability", "jetspark { durability: ASYNC }", "jetstream.durability",
     Durability.ASYNC),
    ("jetspark.commit_delay", "jetspark { commit_delay: 2ms }", "jetspark.commit_delay",
     milliseconds(2)),
    ("jetspark.min_last_seq_wait", "jetspark { min_last_seq_wait: 1s }",
     "jetspark.min_last_seq_wait", seconds(1)),
    ("jetspark.held_reads_max", "jetspark { held_reads_max: 5 }", "jetspark.held_reads_max", 5),
    ("jetspark.atomic", "jetspark { atomic { messages: 5 } }", "jetstream.limits.batch",
     AtomicLimits(messages=5)),
    ("jetspark.fast", "jetspark { fast { per_stream: 5, per_server: 6 } }", "jetspark.fast",
     FastLimits(per_stream=5, per_server=6)),
    ("jetspark.memory", "jetspark { memory { cache: 32MB } }", "jetspark.memory",
     Memory(cache=mib(32))),
    *((f"jetspark.memory.{part}", f"jetspark {{ memory {{ {part}: 32MB }} }}",
       f"jetspark.memory.{part}", mib(32))
      for part in ("pending", "read_buffer", "cache", "duplicates", "index", "batches")),
    *((f"jetspark.limits.{name}", f"jetspark {{ limits {{ {name}: 7 }} }}",
       f"jetspark.limits.{name}", 7) for name in Limits.__struct_fields__),
    ("jetspark.monitor_token", "jetspark { monitor_token: t }", "jetspark.monitor_token",
     Secret("t")),
    ("jetspark.monitor_hosts", "jetspark { monitor_hosts: [a.example, b] }",
     "jetspark.monitor_hosts", ("a.example", "b")),
    ("jetspark.dashboard", "jetspark { dashboard: off }", "jetspark.dashboard",
     Dashboard(enabled=False)),
    ("jetspark.dashboard", "jetspark { dashboard { writable: yes }, monitor_token: t }",
     "jetspark.dashboard", Dashboard(enabled=True, writable=True)),
    ("jetspark.dashboard",
     ("http: '127.0.0.1:8222'; jetspark { dashboard { user: u, password: p } }; "
      "authorization { users: [{ user: u, password: p }] }"), "jetspark.dashboard",
     Dashboard(enabled=True, user="u", password=Secret("p"))),
    ("jetspark.remotes", "jetspark { remotes { hub { url: 'nats://a:4222', credentials: c } } }",
     "jetspark.remotes", (Remote(name="hub", url=("nats://a:4222",), credentials="c"),)),
    ("jetspark.remotes",
     "jetspark { remotes { h { urls: ['tls://a','tls://b'], user: u, pass: p, tls {} } } }",
     "jetspark.remotes",
     (Remote(name="h", url=("tls://a", "tls://b"), user="u", password=Secret("p"),
             tls=Tls()),)),
    ("jetspark.remotes", "jetspark { remotes { h { url: 'nats://a', token: t } } }",
     "jetspark.remotes", (Remote(name="h", url=("nats://a",), token=Secret("t")),)),
    ("jetspark.remotes",
     "jetspark { remotes { h { url: 'nats://a', accounts: '$G', take: true } } }",
     "jetspark.remotes",
     (Remote(name="h", url=("nats://a",), accounts=("$G",), take=True),)),
    ("jetspark.remotes", "jetspark { remotes { h { url: 'nats://a', take: ['$G'] } } }",
     "jetspark.remotes", (Remote(name="h", url=("nats://a",), take=("$G",)),)),
    ("jetspark.remotes", "jetspark { remotes { h { url: 'nats://a', nkey: f } } }",
     "jetspark.remotes", (Remote(name="h", url=("nats://a",), nkey="f"),)),
    ("debug", "debug: on", "debug", True),
    ("trace", "trace: on", "trace", True),
    ("trace_verbose", "trace_verbose: on", "trace", True),
    ("trace_headers", "trace_headers: on", "trace_headers", True),
    ("logtime", "logtime: off", "logtime", False),
    ("logtime_utc", "logtime_utc: on", "logtime_utc", True),
    ("logfile", "log_file: l", "logfile", "l"),
    ("logfile_size_limit", "log_size_limit: 1k", "logfile_size_limit", 1000),
    ("logfile_max_num", "log_max_num: 3", "logfile_max_num", 3),
    ("max_traced_msg_len", "max_traced_msg_len: 9", "max_traced_msg_len", 9),
    ("pid_file", "pidfile: p", "pid_file", "p"),
    ("ports_file_dir", "ports_file_dir: p", "ports_file_dir", "p"),
    ("server_tags", "server_tags: [a, b]", "server_tags", ("a", "b")),
    ("server_metadata", "server_metadata { a: b }", "server_metadata", {"a": "b"}),
]  # fmt: skip


def look_up(settings: Any, path: str) -> Any:
    for name in path.split("."):
        settings = settings[int(name)] if name.isdecimal() else getattr(settings, name)
    return settings


@pytest.mark.parametrize(
    ("path", "text", "attribute", "value"), SAMPLES, ids=[sample[1] for sample in SAMPLES]
)
def test_a_setting_arrives_where_the_server_finds_it(
    path: str, text: str, attribute: str, value: object
) -> None:
    del path

    assert look_up(load(text), attribute) == value


def test_every_setting_has_a_sample() -> None:
    paths = {sample[0] for sample in SAMPLES}

    assert set(FIELDS) - {"jetspark"} <= paths
    assert set(NOT_YET) <= paths


@pytest.mark.parametrize("path", NOT_YET)
def test_what_the_server_does_not_honour_yet_is_refused(path: str) -> None:
    """Nothing is parsed and ignored. Shrink the table, not this test."""
    text = next(sample[1] for sample in SAMPLES if sample[0] == path)

    with pytest.raises(ConfigRefused) as refused:
        load_text(text, {}, name="a.conf", not_yet={path: NOT_YET[path]})

    (problem,) = refused.value.problems
    assert str(problem).startswith("a.conf:1: '")
    assert f"is not supported by jetspark yet: {NOT_YET[path]}" in problem.message


def test_refusals_deny_nothing_that_the_server_has() -> None:
    """It has a monitoring port, connections to other servers, a log file, and timers."""
    untrue = ("no monitoring port", "does not make", "to stderr", "no timers")

    assert [path for path, text in NOT_YET.items() if any(word in text for word in untrue)] == []


def test_a_store_that_is_synced_always_is_honoured_today() -> None:
    """decisions.md, Server: ``always`` is what the server does anyway."""
    settings = load_text("jetstream { sync_interval: always }", {})

    assert settings.jetstream.durability is Durability.DURABLE


UNSUPPORTED_SAMPLES: Final = {
    "authorization.users.proxy_required": (
        "authorization { users: [{user: a, proxy_required: on}] }"
    ),
    "accounts.*.users.proxy_required": "accounts { A { users: [{user: a, proxy_required: on}] } }",
    "mappings.cluster": "mappings { a: [{destination: b, weight: 1, cluster: c}] }",
}


@pytest.mark.parametrize("path", UNSUPPORTED)
def test_a_setting_we_do_not_have_is_refused_by_name(path: str) -> None:
    """``[FTL] file:line: 'cluster' is not supported by jetspark: ...``."""
    *blocks, name = path.replace("*", "X").split(".")
    text = f"{name}: 1"
    for block in reversed(blocks):
        text = f"{block} {{\n{text}\n}}"
    text = UNSUPPORTED_SAMPLES.get(path, text)

    reason = f"'{name}' is not supported by jetspark: {UNSUPPORTED[path]}"
    assert any(reason in problem for problem in problems(text))


def test_problems_name_file_line_and_what_was_expected() -> None:
    found = problems("port: abc\n\nfoo: 1\nmax_con: 2\ncluster { }\n")

    assert found == [
        "a.conf:1: 'port': expected an integer, got the string 'abc'",
        'a.conf:3: unknown field "foo"',
        "a.conf:4: unknown field \"max_con\"; did you mean 'max_conn'?",
        f"a.conf:5: 'cluster' is not supported by jetspark: {UNSUPPORTED['cluster']}",
    ]


def test_a_key_that_is_a_variable_may_have_any_name() -> None:
    assert load("p: 4333\nport: $p").port == 4333


def test_an_empty_configuration_warns_and_has_the_defaults() -> None:
    settings = load("# nothing\n")

    assert [str(warning) for warning in settings.warnings] == [
        "a.conf: config has no values or is empty"
    ]
    assert msgspec.structs.replace(settings, warnings=(), digest="") == msgspec.structs.replace(
        Settings(),
        authorization=settings.authorization,
        jetstream=settings.jetstream,
    )


def test_seconds_without_unit_are_taken_with_a_warning() -> None:
    settings = load("\nping_interval: 30")

    assert settings.ping_interval == seconds(30)
    assert str(settings.warnings[0]).startswith("a.conf:2: 'ping_interval' should be a duration")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("listen: 'a:1'\nport: 2", 1, "contradicts"),
        ("listen: 'a:1'\nhost: b", 1, "contradicts"),
        ("http: 'a:1'\nhttp_port: 2", 1, "contradicts"),
        ("max_conn: 1\nmax_connections: 2", 2, "are the same setting"),
        ("port: 65536", 1, "is not between -1 and 65535"),
        ("listen: 'a:65536'", 1, "could not parse port"),
        ("listen: '::1:4222'", 1, "could not parse address"),
        ("listen: a", 1, "could not parse address"),
        ("server_name: 'a b'", 1, "cannot contain spaces"),
        ("max_payload: -2", 1, "is not between -1"),
        ("ping_interval: '-1s'", 1, "not negative"),
        ("ping_interval: -1", 1, "not negative"),
        ("ping_interval: 'x'", 1, "bad duration"),
        ("lame_duck_duration: 10s", 1, "minimum is 30 seconds"),
        ("lame_duck_duration: 30s\nlame_duck_grace_period: 30s", 2, "strictly lower"),
        ("max_payload: 2MB\nmax_pending: 1MB", 1, "cannot be higher than max_pending"),
        ("http_port: 1\nhttps_port: 2", 2, "can't specify both"),
        ("https_port: 2", 1, "TLS cert and key required"),
        ("store_dir: a\njetstream { store_dir: b }", 1, "Duplicate 'store_dir'"),
        ("jetstream { store_dir: '' }", 1, "expected a folder"),
        ("jetstream { max_mem: -2 }", 1, "or -1 for what the machine has"),
        ("jetstream { max_mem: '1GB' }", 1, "one of K, M, G, T"),
        ("jetstream { sync_interval: 0s }", 1, "above 0"),
        ("jetstream { domain: 'a.b' }", 1, "may not contain"),
        ("jetstream { sync: 1s }\njetspark { durability: durable }", 2, "contradicts"),
        ("jetstream { limits { batch { max_msgs: 2 } } }\njetspark { atomic { messages: 3 } }", 2,
         "contradicts"),
        ("jetspark { durability: maybe }", 1, "expected one of durable, interval, async"),
        ("jetspark { remotes { a { } } }", 1, "expected a 'url'"),
        ("jetspark { remotes { a { url: 'http://x' } } }", 1, "nats://host:4222"),
        ("jetspark { remotes { 'a.b' { url: 'nats://x' } } }", 1, "cannot name a remote"),
        ("jetspark { remotes { API { url: 'nats://x' } } }", 1, "this server's own"),
        ("jetspark { remotes { a { url: 'nats://x', user: u } } }", 1, "belong together"),
        ("jetspark { remotes { a { url: 'nats://x', take: 1 } } }", 1, "names of accounts"),
        ("jetspark { remotes { a { url: 'nats://x', accounts: [A] } } }", 1, "no account 'A'"),
        ("jetspark { remotes { a { url: 'nats://x', take: [A] } } }", 1, "which may not copy"),
        (f"{TWO_ACCOUNTS}\njetspark {{ remotes {{ a {{ url: 'nats://x' }} }} }}", 2, "'accounts'"),
        ("jetspark { remotes { a { url: 'nats://x', token: t, nkey: n } } }", 1, "token and nkey"),
        ("jetspark { remotes { a { url: 'nats://x', tls { timeout: 9 } } } }", 1, "no meaning"),
        ("jetspark { memory { cash: 1 } }", 1, "did you mean 'cache'?"),
        ("jetspark: on", 1, "expected a block"),
        ("no_auth_user: a", 1, "not present as user"),
        ("system_account: S", 1, "is not in accounts"),
        ("jetstream: on\naccounts { '$SYS' { jetstream: on } }", 2, "on the system account"),
        ("default_js_domain { B: d }", 1, "non existing account"),
        ("default_js_domain { '$SYS': d }", 1, "system account"),
        ("default_js_domain { A: d }\naccounts { A { jetstream: on } }", 1, "enabled JetStream"),
        ("accounts: A", 1, "expected a block"),
        ("accounts: [A, A]", 1, "Duplicate Account"),
        ("accounts { '$G' { } }", 1, "Reserved Account"),
        ("accounts {\n A: 1\n}", 2, "expected a block { users"),
        ("accounts { A {\n jetstream: maybe\n} }", 2, "'enabled' or 'disabled'"),
        ("accounts { A { nkey: UABC } }", 1, "public nkey for an account"),
        ("ws { port: 1 }", 1, "requires TLS"),
        ("ws { no_tls: on }", 1, "expected a 'port'"),
        ("ws { listen: 1, port: 2, no_tls: on }", 1, "leave the others out"),
        ("ws { port: 1, no_tls: on, origins: [a] }", 1, "is not an origin"),
        ("ws { port: 1, no_tls: on, headers { 'Sec-WebSocket-Key': a } }", 1, "sets it itself"),
        ("ws { port: 1, no_tls: on, no_auth_user: x }", 1, "not present as user"),
        ("mappings {\n 'a..b': c\n}", 2, "is not a valid subject"),
        ("mappings {\n 'a.*': 'b.$2'\n}", 2, "out of range"),
        ("mappings {\n a: [{dest: b}]\n}", 2, "Missing weight"),
        ("mappings {\n a: [{weight: 1}]\n}", 2, "missing 'destination'"),
        ("mappings {\n a: [{dest: b, weight: '200%'}]\n}", 2, "a percentage"),
        ("mappings { a: [{dest: b, weight: 60}, {dest: c, weight: 60}] }", 1, "total weight"),
        ("mappings { a: [{dest: b, weight: 1}, {dest: b, weight: 1}] }", 1, "duplicate entry"),
        ("mappings: a", 1, "expected a block"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_work_is_refused(text: str, line: int, words: str) -> None:
    (found,) = problems(text)

    assert found.startswith(f"a.conf:{line}: ")
    assert words in found


def test_listen_and_port_may_agree() -> None:
    assert load("listen: 'a:4333'\nport: 4333\nhost: a").host == "a"


def test_zero_is_the_default_for_most_numbers() -> None:
    settings = load("port: 0\nmax_payload: 0\nping_interval: '0s'\nping_max: 0")

    assert settings.port == 4222
    assert settings.max_payload == mib(1)
    assert settings.ping_interval == minutes(2)
    assert settings.ping_max == 2


def test_a_period_between_syncs_lowers_the_level_and_says_so() -> None:
    """decisions.md, Server."""
    settings = load("jetstream { sync_interval: '10s' }")

    assert settings.jetstream.durability is Durability.INTERVAL
    (remark,) = settings.remarks
    assert "no longer mean on disk: the store is synced every 10s" in remark


def test_a_start_warns_of_large_payloads_and_plain_passwords() -> None:
    settings = load("max_payload: 9MB\nauthorization { user: a, password: b }")

    assert [remark.split(" ")[0] for remark in settings.remarks] == ["max_payload", "plaintext"]


@pytest.mark.parametrize(
    ("password", "hashed"),
    [("$2a$11$abc", True), ("$2b$10$abc", True), ("$2a$1$abc", False), ("secret", False)],
)
def test_a_hashed_password_is_distinguished_from_a_plain_one(password: str, hashed: bool) -> None:
    settings = load(f"authorization {{ user: a, password: '{password}' }}")

    assert is_bcrypt(settings.authorization.password.value) is hashed
    assert (settings.remarks == ()) is hashed


def test_no_secret_is_shown() -> None:
    settings = load(
        "authorization { users: [{user: a, password: hunter2}] }\n"
        "jetstream { key: hunter2 }\njetspark { monitor_token: hunter2 }"
    )

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings)


def test_a_wrong_secret_is_not_repeated() -> None:
    assert "4711" not in problems("authorization { user: a, password: 4711 }")[0]


def test_the_types_of_all_settings_are_what_they_say() -> None:
    """Readers return untyped values: this converts every sample through the declared types."""
    for _, text, _, _ in SAMPLES:
        settings = load(text)

        assert msgspec.convert(msgspec.to_builtins(settings), Settings) == settings


def test_users_of_the_server_and_of_accounts_are_unique() -> None:
    text = "authorization { users: [{user: a}] }\naccounts { A { users: [{user: a}] } }"

    assert 'Duplicate user "a" detected' in problems(text)[0]


def test_accounts_have_limits_users_and_mappings() -> None:
    settings = load(
        "accounts { A { users: [{user: a}], default_permissions: { pub: x },"
        " limits { max_conn: 3 }, jetstream { mem: 1k, disk: 2kb, streams: 3 }, maps { a: b } } }"
    )
    (account,) = settings.accounts

    assert account.limits == AccountLimits(max_connections=3)
    assert account.jetstream == AccountJetStream(
        max_memory=ByteCount(1000), max_store=ByteCount(2048), max_streams=3
    )
    assert account.mappings[0].source == "a"
    permissions = account.users[0].permissions
    assert permissions is not None
    assert permissions.publish.allow == ("x",)


def test_what_is_imported_must_be_exported() -> None:
    """An import sees only what the other account offers it."""
    exports = 'A { exports: [{stream: "a.>"}, {service: "s", accounts: [B]}] }'

    settings = load(
        f"accounts {{ {exports}, B {{ imports: [{{stream: {{account: A, subject: a.b}}, to: c}},"
        " {service: {account: A, subject: s}}] } }"
    )

    assert [found.to for found in settings.accounts[1].imports] == ["c", "s"]
    (found,) = problems(
        f"accounts {{ {exports}, C {{ imports: [{{service: {{account: A, subject: s}}}}] }},"
        " B { } }"
    )
    assert 'does not export the service "s" to "C"' in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exports: a", "expected a list"),
        ("exports: [{}]", "expected 'stream' or 'service'"),
        ("exports: [{stream: a, service: b}]", "one of them"),
        ("exports: [{stream: a, latency: b}]", "'latency' on non-service"),
        ("exports: [{service: a, response: maybe}]", "expected one of single"),
        ("exports: [{service: a, latency: {sampling: 200, subject: b}}]", "a percentage"),
        ("exports: [{service: a, latency: {sampling: headers}}]", "Latency subject required"),
        ("exports: [{service: a, threshold: 3}]", "a duration"),
        ("exports: [{stream: 'a..b'}]", "not a valid subject"),
        ("exports: [{stream: a, accounts: [X]}]", '"X" account not defined'),
        ("imports: [{stream: {account: X, subject: a}}]", '"X" account not defined'),
        ("imports: [{stream: {account: X}}]", "Expect an account name and a subject"),
        ("imports: [{stream: {account: X, subject: a}, to: b, prefix: c}]", "'prefix' and a 'to'"),
        ("imports: [{service: {account: X, subject: a}, allow_trace: on}]", "non-stream"),
        ("imports: [{service: {account: X, subject: a}}, {service: {account: X, subject: a}}]",
         "Duplicate service import"),
    ],
)  # fmt: skip
def test_bad_sharing_between_accounts_is_refused(text: str, words: str) -> None:
    (found,) = problems(f"accounts {{\n A {{ {text} }}\n}}")

    assert found.startswith("a.conf:2: ")
    assert words in found


def test_a_file_is_loaded_with_its_includes(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("port: $PORT")
    (tmp_path / "main.conf").write_text("include more.conf\nserver_name: one")

    settings = load_file(str(tmp_path / "main.conf"), {"PORT": "4333"})

    assert (settings.port, settings.server_name) == (4333, "one")
    assert settings.config_file == str(tmp_path / "main.conf")
    assert settings.digest.startswith("sha256:")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigRefused, match=r"^nowhere\.conf: cannot read the configuration: No"):
        load_file("nowhere.conf", {})


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("cert_file: a", "missing 'key_file'"),
        ("key_file: a", "missing 'cert_file'"),
        ("verify: on", "expected 'cert_file' and 'key_file', or 'certs'"),
        (f"{PAIR}, certs: [{{cert_file: a, key_file: b}}]", "cannot combine"),
        ("certs: [{cert_file: a}]", "needs both"),
        (f"{PAIR}, first: maybe", "true, false, auto or a duration"),
        (f"{PAIR}, cipher_suites: []", "cannot be empty"),
        (f"{PAIR}, cipher_suites: [X]", "unrecognized cipher"),
        (f"{PAIR}, cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "removed from OpenSSL"),
        (f"{PAIR}, cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]", "insecure cipher suites"),
        (f"{PAIR}, curve_preferences: [X]", "unrecognized curve"),
        (f"{PAIR}, pinned_certs: [X]", "64 hexadecimal digits"),
        (f"{PAIR}, min_version: '1.1'", "expected one of 1.2, 1.3"),
        (f"x: on, {PAIR}, verify: $x", 'unknown field "x"'),
        ("cert_file: nowhere, key_file: nowhere", "open nowhere: No such file"),
        (PAIR.replace("server-key", "other-key"), "belong together"),
        (PAIR.replace("server-key", "locked-key"), "without passphrase"),
        (f"{PAIR}, ca_file: nowhere", "open nowhere: No such file"),
        (f"{PAIR}, ca_file: '{PEMS / 'server-key.pem'}'", "failed to parse root ca"),
    ],
)
def test_bad_tls_is_refused(block: str, words: str) -> None:
    (found,) = problems(f"\ntls {{ {block} }}")

    assert found.startswith("a.conf:2: ")
    assert words in found


def test_tls_may_have_several_certificates() -> None:
    tls = load(f"tls {{ certs: [{{ {PAIR} }}] }}").tls

    assert tls is not None
    assert tls.pairs() == (
        Certificate(
            cert_file=str(PEMS / "server-cert.pem"), key_file=str(PEMS / "server-key.pem")
        ),
    )
    assert Tls(cert_file="a", key_file="b").pairs()[0].key_file == "b"


def test_the_name_of_a_user_is_its_nkey_if_it_has_one() -> None:
    assert [User(user="a").name, User(nkey="U").name] == ["a", "U"]


def test_the_limits_of_batches_reach_the_engine() -> None:
    """Atomic and fast; ADR-50's numbers by default."""
    plain = batch_limits(load(""))
    told = batch_limits(
        load(
            "jetspark { atomic { messages: 5, per_stream: 6, per_server: 7, timeout: 3s }\n"
            "fast { per_stream: 8, per_server: 9 }\nmemory { batches: 1MB } }"
        )
    )

    assert (plain.atomic_messages, plain.atomic_per_stream, plain.atomic_per_server) == (
        1000, 50, 1000,
    )  # fmt: skip
    assert (told.atomic_messages, told.atomic_per_stream, told.atomic_per_server) == (5, 6, 7)
    assert (told.fast_per_stream, told.fast_per_server) == ([8, 8], [9, 9])
    assert (told.idle_ns, told.staged_bytes) == (seconds(3), mib(1))
