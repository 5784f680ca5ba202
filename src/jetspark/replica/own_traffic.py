"""Distinguishes a replica's own requests and copies from the messages of its clients.

Both use the account of the replica's user at the leader, so that a client that subscribes to ``>``
or ``_INBOX.>`` would get the answers to the replica's requests and, with every message, the copies
of all streams, whatever its permissions.
"""

from jetspark.ids import Nuid

_ACK_START = b"$JS.ACK."


class OwnTraffic:
    """The reply subjects of one replica and the names of its consumers.

    ``inbox`` is the prefix of all its reply subjects, ``tag`` that of the names of its consumers.
    """

    def __init__(self, inbox_prefix: str) -> None:
        self.tag: str = f"{Nuid().next()}-"
        self.inbox: str = f"{inbox_prefix}.{self.tag}"
        self.inbox_start: bytes = self.inbox.encode()
        self._consumer = b".%b" % self.tag.encode()

    def has(self, subject: bytes, reply: bytes) -> bool:
        """Return whether a message is an answer to the replica, or for one of its copies."""
        return subject.startswith(self.inbox_start) or (
            reply.startswith(_ACK_START) and self._consumer in reply
        )
