"""Accounts at run time: each has its own subscriptions and streams, isolated from the others."""

from jetspark.engine.outbox import Outbox
from jetspark.server.jetstream.driver import EngineDriver
from jetspark.server.routing.account_engine import AccountWithoutJetStream
from jetspark.server.routing.router import Router
from jetspark.subjects.sublist import Sublist
from jetspark.turn import Turn


class Account:
    """One account: a router, and an engine if JetStream is enabled."""

    def __init__(self, name: str, turn: Turn) -> None:
        self.name = name
        self.router: Router = Router(turn)
        self.outbox: Outbox = self.router.outbox
        self.driver: EngineDriver | None = None
        self.clients: int = 0
        self.slow_consumers: int = 0

    def serve(self, driver: EngineDriver) -> None:
        """Set the driver of its engine."""
        self.driver = driver

    def enter(self) -> int:
        """Count a connection that entered; return how many there are now."""
        self.clients += 1
        return self.clients

    def exit(self) -> None:
        """Count a connection that left or ended."""
        self.clients -= 1

    def note_slow_consumer(self) -> None:
        """Count a client that was disconnected because it read too slowly."""
        self.slow_consumers += 1

    def refuse_jetstream(self) -> None:
        """Answer requests to streams with the reason: JetStream is disabled for the account."""
        self.router.serve(AccountWithoutJetStream(self.outbox), {}, {}, Sublist(0))
