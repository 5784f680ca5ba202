"""``/routez``, ``/leafz`` and ``/gatewayz``: other servers. There are never any."""

from jetspark.api.base import ApiStruct, Timestamp, shown
from jetspark.server.monitor.status import ServerStatus


class Routez(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/routez``."""

    server_id: str
    server_name: str
    now: Timestamp
    num_routes: int = shown(0)
    routes: tuple[str, ...] = shown(())


class Leafz(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/leafz``."""

    server_id: str
    now: Timestamp
    leafnodes: int = shown(0)
    leafs: tuple[str, ...] = shown(())


class Gatewayz(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/gatewayz``."""

    server_id: str
    now: Timestamp
    outbound_gateways: dict[str, str] = shown({})
    inbound_gateways: dict[str, str] = shown({})


def routez(view: ServerStatus) -> Routez:
    """Return no routes."""
    identity = view.identity
    return Routez(
        server_id=identity.server_id,
        server_name=identity.server_name,
        now=view.date(view.now_ns()),
    )


def leafz(view: ServerStatus) -> Leafz:
    """Return no leaf nodes."""
    return Leafz(server_id=view.identity.server_id, now=view.date(view.now_ns()))


def gatewayz(view: ServerStatus) -> Gatewayz:
    """Return no gateways."""
    return Gatewayz(server_id=view.identity.server_id, now=view.date(view.now_ns()))
