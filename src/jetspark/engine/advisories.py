"""Advisories: the events that an engine publishes on ``$JS.EVENT`` (wire.md, Advisories).

Handlers, consumers and batches build an event of ``api/advisory.py`` with its own fields; the id,
the time and the domain are added here. ``send`` is for what has happened already, ``hold`` for
what depends on a staged record: it is sent when that record is durable, and never if it could not
be written (contracts.md, Commit). Nothing is built without interest, as in nats-server; a stream
that stores the subject counts as interest.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from jetspark.api.advisory import ApiAudit, BatchAbandoned, ClientInfo, Event
from jetspark.api.base import Timestamp, encode
from jetspark.api.enums import AbandonReason
from jetspark.engine.outbox import Entry, Outbox
from jetspark.engine.ports import EnginePorts
from jetspark.engine.stream.stream import Stream
from jetspark.engine.wall import Wall


class Advisories:
    """The events of one account.

    ``publish(entries, now, outbox)`` delivers messages to subscribers and streams alike.
    """

    def __init__(
        self,
        publish: Callable[[list[Entry], int, Outbox], None],
        next_id: Callable[[], str],
        wall: Wall,
        ports: EnginePorts,
        *,
        server: str = "",
        domain: str = "",
    ) -> None:
        self.server = server
        self._ports = ports
        self._silent = False
        self._publish = publish
        self._next_id = next_id
        self._wall = wall
        self._domain = domain

    def silence(self) -> None:
        """Send nothing from now on: the streams are copies, and their leader sends the events."""
        self._silent = True

    def wanted(self, subject: bytes) -> bool:
        """Return whether an advisory on a subject has a receiver."""
        return not self._silent and self._ports.listens(subject)

    def send(self, event: Event, now: int, outbox: Outbox) -> None:
        """Send an event about something that has happened."""
        entry = self._entry(event, now)
        if entry is not None:
            self._publish([entry], now, outbox)

    def hold(self, event: Event, stream: Stream, now: int, outbox: Outbox) -> None:
        """Send an event once everything staged in a stream is durable; now if nothing is."""
        entry = self._entry(event, now)
        if entry is not None and not stream.replies.hold_message(entry):
            self._publish([entry], now, outbox)

    def of_batches(self, stream: str) -> Callable[[bytes, str, int, Outbox], None]:
        """Return the function that reports an abandoned batch of a stream."""

        def advise(batch_id: bytes, reason: str, now: int, outbox: Outbox) -> None:
            event = BatchAbandoned(
                stream=stream,
                batch=batch_id.decode(errors="replace"),
                reason=AbandonReason(reason),
            )
            self.send(event, now, outbox)

        return advise

    def _entry(self, event: Event, now: int) -> Entry | None:
        subject = event.published_on().encode()
        if not self.wanted(subject):
            return None
        # Every event has a domain; not a field of the base because of its place in the JSON.
        known = {
            "id": self._next_id(),
            "timestamp": Timestamp(self._wall.at(now)),
            "domain": self._domain,
        }
        return (subject, subject, b"", b"", encode(msgspec.structs.replace(event, **known)))


class Requester(Protocol):
    """The sender of a request, as audits describe it."""

    def client_info(self) -> ClientInfo | None:
        """Describe the client as events do."""
        ...


class InternalRequester:
    """The sender of the server's own requests."""

    def client_info(self) -> ClientInfo | None:
        """Return None: there is no client."""
        return None


class Audit:
    """The record of one ``$JS.API`` request, sent with its answer."""

    def __init__(
        self, advisories: Advisories, verb: bytes, body: bytes, requester: Requester, now: int
    ) -> None:
        self._advisories = advisories
        self._event = ApiAudit(
            server=advisories.server,
            client=requester.client_info(),
            subject="$JS.API." + verb.decode(errors="replace"),
            request=body.decode(errors="replace"),
        )
        self._now = now

    def answered(self, answer: bytes, outbox: Outbox) -> None:
        """Send the record of an answer that is sent now."""
        self._advisories.send(self._with(answer), self._now, outbox)

    def _with(self, answer: bytes) -> ApiAudit:
        return msgspec.structs.replace(self._event, response=answer.decode(errors="replace"))


INTERNAL = InternalRequester()
AUDIT_SUBJECT = ApiAudit().published_on().encode()
