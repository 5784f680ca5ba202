"""INFO: what a server says about itself to a client."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

from jetspark.engine.stream.config import API_LEVEL
from jetspark.protocol.handshake import JetsparkInfo, ServerInfo
from jetspark.version import NATS_VERSION, VERSION

if TYPE_CHECKING:
    from jetspark.server.server import Server

# nats-server names the Go that built it here; this one runs on Python, and says so.
GO: Final = f"python{platform.python_version()}"


def greeting(server: Server, client_id: int, client_ip: str, account: str) -> ServerInfo:
    """INFO for a client; ``account`` once it is known."""
    tls, settings = server.tls, server.settings
    return ServerInfo(
        server_id=server.server_id,
        server_name=server.server_name,
        version=NATS_VERSION,
        proto=1,
        # Clients of today do not connect to a server that leaves these out.
        git_commit=VERSION,
        go=GO,
        host=settings.client_advertise.rpartition(":")[0] or settings.host,
        port=int(settings.client_advertise.rpartition(":")[2] or server.port),
        headers=server.headers,
        auth_required=server.authenticator.announced,
        tls_required=tls is not None,
        tls_verify=tls is not None and tls.verify,
        max_payload=settings.max_payload,
        jetstream=server.runtime is not None,
        client_id=client_id,
        client_ip=client_ip,
        connect_info=bool(account),
        remote_account=account,
        ldm=server.lame_duck,
        domain=settings.jetstream.domain,
        api_lvl=API_LEVEL,
        jetspark=JetsparkInfo(
            version=VERSION,
            min_last_seq=server.runtime is not None,
            fast_header_dialect=server.runtime is not None,
        ),
    )
