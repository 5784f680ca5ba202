"""`-V` and `-DV`: the protocol in the log, in nats-server's words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from tests.support.served import Served


async def test_the_protocol_is_logged_as_nats_server_logs_it(serve: Callable[..., Served]) -> None:
    served = serve("-p", "-1", "-DV", "--max_traced_msg_len", "3")
    host, _, port = served.url.removeprefix("nats://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b'CONNECT {"verbose":false,"headers":true,"pass":"secret"}\r\nSUB a q 1\r\n'
        b"PUB a r 5\r\nhello\r\nUNSUB 1\r\nPING\r\n"
    )
    await reader.readuntil(b"PONG\r\n")
    writer.close()
    await writer.wait_closed()
    served.stop()

    traced = [line.partition("[TRC] ")[2].partition(" - ")[2] for line in served.lines]
    said = [line.partition(" - ")[2].strip() for line in traced if line]
    assert [line for line in said if "INFO" not in line] == [
        '<<- [CONNECT {"verbose":false,"headers":true,"pass":"[REDACTED]"}]',
        "<<- [SUB a q 1]",
        "<<- [PUB a r 5]",
        '<<- MSG_PAYLOAD: ["hel"...]',
        "<<- [UNSUB 1]",
        "<<- [PING]",
        "->> [MSG a 1 r 5]",
        '->> MSG_PAYLOAD: ["hel"...]',
        "->> [PONG]",
    ]


SECRETS: Final = [
    rb'{"pass":"hunter2"}',
    rb'{"PASS":"hunter2"}',
    rb'{"p\u0061ss":"hunter2"}',
    rb'{"pass":"hun\u0074er2"}',
    rb'{"pass" : "hunter2" , "user":"ann"}',
    rb'{"pass":["hunter2"]}',
    rb'{"user":{"pass":"hunter2"}}',
    rb'{"auth_token":{"a":["hunter2"]}}',
    rb'{"AUTH_TOKEN":"hunter2"}',
    rb'{"jwt":"hunter2","sig":"hunter2"}',
    rb'{"password":"hunter2"}',
    rb'{"pass":"hunter2"',
    rb'{"pass":"hunter2',
    rb'{"pass":hunter2}',
    rb"{'pass':'hunter2'}",
    rb'["pass","hunter2"]',
    rb'"hunter2"',
    rb"hunter2",
    b'{"pass":"hunter2\xff"}',
    rb'{"pass":"x","pass":"hunter2"}',
    b"[" * 3000 + rb'"hunter2"' + b"]" * 3000,
]


async def test_no_log_shows_a_password_whatever_connect_looks_like(
    serve: Callable[..., Served],
) -> None:
    served = serve("-p", "-1", "-DVV")
    host, _, port = served.url.removeprefix("nats://").rpartition(":")
    for body in SECRETS:
        reader, writer = await asyncio.open_connection(host, int(port))
        await reader.readline()
        # In one piece, and in two: what is logged does not depend on it.
        for cut in (len(body) // 2, len(body)):
            with contextlib.suppress(ConnectionError):
                writer.write(b"CONNECT " + body[:cut])
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(body[cut:] + b"\r\nPING\r\n")
                await reader.readline()
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    served.stop()

    assert any("CONNECT" in line for line in served.lines)
    assert [line for line in served.lines if "hunter2" in line or "hun\\u" in line] == []
