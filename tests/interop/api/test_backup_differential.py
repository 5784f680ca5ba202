"""STREAM.SNAPSHOT and STREAM.RESTORE on nats-server 2.15.1 and ours.

The archives are each server's own, so what is compared is everything around them: answers, where
chunks go and how they are acknowledged, how both end, and the errors. A whole stream then goes
through our server in processes of their own, also in the way of `nats stream backup`.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.both_servers import jetspark_server, masked, nats_server
from tests.support.raw_requests import RawClient, Reply

CREATE: Final = b'{"name":"S","subjects":["s.>"]}'
SNAPSHOT: Final = "$JS.API.STREAM.SNAPSHOT"
GET: Final = "$JS.API.STREAM.MSG.GET"
RESTORE: Final = "$JS.API.STREAM.RESTORE"
ID: Final = re.compile(r"[0-9A-Za-z]{22}")


def filled(client: RawClient, count: int) -> None:
    client.ask("$JS.API.STREAM.CREATE.S", CREATE)
    for number in range(count):
        # Bytes that do not shrink, so that both archives have many chunks.
        body = b"".join((number * 7919 + n * n).to_bytes(4, "big") for n in range(700))
        client.ask(f"s.{number % 5}", body)


def snapshot(client: RawClient, **options: object) -> tuple[dict[str, Any], list[Any], bytes]:
    """The answer, what each message of the snapshot looked like, and the archive."""
    request = json.dumps({"deliver_subject": "snap", **options}).encode()
    (reply,) = client.ask(f"{SNAPSHOT}.S", request)
    shapes, archive = received(client)
    return json.loads(reply.payload), shapes, archive


def received(client: RawClient) -> tuple[list[Any], bytes]:
    """What each message of a snapshot looked like, and the archive; chunks are acknowledged."""
    shapes: list[Any] = []
    archive = b""
    while True:
        _, to, headers, payload = client.heard_whole()
        size = re.compile(rf"\.{len(payload)}\.(\d+)$")
        shapes.append((ID.sub("ID", size.sub(r".SIZE.\1", to)), headers, bool(payload)))
        archive += payload
        if not payload:
            return shapes, archive
        if to:
            client.tell(to, b"")


def restored(client: RawClient, name: str, answer: dict[str, Any], archive: bytes) -> list[Any]:
    config = {**answer["config"], "name": name, "subjects": [f"{name.lower()}.>"]}
    request = json.dumps({"config": config, "state": answer["state"]}).encode()
    said = [client.ask(f"{RESTORE}.{name}", request)]
    to = json.loads(said[0][0].payload)["deliver_subject"]
    said += [client.ask(to, archive[at : at + 100_000]) for at in range(0, len(archive), 100_000)]
    said += [client.ask(to), ended(client, to), client.ask(f"$JS.API.STREAM.INFO.{name}")]
    return [
        [(ID.sub("ID", headers), ID.sub("ID", json.dumps(body))) for headers, body in masked(each)]
        for each in said
    ]


def ended(client: RawClient, to: str) -> list[Reply]:
    """Return the answer to a request that comes after the end of a restore: no responders.

    nats-server removes its subscription shortly after its last answer, and never answers what
    arrives between the two.
    """
    while True:
        if answers := client.ask(to, wait_seconds=1):
            return answers


def around(client: RawClient) -> dict[str, Any]:
    """Everything about backups that does not depend on the archive."""
    filled(client, 200)
    client.listen("snap")
    answer, shapes, archive = snapshot(client, chunk_size=10_000, window_size=50_000)
    ends = restored(client, "T", answer, archive)
    body = {"config": {**answer["config"], "name": "U"}, "state": answer["state"]}
    errors = [
        masked(client.ask(f"{SNAPSHOT}.{name}", request))
        for name, request in (
            ("S", b""), ("S", b"{}"), ("S", b"x"), ("NONE", b'{"deliver_subject":"d"}'),
            ("S", b'{"deliver_subject":"a b"}'), ("S", b'{"deliver_subject":"a.*"}'),
            ("S", b'{"deliver_subject":"d","more":1}'),
        )
    ] + [
        masked(client.ask(f"{RESTORE}.{name}", request))
        for name, request in (
            ("S", json.dumps({**body, "config": answer["config"]}).encode()),
            ("T", json.dumps(body).encode()), ("U", b""), ("U", b"{}"), ("U", b"x"),
            ("U", json.dumps({**body, "more": 1}).encode()),
        )
    ]  # fmt: skip
    broken = restored(client, "V", answer, b"garbage")
    return {
        "answer": masked_answer(answer),
        "first": shapes[0],
        "second": shapes[1],
        "before the end": shapes[-2][0],
        "end": shapes[-1],
        "restored": [ends[0], ends[1], *ends[-3:]],
        "errors": errors,
        "broken": [re.sub(r"restore failed: [^\"]*", "restore failed", str(b)) for b in broken],
    }  # fmt: skip


def masked_answer(answer: dict[str, Any]) -> dict[str, Any]:
    for name in ("first_ts", "last_ts"):
        answer["state"][name] = "TIME"
    return answer


def test_backups_look_like_those_of_nats_server(tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as client:
        theirs = around(client)
    with jetspark_server(tmp_path / "ours", killed=True) as client:
        ours = around(client)

    for name, value in theirs.items():
        assert ours[name] == value, name


def test_a_backup_of_nats_server_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with nats_server(tmp_path / "theirs") as client:
        filled(client, 3)
        client.listen("snap")
        answer, _, archive = snapshot(client)
    with jetspark_server(tmp_path / "ours", killed=True) as client:
        said = restored(client, "T", answer, archive)

    assert "`jetspark stream export`" in said[2][0][1]
    assert "10059" in said[-1][0][1]


def test_a_stream_survives_the_way_through_a_backup_and_a_kill(tmp_path: Path) -> None:
    with jetspark_server(tmp_path / "ours", killed=True) as client:
        filled(client, 100)
        client.listen("snap")
        answer, _, archive = snapshot(client)
        restored(client, "T", answer, archive)

    with jetspark_server(tmp_path / "ours", killed=True) as client:
        messages = [
            [
                json.loads(client.ask(f"{GET}.{name}", b'{"seq":%d}' % seq)[0].payload)["message"]
                for seq in range(1, 101)
            ]
            for name in "ST"
        ]

    assert messages[0] == messages[1]
    assert messages[0][99]["seq"] == 100


def unpacked(archive: bytes) -> bytes:
    """What is in S2 framing, by the specification: every chunk is stored and checks."""
    assert archive.startswith(b"\xff\x06\x00\x00S2sTwO")
    at, found = 10, b""
    while at < len(archive):
        assert archive[at] == 1
        size = int.from_bytes(archive[at + 1 : at + 4], "little")
        check = int.from_bytes(archive[at + 4 : at + 8], "little")
        data = archive[at + 8 : at + 4 + size]
        rotated = check - 0xA282EAD8 & 0xFFFFFFFF
        assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc32c(data)
        found += data
        at += 4 + size
    return found


def crc32c(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


Server = Callable[[Path], AbstractContextManager[RawClient]]


@pytest.mark.parametrize("server", [nats_server, jetspark_server])
def test_a_tool_that_subscribes_after_its_request_gets_the_whole_archive(
    server: Server, tmp_path: Path
) -> None:
    """The way of `nats stream backup`: a wildcard of its own matches before it listens."""
    with server(tmp_path) as client:
        filled(client, 30)
        request = b'{"deliver_subject":"_INBOX.tool.snap","chunk_size":10000}'
        client.subscribe("_INBOX.tool.*", 7)
        (reply,) = client.ask(f"{SNAPSHOT}.S", request)
        time.sleep(0.3)
        client.unsubscribe(7)
        client.ask("$JS.API.INFO")
        early = client.all_heard()
        client.listen("_INBOX.tool.snap")
        _, archive = received(client)
        answer = json.loads(reply.payload)
        client.ask("$JS.API.STREAM.DELETE.S")
        config = {"config": answer["config"], "state": answer["state"]}
        (begun,) = client.ask(f"{RESTORE}.S", json.dumps(config).encode())
        to = json.loads(begun.payload)["deliver_subject"]
        for at in range(0, len(archive), 50_000):
            client.ask(to, archive[at : at + 50_000])
        (end,) = client.ask(to)

    assert early == []
    assert json.loads(end.payload)["state"]["messages"] == 30
    if server is jetspark_server:
        with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as tar:
            assert tar.getnames()[0] == "jetspark-backup.json"


@pytest.mark.parametrize("server", [nats_server, jetspark_server])
def test_a_wildcard_alone_gets_the_archive_after_two_seconds(
    server: Server, tmp_path: Path
) -> None:
    with server(tmp_path) as client:
        filled(client, 3)
        client.listen("snap.*")
        began = time.monotonic()
        client.ask(f"{SNAPSHOT}.S", b'{"deliver_subject":"snap.1"}')
        _, archive = received(client)

    assert archive
    assert time.monotonic() - began > 1.9


def test_nats_server_unpacks_our_archive_and_refuses_what_is_in_it(tmp_path: Path) -> None:
    with jetspark_server(tmp_path / "ours", killed=True) as client:
        filled(client, 50)
        client.listen("snap")
        answer, _, archive = snapshot(client)
    with nats_server(tmp_path / "theirs") as client:
        said = restored(client, "T", answer, archive)
        broken = restored(client, "U", answer, archive[:100_000] + b"x" + archive[100_001:])

    # It looks for the entries of its own layout in the tar; damage it finds by our checksums.
    assert re.search(r'"err_code": 10062.*meta.inf: no such file', said[-3][0][1])
    assert re.search(r'"err_code": 10062.*crc mismatch', broken[-3][0][1])
    assert "10059" in said[-1][0][1]
