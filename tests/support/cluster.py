"""A cluster of three real nats-servers with JetStream, whose nodes can be killed and restarted."""

import asyncio
import signal
from pathlib import Path

from tests.support.scripted import unused_port
from tests.support.servers import ServerProcess

from jetspark import StreamConfig, connect
from jetspark.errors import Error

NODES = 3
_SYSTEM_ACCOUNT = """
accounts { SYS { users: [{ user: admin, password: secret }] },
  APP { jetstream: enabled, users: [{ user: app, password: app }] } }
system_account: SYS
no_auth_user: app
"""
CONFIG = """
server_name: "{name}"
lame_duck_duration: "30s"
lame_duck_grace_period: "1s"
jetstream: enabled
{accounts}
cluster {{ name: "C1", listen: "127.0.0.1:{port}", advertise: "{told}", routes: [{routes}] }}
"""


class Cluster:
    """Three nodes; ``urls`` are theirs, whether they run or not.

    ``behind`` puts proxies before the routes of the last node: it maps the route port of another
    node to the port of its proxy. Servers tell each other where to dial, so nodes advertise the
    proxies, and the last one a port where no one listens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        route_ports: list[int] | None = None,
        behind: dict[int, int] | None = None,
        system_account: bool = False,
    ) -> None:
        """``system_account``: its user is admin, with the password secret."""
        self._folder = folder
        self._accounts = _SYSTEM_ACCOUNT if system_account else ""
        self._route_ports = route_ports or [unused_port() for _ in range(NODES)]
        self._behind = behind or {}
        self._client_ports = [unused_port() for _ in range(NODES)]
        self._nodes: list[ServerProcess | None] = [None] * NODES
        for node in range(NODES):
            self.start(node)

    @property
    def urls(self) -> list[str]:
        """Client URLs of all nodes."""
        return [f"nats://127.0.0.1:{port}" for port in self._client_ports]

    def start(self, node: int) -> None:
        """Start a node, or start it again with the store it had."""
        own = self._route_ports[node]
        told, dialled = own, self._route_ports
        if self._behind:
            last = node == NODES - 1
            dialled = [*self._behind.values()] if last else [*self._behind]
            told = unused_port() if last else self._behind[own]
        config = self._folder / f"node{node}.conf"
        store = self._folder / f"store{node}"
        config.write_text(
            CONFIG.format(
                name=f"n{node}",
                accounts=self._accounts,
                port=own,
                told=f"127.0.0.1:{told}",
                routes=", ".join(f'"nats://127.0.0.1:{port}"' for port in dialled),
            )
        )
        self._nodes[node] = ServerProcess(
            "nats-server", store, "-c", str(config), port=str(self._client_ports[node])
        )

    def kill(self, node: int) -> None:
        """End a node silently (SIGKILL)."""
        process = self._nodes[node]
        if process is not None:
            process.kill()
            self._nodes[node] = None

    def lame_duck(self, node: int) -> None:
        """Ask a node to shut down gently: it notifies its clients and then closes them."""
        self._signal(node, signal.SIGUSR2)

    def pause(self, node: int) -> None:
        """Stop a node where it is: it answers nothing and keeps its connections."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a paused node continue."""
        self._signal(node, signal.SIGCONT)

    def node_of(self, address: str) -> int:
        """The node whose client address is ``host:port``."""
        return self._client_ports.index(int(address.rpartition(":")[2]))

    def close(self) -> None:
        """End all nodes."""
        for node in range(NODES):
            self.kill(node)

    async def wait_ready(self, seconds: float = 30.0) -> None:
        """Wait until every running node serves JetStream and they can hold a stream together."""
        running = [url for node, url in enumerate(self.urls) if self._nodes[node] is not None]
        async with asyncio.timeout(seconds):
            for url in running:
                await self._wait_node(url, len(running))

    async def _wait_node(self, url: str, replicas: int) -> None:
        probe = StreamConfig(name="PROBE", subjects=("probe",), num_replicas=replicas)
        while True:
            try:
                async with await connect(url, timeout=1.0, ignore_discovered=True) as nc:
                    await nc.jetstream().create_stream(probe)
                    await nc.jetstream().delete_stream("PROBE")
                    return
            except Error:
                # Peers that are still away: "no suitable peers", no leader, time-outs.
                await asyncio.sleep(0.1)

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self._nodes[node]
        assert process is not None, f"node {node} does not run"
        process.process.send_signal(number)
