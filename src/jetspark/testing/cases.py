"""Test cases for unittest: a server and a client for every test, in ``self``."""

import inspect
import unittest
from typing import TYPE_CHECKING

from jetspark.testing.servers import Server, SyncServer

if TYPE_CHECKING:
    from jetspark.client.client import Client
    from jetspark.sync.client import Client as SyncClient


class ServerTestCase(unittest.TestCase):
    """A test case with ``self.server``, a `SyncServer`, and ``self.client``, connected to it.

    A subclass with its own ``setUp`` calls ``super().setUp()`` first.
    """

    server: SyncServer
    client: "SyncClient"

    def setUp(self) -> None:
        """Open the server and connect."""
        super().setUp()
        if inspect.iscoroutinefunction(getattr(self, self._testMethodName)):
            # unittest would create the coroutine and call the test passed.
            raise TypeError(
                f"{self._testMethodName} is a coroutine function, which ServerTestCase does not "
                "run: derive the class from AsyncServerTestCase"
            )
        self.server = self.enterContext(SyncServer())
        self.client = self.enterContext(self.server.connect())


class AsyncServerTestCase(unittest.IsolatedAsyncioTestCase):
    """A test case with ``self.server``, a `Server`, and ``self.client``, connected to it.

    A subclass with its own ``asyncSetUp`` calls ``await super().asyncSetUp()`` first.
    """

    server: Server
    client: "Client"

    async def asyncSetUp(self) -> None:
        """Open the server and connect."""
        await super().asyncSetUp()
        self.server = await self.enterAsyncContext(Server())
        self.client = await self.enterAsyncContext(self.server.connect())
