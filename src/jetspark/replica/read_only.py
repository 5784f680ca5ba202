"""A replica that takes no writes (ADR-8, read-only mode): refused here, with a clear error.

A write is a message for a subject that a stream of the leader stores, and a request that changes
a stream. Consumers can be made, because watching and listing need them; messages that no stream
stores pass, so requests to services work.
"""

from collections.abc import Iterable
from typing import Final

from jetspark.api.stream import StreamConfig
from jetspark.errors.codes import ErrCode
from jetspark.server.client import ClientHandler
from jetspark.server.router import Router
from jetspark.subjects.sublist import Sublist

REFUSAL: Final = (
    b'{"code":403,"err_code":%d,"description":"this server is a read-only replica: connect to '
    b'the leader to write"}' % ErrCode.STREAM_SEALED
)
_API: Final = b"$JS.API."
# Requests that change streams, and the type of their answers.
_WRITES: Final = {
    b"STREAM.CREATE.": b"stream_create",
    b"STREAM.UPDATE.": b"stream_update",
    b"STREAM.DELETE.": b"stream_delete",
    b"STREAM.PURGE.": b"stream_purge",
    b"STREAM.RESTORE.": b"stream_restore",
    b"STREAM.MSG.DELETE.": b"stream_msg_delete",
    b"STREAM.PEER.REMOVE.": b"stream_remove_peer",
    b"STREAM.LEADER.STEPDOWN.": b"stream_leader_stepdown",
}


class WriteGuard:
    """Knows what would be a write at the leader."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._subjects = Sublist()
        self._known: dict[str, tuple[str, ...]] = {}

    def follow(self, configs: Iterable[StreamConfig]) -> None:
        """These are all streams of the leader now."""
        known = {config.name: config.subjects for config in configs}
        if known == self._known:
            return
        self._known = known
        self._subjects = Sublist()
        for subjects in known.values():
            for subject in subjects:
                self._subjects.insert(subject.encode(), b"", subject)

    def refuses(self, client: ClientHandler, subject: bytes, reply: bytes) -> bool:
        """Refuse a message if it is a write; False: it may pass."""
        if subject.startswith(_API):
            verb = subject[len(_API) :]
            kind = next((_WRITES[start] for start in _WRITES if verb.startswith(start)), b"")
            if not kind:
                return False
            answer = b'{"type":"io.nats.jetstream.api.v1.%b_response","error":%b}' % (
                kind, REFUSAL,
            )  # fmt: skip
        elif self._subjects.match_once(subject).plain:
            answer = b'{"error":%b,"stream":"","seq":0}' % REFUSAL
        else:
            return False
        if reply:
            self._router.outbox.reply(reply, answer)
        else:
            client.session.on_publish_denied(subject)
        return True
