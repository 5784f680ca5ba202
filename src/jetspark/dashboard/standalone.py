"""A dashboard as a process of its own, over any NATS deployment."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from jetspark.client.connect_arguments import ConnectArguments
from jetspark.dashboard.app import Dashboard
from jetspark.dashboard.deployment import Deployment, Target
from jetspark.dashboard.monitoring import MonitorAddress, Monitoring, discover
from jetspark.errors import ConnectionClosed
from jetspark.server.monitor.web.hosts import HostCheck
from jetspark.server.monitor.web.http import MonitorPort
from jetspark.server.monitor.web.password import Password

LOOK_S = 5.0


class StandaloneDashboard:
    """A dashboard with its own port: ``async with`` it, then ``listen``."""

    def __init__(
        self,
        url: str,
        arguments: ConnectArguments,
        *,
        domain: str = "",
        prefix: str = "",
        monitor: str = "",
        token: str = "",
        hosts: tuple[str, ...] = (),
        is_writable: bool = False,
    ) -> None:
        if is_writable and not token:
            raise ValueError("a writable dashboard needs a token")
        target = Target(url=url, arguments=arguments, domain=domain, prefix=prefix)
        self._deployment = Deployment(lambda: target)
        self._address = MonitorAddress(url=monitor) if monitor else None
        self._given = bool(monitor)
        self._dashboard = Dashboard(
            self._deployment,
            Monitoring(lambda: self._address),
            password=Password(token) if token else None,
            is_writable=is_writable,
        )
        self._port = MonitorPort(HostCheck(self._dashboard.app, hosts))
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, host: str, port: int) -> int:
        """Open the port; returns its number."""
        return await self._port.start(host, port)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._dashboard.run())]
        if not self._given:
            self._tasks.append(asyncio.create_task(self._look_for_monitoring()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._port.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_for_monitoring(self) -> None:
        """Use port 8222 of the connected server, if it is this server's."""
        while True:
            with contextlib.suppress(ConnectionClosed):
                client = self._deployment.client
                host = urlsplit(f"//{client.connected_server}").hostname or "127.0.0.1"
                self._address = await discover(host, client.server_info.server_id)
            await asyncio.sleep(LOOK_S)
