"""Acknowledgements, by the sequences in their subjects."""

from mypy_extensions import i64

from jetspark.engine.consumer.state import ACK_ALL, ConsumerState


class Acks:
    """Handles the acknowledgements of a consumer.

    Those with a text (``-NAK``, ``+TERM``, ...) go to the consumer's ``ack_words``.
    """

    def __init__(self, state: ConsumerState) -> None:
        self.state: ConsumerState = state
        # A sample of the acknowledgements is reported.
        self.samples: bool = False

    def configure(self, samples: bool) -> None:
        """Set whether a sample of the acknowledgements is reported."""
        self.samples = samples

    def on_ack(self, seq: i64, consumer_seq: i64, body: bytes, reply: bytes, now: i64) -> None:
        """Handle an acknowledgement, by the sequences in its subject and its payload."""
        state = self.state
        if seq > state.seq:
            state.owner.ack_words.on_undelivered(body, reply, int(now))
            return
        if len(body) > 0 and body not in (b"+ACK", b"+OK"):
            words = state.owner.ack_words
            words.on_text(int(seq), int(consumer_seq), body, reply, int(now))
            return
        self.acknowledge(seq, consumer_seq, now, True)
        if reply:
            state.stream.replies.hold_ack(reply)
            state.run_queue.save(state, now)
            state.owner.ack_words.flush_soon()

    def acknowledge(self, seq: i64, consumer_seq: i64, now: i64, sample: bool) -> None:
        """Acknowledge a message, and with ack all those before it."""
        state = self.state
        was_limited = state.limited
        if state.policy == ACK_ALL:
            state.remove_pending_up_to(seq, consumer_seq)
        else:
            row = state.pending.find(seq)
            if row < 0:
                if state.take_spent(seq):
                    state.run_queue.save(state, now)
                    state.release(seq)
                return
            if sample and self.samples:
                state.owner.ack_words.sample(int(row), int(now))
            state.remove_pending(row)
            state.release(seq)
        state.acknowledged(now)
        if was_limited:
            state.continue_run()
