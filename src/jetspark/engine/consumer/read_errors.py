"""Read errors of a consumer: what happens when the next message cannot be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.errors.storage import ReadFailed

UNREADABLE_REASON: Final = "message could not be read"
# A message that the disk failed to read is retried this much later.
READ_RETRY_NS: Final = 1_000_000_000

log: logging.Logger = logging.getLogger("jetspark.engine")


class ReadErrors:
    """Stops a consumer at messages the disk fails to read, and skips damaged ones."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        # The message that the disk failed to read, while that stops the consumer.
        self._stopped_at = 0

    def stop_at(self, problem: ReadFailed, now: int) -> None:
        """Stop at the next message, which the disk fails to read: log it, and retry."""
        consumer = self._consumer
        delivery = consumer.delivery
        if not delivery.read_error:
            name = consumer.stream.config.name
            log.error("Stream %r: consumer %r stops at %s", name, consumer.name, problem)
        self._stopped_at = problem.seq
        delivery.stop_at_error(problem.public, now + READ_RETRY_NS)
        consumer.requests.end_unread()

    def check_readable(self) -> None:
        """Continue if the message that stopped the consumer was read, or removed."""
        consumer = self._consumer
        delivery = consumer.delivery
        if not delivery.read_error or consumer.state.gated:
            return
        refused = self._stopped_at in consumer.stream.log.reader.refused_reads
        if refused and consumer.state.cursor.exists(self._stopped_at):
            return
        delivery.clear_error()
        log.info("Stream %r: consumer %r continues", consumer.stream.config.name, consumer.name)

    def skip_unreadable(self) -> None:
        """Skip the next message, which is damaged, and report it."""
        consumer = self._consumer
        state = consumer.state
        seq = consumer.delivery.looking_at
        row = state.pending.find(seq)
        deliveries = int(state.pending.deliveries(row)) if row >= 0 else 0
        state.skip(seq, row)
        consumer.ack_words.terminated(
            int(seq), int(state.consumer_seq), deliveries, UNREADABLE_REASON
        )
