"""The code that answers at the monitoring port is loaded while clients are served already."""

import subprocess
import sys

# Own processes: this one may have loaded that code before.
_ANSWERS = """
import asyncio, sys, threading, urllib.request
from jetspark.server.server import Server

async def main():
    async with Server(http_port=-1) as server:
        print("uvicorn" in sys.modules, "starlette" in sys.modules)
        url = server.monitor_url + "/healthz"
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        print(answer)
        await server.code_loaded()
        print([each.name for each in threading.enumerate() if each.name == "jetspark-monitoring"])

asyncio.run(main())
"""
_STOPS = """
import asyncio, socket
from jetspark.server.server import Server

async def main():
    for _ in range(2):
        async with Server(http_port=-1) as server:
            port = server.http_port
        with socket.socket() as asked:
            print(asked.connect_ex(("127.0.0.1", port)) != 0)

asyncio.run(main())
"""
_DAMAGED = """
import asyncio, logging, sys
import jetspark.server.monitor.monitor as monitor
from jetspark.server.server import Server

logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
monitor.CODE = ("jetspark.errors.nothing",)

async def main():
    async with Server(http_port=-1) as server:
        await server.code_loaded()
        print(server.listening)

asyncio.run(main())
"""


def printed(script: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_request_right_after_the_start_waits_for_the_code_that_answers_it() -> None:
    assert printed(_ANSWERS) == ["False False", '{"status":"ok"}', "[]"]


def test_a_server_that_ends_while_that_code_is_loaded_closes_its_port() -> None:
    assert printed(_STOPS) == ["True", "True"]


def test_a_server_without_that_code_serves_its_clients_and_says_so() -> None:
    lines = printed(_DAMAGED)

    assert lines[0].startswith("CRITICAL The monitoring ports are closed: No module named")
    assert lines[-1] == "True"
