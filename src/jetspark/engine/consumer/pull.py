"""Pull requests of a consumer: accepted or refused, waiting, and their end.

Statuses and their texts are the released server's (wire.md, Consumers). A status is sent the same
way as messages, so that the requester gets both in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jetspark.api.consumer import PullRequest, decode_pull_request
from jetspark.engine.consumer.cursor import ROWS_PER_TURN
from jetspark.engine.consumer.delivery import Waiting
from jetspark.engine.consumer.groups import group_problem
from jetspark.engine.consumer.statuses import UNREADABLE_TEXT, rest, rest_lines
from jetspark.headers.status import (
    BAD_REQUEST,
    BAD_REQUEST_PREFIX,
    BATCH_COMPLETED_TEXT,
    CONFLICT,
    CONSUMER_DELETED_TEXT,
    CONSUMER_IS_PUSH_TEXT,
    MAX_REQUEST_BATCH_TEXT,
    MAX_REQUEST_EXPIRES_TEXT,
    MAX_REQUEST_MAX_BYTES_TEXT,
    MAX_WAITING_TEXT,
    MESSAGE_SIZE_TEXT,
    NO_MESSAGES_TEXT,
    NOT_FOUND,
    REQUEST_TIMEOUT_TEXT,
    REQUESTS_PENDING_TEXT,
    SERVER_ERROR,
    SERVER_SHUTDOWN_TEXT,
    TIMEOUT,
    status_block,
)
from jetspark.units import bounded, format_duration

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.outbox import Outbox


class Requests:
    """The pull requests of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._delivery = consumer.delivery
        # The last time of a request or delivery: inactivity counts from there.
        self.last_ns: int = 0

    def pull(self, body: bytes, reply: bytes, now: int, outbox: Outbox) -> None:
        """Accept a request, or answer why not."""
        consumer = self._consumer
        if not reply:
            return
        if consumer.config.deliver_subject:
            outbox.reply_status(reply, status_block(CONFLICT, CONSUMER_IS_PUSH_TEXT))
            return
        try:
            request = decode_pull_request(body)
        except msgspec.MsgspecError as error:
            text = str(error).encode()
            outbox.reply_status(reply, status_block(BAD_REQUEST, BAD_REQUEST_PREFIX + text))
            return
        if request.no_wait and consumer.state.cursor.uncounted() > ROWS_PER_TURN:
            # Whether there is something for it will be known in a few turns.
            consumer.services.run_queue.add(consumer.state)
            consumer.services.pull_later(consumer, body, reply, now)
            return
        problem = self._problem(request, now)
        if problem:
            outbox.reply_status(reply, problem)
            return
        self._add(request, reply, now, outbox)

    def _problem(self, request: PullRequest, now: int) -> bytes:
        config = self._consumer.config
        if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
            text = BAD_REQUEST_PREFIX + b"heartbeat value too large"
            return status_block(BAD_REQUEST, text)
        if 0 < config.max_batch < request.batch:
            return status_block(CONFLICT, MAX_REQUEST_BATCH_TEXT % config.max_batch)
        if 0 < config.max_expires < request.expires:
            limit = format_duration(config.max_expires).encode()
            return status_block(CONFLICT, MAX_REQUEST_EXPIRES_TEXT % limit)
        if 0 < config.max_bytes < request.max_bytes:
            return status_block(CONFLICT, MAX_REQUEST_MAX_BYTES_TEXT % config.max_bytes)
        return group_problem(self._consumer, request, now)

    def _add(self, request: PullRequest, reply: bytes, now: int, outbox: Outbox) -> None:
        delivery = self._delivery
        config = self._consumer.config
        if request.expires < 0:
            # Expired on arrival, and nothing was delivered.
            lines = rest_lines(request.batch, max(request.max_bytes, 0))
            block = status_block(TIMEOUT, REQUEST_TIMEOUT_TEXT, lines)
            outbox.reply_status(reply, block)
            return
        if len(delivery.waiting) >= config.max_waiting:
            self.drop_ended(now)
        self.last_ns = now
        if request.no_wait:
            refusal = self._refuse_at_once(request, now)
            if refusal:
                outbox.reply_status(reply, refusal)
                return
        outlet = self._consumer.services.ports.reply_outlet(reply)
        if outlet is None:
            return  # the reply subject has no subscriber
        if len(delivery.waiting) >= config.max_waiting:
            # A client with heartbeats notices their absence; an answer would make it retry in a
            # loop.
            if request.idle_heartbeat <= 0:
                outbox.reply_status(reply, status_block(CONFLICT, MAX_WAITING_TEXT))
            return
        waiting = Waiting(
            reply,
            outlet,
            request.batch,
            max(request.max_bytes, 0),
            request.no_wait,
            now + bounded(request.expires) if request.expires else 0,
            bounded(request.idle_heartbeat) if request.idle_heartbeat > 0 else 0,
            now,
        )
        self._consumer.groups.admit(waiting, request)
        delivery.waits_until(waiting.heartbeat_at or waiting.expires)
        self._consumer.stream.attached.receive(delivery)

    def _refuse_at_once(self, request: PullRequest, now: int) -> bytes:
        """Return the answer to a no_wait request that would have to wait."""
        delivery = self._delivery
        ready = 0
        if self._consumer.is_open(now):
            ready = int(delivery.state.cursor.catch_up() + delivery.state.pending.queued)
        if ready == 0:
            return b"" if request.expires else status_block(NOT_FOUND, NO_MESSAGES_TEXT)
        self.drop_ended(now)
        if ready < sum(int(other.left) for other in delivery.waiting):
            return status_block(TIMEOUT, REQUESTS_PENDING_TEXT)
        return b""

    # End of requests ---------------------------------------------------------------------------

    def end(self, request: Waiting, block: bytes) -> None:
        """End a request; ``block`` is its last status, if any."""
        request.end()
        self._delivery.remove_request(request)
        if block and not request.outlet.gone():
            request.outlet.write(request.reply, b"", block, b"")

    def end_too_small(self, request: Waiting) -> None:
        """End a request because the next message exceeds its remaining bytes."""
        self.end(request, status_block(CONFLICT, MESSAGE_SIZE_TEXT, rest(request)))

    def end_served(self, request: Waiting) -> None:
        """End a request that is complete."""
        block = b""
        if request.bytes_left > 0:
            block = status_block(CONFLICT, BATCH_COMPLETED_TEXT, rest(request))
        self.end(request, block)

    def end_expired(self, request: Waiting) -> None:
        """End a request that expired, or whose reply subject has no subscriber."""
        if request.outlet.gone():
            self.end(request, b"")
        else:
            self.end(request, status_block(TIMEOUT, REQUEST_TIMEOUT_TEXT, rest(request)))

    def end_of_messages(self) -> None:
        """End no_wait requests: there is nothing more to send."""
        for request in [r for r in self._delivery.waiting if r.no_wait]:
            if request.expires == 0 or request.delivered > 0:
                self.end(request, status_block(NOT_FOUND, NO_MESSAGES_TEXT))

    def end_unread(self) -> None:
        """End no_wait requests because the next message cannot be read now.

        One that got messages ends as if it had expired: clients discard what they have when they
        get an error. The next request gets the reason.
        """
        for request in [r for r in self._delivery.waiting if r.no_wait]:
            if request.delivered > 0:
                self.end(request, status_block(TIMEOUT, REQUEST_TIMEOUT_TEXT, rest(request)))
            elif request.expires == 0:
                self.end(request, status_block(SERVER_ERROR, UNREADABLE_TEXT, rest(request)))

    def end_all(self) -> None:
        """End all requests: the consumer is deleted."""
        for request in list(self._delivery.waiting):
            self.end(request, status_block(CONFLICT, CONSUMER_DELETED_TEXT))

    def end_for_shutdown(self) -> None:
        """End all requests: the server is stopping; clients may try again later or elsewhere."""
        for request in list(self._delivery.waiting):
            self.end(request, status_block(CONFLICT, SERVER_SHUTDOWN_TEXT, rest(request)))

    def drop_ended(self, now: int) -> None:
        """Forget requests that expired or whose reply subject has no subscriber."""
        for request in list(self._delivery.waiting):
            if request.outlet.gone() or 0 < request.expires <= now:
                self.end_expired(request)

    # Time --------------------------------------------------------------------------------------

    def on_time(self, now: int) -> None:
        """End expired requests, send heartbeats that are due, and set the next deadline."""
        delivery = self._delivery
        self.drop_ended(now)
        due = 0
        for request in list(delivery.waiting):
            if 0 < request.heartbeat_at <= now and request.no_wait and request.delivered > 0:
                # It has what was available at once: something, max_ack_pending, blocks the rest.
                self.end(request, status_block(NOT_FOUND, NO_MESSAGES_TEXT))
                continue
            if 0 < request.heartbeat_at <= now:
                request.outlet.write(request.reply, b"", self._consumer.heartbeat(), b"")
                request.beat(now)
            for at in (request.heartbeat_at, request.expires):
                if at > 0 and (due == 0 or at < due):
                    due = int(at)
        delivery.requests_due(due)
