"""Replica announcements, so that clients find a near one (ADR-8, 1.2).

ADR-8 names the feature and no wire format. Replicas answer as a NATS service, ``jetspark-replica``
(``$SRV.PING`` and ``$SRV.INFO``, as released tools request it), with what a client needs in the
metadata: the URL, the streams whose copies answer, and whether writes are refused.
"""

import socket
from typing import Any, Final

import msgspec

from jetspark.client.message import Message
from jetspark.replica.bridge import Bridge
from jetspark.replica.reconciler import CopyReconciler
from jetspark.replica.stored_subjects import StoredSubjects
from jetspark.server.config.settings import Settings
from jetspark.version import VERSION

SERVICE: Final = "jetspark-replica"
_ANYWHERE: Final = {"0.0.0.0", "::"}  # noqa: S104 - what to replace, not what to bind


class Announcer:
    """Answers for one replica."""

    def __init__(
        self,
        bridge: Bridge,
        reconciler: CopyReconciler,
        stored: StoredSubjects,
        server_id: str,
        server_name: str,
        url: str,
        *,
        read_only: bool,
    ) -> None:
        self._bridge = bridge
        self._reconciler = reconciler
        self._stored = stored
        self._id = server_id
        self._server_name = server_name
        self._url = url
        self._read_only = read_only

    def start(self) -> None:
        """Subscribe at the leader, once it is connected."""
        for verb in ("PING", "INFO"):
            for subject in (
                f"$SRV.{verb}",
                f"$SRV.{verb}.{SERVICE}",
                f"$SRV.{verb}.{SERVICE}.{self._id}",
            ):
                self._bridge.core.add_subscription(
                    subject, pending_msgs=1000, pending_bytes=1 << 20, callback=self._answer
                )

    def _answer(self, message: Message) -> None:
        reply = message.reply.encode("utf-8", "surrogateescape")
        if not reply or not self._bridge.up:
            return
        # Anyone may ask, and we answer with the permissions of our user: not where that would be a
        # request to the leader, or a message that it stores.
        if reply.startswith(b"$") or self._stored.has(reply) or not self._stored.known:
            return
        body = self.body(message.subject.split(".")[1])
        self._bridge.pass_message(reply, b"", b"", body)

    def body(self, verb: str) -> bytes:
        """Return the description of this replica for PING, or INFO."""
        readable = sorted(
            name for name, copied in self._reconciler.streams.items() if copied.copy()
        )
        said: dict[str, Any] = {
            "type": f"io.nats.micro.v1.{verb.lower()}_response",
            "name": SERVICE,
            "id": self._id,
            "version": VERSION,
            "metadata": {
                "url": self._url,
                "server_name": self._server_name,
                "streams": ",".join(readable),
                "read_only": "true" if self._read_only else "false",
            },
        }
        if verb == "INFO":
            said |= {"description": "A read replica of streams", "endpoints": []}
        return msgspec.json.encode(said)


def announced_url(settings: Settings, port: int) -> str:
    """Return the URL of the replica for clients: as advertised, or as it listens."""
    scheme = "tls" if settings.tls is not None else "nats"
    if settings.client_advertise:
        host, _, advertised = settings.client_advertise.rpartition(":")
        return f"{scheme}://{host or settings.client_advertise}:{advertised or port}"
    host = socket.gethostname() if settings.host in _ANYWHERE else settings.host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
