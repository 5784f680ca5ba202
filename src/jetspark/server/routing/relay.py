"""Who stands between the clients of a server and another server that serves them (replica)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from jetspark.frame import Frame

if TYPE_CHECKING:
    from jetspark.server.routing.client import ConnectedClient
    from jetspark.server.routing.receiver import Subscription


class Relay(Protocol):
    """Takes what clients do, after their permissions were checked. Set on a router."""

    def on_pub(self, client: ConnectedClient, subject: bytes, frame: Frame) -> None:
        """A client published; the frame is good for this call, as in ``ServerOps.on_pub``."""

    def on_sub(self, subscription: Subscription) -> None:
        """A client subscribed."""

    def on_limit(self, subscription: Subscription) -> None:
        """A client wants no more than ``max_msgs`` of a subscription."""

    def on_unsub(self, subscription: Subscription) -> None:
        """A subscription is over."""

    def on_ping(self, client: ConnectedClient) -> bool:
        """A client asks for PONG; True: it gets it by ``answer_ping`` later."""


class NoRelay:
    """Clients are served by the server that they are connected to."""

    def on_pub(self, client: ConnectedClient, subject: bytes, frame: Frame) -> None:
        """Never called: ``Router.relayed`` is not set."""

    def on_sub(self, subscription: Subscription) -> None:
        """Nobody else has to know."""

    def on_limit(self, subscription: Subscription) -> None:
        """Nobody else has to know."""

    def on_unsub(self, subscription: Subscription) -> None:
        """Nobody else has to know."""

    def on_ping(self, client: ConnectedClient) -> bool:  # noqa: ARG002 - any of them
        """PONG at once."""
        return False


NO_RELAY: Final = NoRelay()
