"""`-V` and `-DV`: the protocol in the log, in nats-server's words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.campaigns.served import Served


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
