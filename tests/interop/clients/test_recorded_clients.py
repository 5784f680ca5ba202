"""What the new Python client (nats-core 0.2) and the Rust client (async-nats 0.42) send.

Both write null for what is not set. Recorded are all lines of nats-core, and the CONNECT and pull
of async-nats; its other requests have null in every field that may hold one. These run everywhere;
nats-core itself runs where a Python of 3.13 or newer is found, which it needs.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import inspect
from tests.support.prober import Prober, outcome
from tests.support.served import Served

from jetspark.api import consumer as consumers
from jetspark.api import message as messages
from jetspark.api import stream as streams
from jetspark.api.base import ApiStruct

CONNECTS: Final = {
    "nats-core": (
        b'{"verbose": false, "pedantic": false, "tls_required": false, "lang": "python", '
        b'"version": "0.2.0", "protocol": 1, "headers": true, "no_responders": true, "echo": true}'
    ),
    "async-nats": (
        b'{"verbose":false,"pedantic":false,"jwt":null,"nkey":null,"sig":null,"name":null,'
        b'"echo":true,"lang":"rust","version":"0.42.0","protocol":1,"tls_required":false,'
        b'"user":null,"pass":null,"auth_token":null,"headers":true,"no_responders":true}'
    ),
}
# In order: subject, body, and what is in the answer.
NATS_CORE: Final = (
    ("$JS.API.STREAM.CREATE.NEW",
     (b'{"max_age": 0, "max_bytes": -1, "max_consumers": -1, "max_msgs": -1, "max_msg_size": -1, '
     b'"num_replicas": 1, "retention": "limits", "storage": "file", "name": "NEW", '
     b'"subjects": ["new.>"]}'), b'"did_create":true'),
    ("new.0", b"0", b'"seq":1'),
    ("$JS.API.CONSUMER.CREATE.NEW.c",
     (b'{"action": "create", "stream_name": "NEW", "config": {"ack_policy": "explicit", '
     b'"durable_name": "c", "name": "c"}}'), b'"num_pending":1'),
    ("$JS.API.CONSUMER.MSG.NEXT.NEW.c",
     b'{"batch": 3, "no_wait": false, "expires": 200000000}', b"0"),
    ("$JS.API.STREAM.MSG.GET.NEW", b'{"seq": 1}', b'"data":"MA=="'),
    ("$JS.API.STREAM.NAMES", b'{"offset": 0, "subject": null}', b'"streams":["NEW"]'),
    ("$JS.API.STREAM.DELETE.NEW", b"", b'"success":true'),
)  # fmt: skip
ASYNC_NATS: Final = (
    ("$JS.API.STREAM.CREATE.NEW",
     (b'{"name":"NEW","max_bytes":0,"max_msgs":0,"max_msgs_per_subject":0,"discard":"old",'
     b'"subjects":["new.>"],"retention":"limits","max_consumers":0,"max_age":0,'
     b'"storage":"file","num_replicas":1,"placement":null,"mirror":null,'
     b'"sources":null,"republish":null,"subject_transform":null,"first_seq":null}'),
     b'"did_create":true'),
    ("new.0", b"0", b'"seq":1'),
    ("$JS.API.CONSUMER.CREATE.NEW.c",
     (b'{"stream_name":"NEW","config":{"durable_name":"c","name":"c","description":null,'
     b'"deliver_policy":"all","ack_policy":"explicit","ack_wait":0,"filter_subject":"",'
     b'"replay_policy":"instant","backoff":null,"pause_until":null,"priority_groups":null},'
     b'"action":""}'), b'"num_pending":1'),
    ("$JS.API.CONSUMER.MSG.NEXT.NEW.c",
     (b'{"batch":1,"expires":null,"no_wait":true,"max_bytes":0,"idle_heartbeat":0,'
     b'"min_pending":null,"min_ack_pending":null,"group":null,"id":null}'), b"0"),
    ("$JS.API.DIRECT.GET.NEW", b'{"seq":1,"next_by_subj":null,"last_by_subj":null}', b""),
    ("$JS.API.STREAM.PURGE.NEW", b'{"seq":null,"filter":null,"keep":null}', b'"purged":1'),
    ("$JS.API.STREAM.INFO.NEW", b'{"subjects_filter":null,"deleted_details":null,"offset":null}',
     b'"messages":0'),
    ("$JS.API.STREAM.DELETE.NEW", b"{}", b'"success":true'),
)  # fmt: skip
RECORDED: Final = {"nats-core": NATS_CORE, "async-nats": ASYNC_NATS}


@pytest.fixture
def server(tmp_path: Path) -> Any:
    served = Served(tmp_path / "store", "-p", "-1", "-js")
    yield served
    served.end()


@pytest.mark.parametrize("name", CONNECTS)
def test_a_recorded_handshake_is_answered(name: str, server: Served) -> None:
    host, _, port = server.url.removeprefix("nats://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        stream = client.makefile("rb")
        info = json.loads(stream.readline().removeprefix(b"INFO "))
        # nats-core refuses an INFO without any of these; all of nats-server's exist.
        for field in ("server_id", "server_name", "version", "go", "host", "port", "headers",
                      "max_payload", "proto", "client_id", "git_commit"):  # fmt: skip
            assert field in info
        client.sendall(b"CONNECT " + CONNECTS[name] + b"\r\nPING\r\n")
        assert stream.readline() == b"PONG\r\n"
        stream.close()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_answered(name: str, server: Served) -> None:
    prober = Prober(server.url)
    for subject, body, expected in RECORDED[name]:
        headers, payload = prober.answer(subject, body)
        assert expected in payload, (subject, headers, payload)
        assert b'"error"' not in payload
    prober.close()


VERBS: Final[tuple[tuple[str, type[ApiStruct], dict[str, Any]], ...]] = (
    ("STREAM.CREATE.S", streams.StreamCreateRequest, {"name": "S", "subjects": ["s.>"],
                                                      "allow_direct": True}),
    ("STREAM.UPDATE.S", streams.StreamCreateRequest, {"name": "S", "subjects": ["s.>"],
                                                      "allow_direct": True}),
    ("STREAM.NAMES", streams.StreamNamesRequest, {}),
    ("STREAM.LIST", streams.StreamListRequest, {}),
    ("STREAM.INFO.S", streams.StreamInfoRequest, {}),
    ("STREAM.MSG.GET.S", messages.MsgGetRequest, {"seq": 1}),
    ("DIRECT.GET.S", messages.MsgGetRequest, {"seq": 1}),
    ("CONSUMER.CREATE.S.c", consumers.ConsumerCreateRequest, {"stream_name": "S"}),
    ("CONSUMER.DURABLE.CREATE.S.c", consumers.ConsumerCreateRequest, {"stream_name": "S"}),
    ("CONSUMER.NAMES.S", consumers.ConsumersRequest, {}),
    ("CONSUMER.LIST.S", consumers.ConsumersRequest, {}),
    ("CONSUMER.MSG.NEXT.S.c", consumers.PullRequest, {"no_wait": True}),
    ("CONSUMER.PAUSE.S.c", consumers.PauseRequest, {}),
    ("CONSUMER.RESET.S.c", consumers.ResetRequest, {}),
    ("CONSUMER.EXPLAIN.S.c", consumers.ExplainRequest, {"seq": 1}),
    ("STREAM.SNAPSHOT.S", streams.SnapshotRequest, {"deliver_subject": "nobody"}),
    ("STREAM.MSG.DELETE.S", messages.MsgDeleteRequest, {"seq": 1}),
    ("STREAM.PURGE.S", streams.PurgeRequest, {}),
)  # fmt: skip


def with_nulls(model: type, settled: dict[str, Any]) -> dict[str, Any]:
    """A request with null in every field but those that it needs; words may not be null."""
    info = inspect.type_info(model)
    assert isinstance(info, inspect.StructType)
    nulls = {
        field.encode_name: None
        for field in info.fields
        if not isinstance(field.type, inspect.EnumType)
    }
    return nulls | settled


def test_null_is_absent_in_every_field_of_every_request(server: Served) -> None:
    prober = Prober(server.url)
    for verb, model, settled in VERBS:
        whole = dict(settled)
        if verb.startswith(("CONSUMER.CREATE", "CONSUMER.DURABLE")):
            needed = {"durable_name": "c", "ack_policy": "explicit"}
            whole["config"] = with_nulls(consumers.ConsumerConfig, needed)
        body = json.dumps(with_nulls(model, whole)).encode()
        answer = prober.answer(f"$JS.API.{verb}", body)
        sends = verb.startswith(("CONSUMER.MSG.NEXT", "DIRECT.GET"))
        assert outcome([answer]) == ("message" if sends else "ok"), (verb, answer)
        if verb.startswith("STREAM.CREATE"):
            prober.answer("s.a", b"x")
    prober.close()


def works(python: str) -> bool:
    """Whether it is a Python at all: the shims of version managers exist without one."""
    done = subprocess.run([python, "-c", ""], capture_output=True, check=False)
    return done.returncode == 0


def newer_python() -> str:
    """A Python that nats-core runs on; skips when there is none, or it cannot be installed."""
    named = [shutil.which(f"python3.{n}") for n in (13, 14, 15)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named += [str(each) for each in sorted(pyenv.glob("3.1[3-9]*/bin/python3"))]
    usable = [each for each in named if each and works(each)]
    if not usable:
        pytest.skip("nats-core needs Python 3.13 or newer, and none was found")
    found = usable[0]
    home = Path(sys.prefix) / "nats-core"
    python = str(home / "bin" / "python")
    if not Path(python).exists():
        made = subprocess.run([found, "-m", "venv", home], capture_output=True, check=False)
        if made.returncode:
            shutil.rmtree(home, ignore_errors=True)
            pytest.skip(f"{found} makes no environment: {made.stderr[-200:]!r}")
    probe = [python, "-c", "import nats.client, nats.jetstream"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        install = [python, "-m", "pip", "install", "-q", "nats-core", "nats-jetstream", "nkeys"]
        done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            pytest.skip(f"nats-core cannot be installed: {done.stderr[-200:]}")
    return python


@pytest.mark.timeout(600)
def test_the_new_python_client_works(server: Served) -> None:
    script = Path(__file__).with_name("nats_core_script.py")
    done = subprocess.run(
        [newer_python(), str(script), server.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
