"""The requests that the commands of the nats CLI send, next to nats-server 2.15.1.

Taken from the sources of natscli and jsm.go: what `nats stream add`, `edit`, `report`, `seal`,
`nats consumer add`, `edit`, `pause`, `report`, `nats kv add`, `history`, `revert`, `nats object
put`, `ls`, `seal` and `nats account info` ask for. The answers must be the same, field by field.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.both_servers import jetspark_server, masked, nats_server
from tests.support.raw_requests import RawClient

API: Final = "$JS.API."
UNLIMITED: Final = {
    "retention": "limits", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
    "max_msg_size": -1, "storage": "file", "num_replicas": 1, "allow_direct": True,
}  # fmt: skip
STREAM: Final = {
    **UNLIMITED, "name": "ORDERS", "subjects": ["ORDERS.*"], "max_msgs_per_subject": -1,
    "discard": "old", "duplicate_window": 120_000_000_000, "sealed": False, "deny_delete": False,
    "deny_purge": False, "allow_rollup_hdrs": False, "mirror_direct": False,
    "consumer_limits": {}, "allow_msg_ttl": False, "persist_mode": "default", "pedantic": False,
}  # fmt: skip
BUCKET: Final = {
    **UNLIMITED, "name": "KV_B", "description": "", "subjects": ["$KV.B.>"], "discard": "new",
    "max_msgs_per_subject": 5, "duplicate_window": 120_000_000_000, "deny_delete": True,
    "allow_rollup_hdrs": True, "allow_msg_ttl": True, "compression": "none",
    "subject_delete_marker_ttl": 3_600_000_000_000, "consumer_limits": {}, "metadata": None,
    "mirror_direct": False,
}  # fmt: skip
OBJECTS: Final = {
    **UNLIMITED, "name": "OBJ_O", "subjects": ["$O.O.C.>", "$O.O.M.>"], "discard": "new",
    "max_msgs_per_subject": -1, "allow_rollup_hdrs": True, "compression": "none",
}  # fmt: skip
CONSUMER: Final = {
    "ack_policy": "explicit", "ack_wait": 30_000_000_000, "deliver_policy": "all",
    "durable_name": "NEW", "name": "NEW", "max_ack_pending": 1000, "max_deliver": -1,
    "max_waiting": 512, "replay_policy": "instant", "num_replicas": 0,
}  # fmt: skip
# What reads keys and objects: an ordered consumer.
ORDERED: Final = {
    "ack_policy": "none", "max_deliver": 1, "replay_policy": "instant", "flow_control": True,
    "ack_wait": 79_200_000_000_000, "idle_heartbeat": 5_000_000_000, "num_replicas": 1,
    "mem_storage": True,
}  # fmt: skip
FILE: Final = b"x" * 100
META: Final = "$O.O.M." + base64.urlsafe_b64encode(b"f").decode()


class Step(NamedTuple):
    """One request of a command."""

    command: str
    subject: str
    body: bytes = b""
    headers: bytes = b""


def step(command: str, verb: str, body: dict[str, Any] | None = None) -> Step:
    return Step(command, API + verb, b"" if body is None else json.dumps(body).encode())


def message(command: str, subject: str, body: bytes, **headers: str) -> Step:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    block = f"NATS/1.0\r\n{lines}\r\n".encode() if headers else b""
    return Step(command, subject, body, block)


def created(command: str, action: str, **config: object) -> Step:
    name = str(config.get("name", "NEW"))
    body = {
        "stream_name": "ORDERS", "config": {**CONSUMER, **config}, "action": action,
        "pedantic": False,
    }  # fmt: skip
    return step(command, f"CONSUMER.CREATE.ORDERS.{name}", body)


def ordered(command: str, stream: str, name: str, policy: str, subject: str) -> Step:
    config = {
        **ORDERED, "name": name, "deliver_policy": policy, "filter_subject": subject,
        "deliver_subject": f"_INBOX.{name}",
    }  # fmt: skip
    body = {"stream_name": stream, "config": config, "action": ""}
    return step(command, f"CONSUMER.CREATE.{stream}.{name}.{subject}", body)


STREAMS: Final = (
    step("stream add", "STREAM.CREATE.ORDERS", STREAM),
    step("stream add, again", "STREAM.CREATE.ORDERS", STREAM),
    step("stream edit", "STREAM.UPDATE.ORDERS", {**STREAM, "max_msgs": 9, "description": "x"}),
    *(message(f"pub {n}", f"ORDERS.{n}", b"m") for n in range(3)),
    step("stream info", "STREAM.INFO.ORDERS", {"offset": 0}),
    step("stream subjects", "STREAM.INFO.ORDERS", {"subjects_filter": ">", "offset": 0}),
    step("stream state", "STREAM.INFO.ORDERS", {"deleted_details": True}),
    step("stream ls", "STREAM.LIST", {"offset": 0}),
    step("stream find", "STREAM.NAMES", {"offset": 0, "subject": "ORDERS.1"}),
    step("stream get", "STREAM.MSG.GET.ORDERS", {"seq": 2}),
    step("stream get --last-for", "STREAM.MSG.GET.ORDERS", {"last_by_subj": "ORDERS.1"}),
    step("stream rmm", "STREAM.MSG.DELETE.ORDERS", {"seq": 2}),
    step("stream report", "STREAM.INFO.ORDERS"),
    created("consumer add", "create"),
    created("consumer add, again", "create"),
    created("consumer edit", "update", description="d"),
    created("consumer edit, none", "update", name="NONE", durable_name="NONE"),
    step("consumer info", "CONSUMER.INFO.ORDERS.NEW"),
    step("consumer ls", "CONSUMER.NAMES.ORDERS", {"offset": 0}),
    step("consumer report", "CONSUMER.LIST.ORDERS", {"offset": 0}),
    step("consumer pause", "CONSUMER.PAUSE.ORDERS.NEW", {"pause_until": "2200-01-01T00:00:00Z"}),
    step("consumer resume", "CONSUMER.PAUSE.ORDERS.NEW", {"pause_until": "0001-01-01T00:00:00Z"}),
    step("consumer resume, bare", "CONSUMER.PAUSE.ORDERS.NEW"),
    step("consumer rm", "CONSUMER.DELETE.ORDERS.NEW"),
    step("consumer rm, again", "CONSUMER.DELETE.ORDERS.NEW"),
    step("stream cluster step-down", "STREAM.LEADER.STEPDOWN.ORDERS", {}),
    step("stream cluster peer-remove", "STREAM.PEER.REMOVE.ORDERS", {"peer": "x"}),
    step("stream purge", "STREAM.PURGE.ORDERS", {"keep": 1}),
    step("stream seal", "STREAM.UPDATE.ORDERS", {**STREAM, "sealed": True}),
    step("stream edit, sealed", "STREAM.UPDATE.ORDERS", STREAM),
    step("stream rm", "STREAM.DELETE.ORDERS"),
    step("stream rm, again", "STREAM.DELETE.ORDERS"),
)
KEYS: Final = (
    step("kv add", "STREAM.CREATE.KV_B", BUCKET),
    *(message(f"kv put {n}", "$KV.B.k", b"v%d" % n) for n in range(3)),
    step("kv get --revision", "DIRECT.GET.KV_B", {"seq": 2}),
    step("kv get", "DIRECT.GET.KV_B.$KV.B.k"),
    ordered("kv history", "KV_B", "history", "all", "$KV.B.k"),
    message("kv revert", "$KV.B.k", b"v0", Nats_Expected_Last_Subject_Sequence="3"),
    message("kv revert, late", "$KV.B.k", b"v0", Nats_Expected_Last_Subject_Sequence="3"),
    message("kv del", "$KV.B.k", b"", KV_Operation="DEL"),
    message("kv purge", "$KV.B.k", b"", KV_Operation="PURGE", Nats_Rollup="sub", Nats_TTL="1h"),
    step("kv compact", "STREAM.PURGE.KV_B", {"filter": "$KV.B.k", "keep": 1}),
    step("kv info", "STREAM.INFO.KV_B"),
    step("kv ls", "STREAM.INFO.KV_B", {"subjects_filter": "$KV.B.>"}),
    step("kv rm", "STREAM.DELETE.KV_B"),
)
STORED: Final = {
    "name": "f", "options": {"max_chunk_size": 131072}, "bucket": "O", "nuid": "n1", "size": 100,
    "mtime": "0001-01-01T00:00:00Z", "chunks": 1,
    "digest": "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(FILE).digest()).decode(),
}  # fmt: skip
FILES: Final = (
    step("object add", "STREAM.CREATE.OBJ_O", OBJECTS),
    message("object put, chunk", "$O.O.C.n1", FILE),
    message("object put", META, json.dumps(STORED).encode(), Nats_Rollup="sub"),
    step("object info", f"DIRECT.GET.OBJ_O.{META}"),
    ordered("object ls", "OBJ_O", "list", "last_per_subject", "$O.O.M.>"),
    step("object info, store", "STREAM.INFO.OBJ_O"),
    step("object seal", "STREAM.UPDATE.OBJ_O", {**OBJECTS, "sealed": True}),
    message("object put, sealed", "$O.O.C.n2", FILE),
    step("object del, sealed", "STREAM.PURGE.OBJ_O", {"filter": "$O.O.C.n1"}),
    step("account info", "INFO"),
)


def played(client: RawClient) -> dict[str, Any]:
    found = {
        each.command: masked(client.ask(each.subject, each.body, each.headers))
        for each in (*STREAMS, *KEYS, *FILES)
    }
    # It is as much as is left to the year 2200.
    assert found["consumer pause"][0][1].pop("pause_remaining") > 5 * 10**18
    return found


def test_every_command_is_answered_as_by_nats_server(tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as theirs, jetspark_server(tmp_path / "ours") as ours:
        expected, found = played(theirs), played(ours)

    different = {name: (found[name], expected[name]) for name in found}
    assert {name: pair for name, pair in different.items() if pair[0] != pair[1]} == {}


def test_account_info_says_who_the_user_is_and_what_it_may(tmp_path: Path) -> None:
    config = tmp_path / "users.conf"
    config.write_text(
        """authorization { users: [{user: u, password: p, permissions: {
            publish: {allow: ["a.>", "$SYS.REQ.USER.INFO"], deny: "a.b"}
            subscribe: ">", allow_responses: true}}] }"""
    )
    said = []
    for run, settings, options in (
        (1, None, ""), (2, config, '"user":"u","pass":"p",'),
    ):  # fmt: skip
        with (
            nats_server(tmp_path / f"theirs{run}", options, settings) as theirs,
            jetspark_server(tmp_path / f"ours{run}", options, settings) as ours,
        ):
            said += [who(theirs), who(ours)]

    assert said[0] == said[1] == {"user": "", "account": "$G", "account_name": "$G"}
    for one in said[2:]:  # nats-server lists them in any order
        one["permissions"]["publish"]["allow"].sort()
    assert said[2] == said[3]
    assert said[2]["permissions"]["publish"]["deny"] == ["a.b"]


def who(client: RawClient) -> Any:
    return json.loads(client.ask("$SYS.REQ.USER.INFO")[0].payload)["data"]
