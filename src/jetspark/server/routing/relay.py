"""The relay: forwards what clients do to another server (replica)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from jetspark.frame import Frame

if TYPE_CHECKING:
    from jetspark.server.routing.client import ConnectedClient
    from jetspark.server.routing.receiver import Subscription


class Relay(Protocol):
    """Handles what clients do, after their permissions were checked. Set on a router."""

    def on_pub(self, client: ConnectedClient, subject: bytes, frame: Frame) -> None:
        """Handle a publish; the frame is valid for this call, as in ``ServerOps.on_pub``."""

    def on_sub(self, subscription: Subscription) -> None:
        """Handle a new subscription."""

    def on_limit(self, subscription: Subscription) -> None:
        """Handle a limit of ``max_msgs`` for a subscription."""

    def on_unsub(self, subscription: Subscription) -> None:
        """Handle the end of a subscription."""

    def on_ping(self, client: ConnectedClient) -> bool:
        """Handle a PING; True: ``answer_ping`` is called later."""


class NoRelay:
    """No relay: clients are served by the server that they are connected to."""

    def on_pub(self, client: ConnectedClient, subject: bytes, frame: Frame) -> None:
        """Never called: ``Router.relayed`` is not set."""

    def on_sub(self, subscription: Subscription) -> None:
        """Do nothing."""

    def on_limit(self, subscription: Subscription) -> None:
        """Do nothing."""

    def on_unsub(self, subscription: Subscription) -> None:
        """Do nothing."""

    def on_ping(self, client: ConnectedClient) -> bool:  # noqa: ARG002 - any of them
        """Return False: PONG immediately."""
        return False


NO_RELAY: Final = NoRelay()
