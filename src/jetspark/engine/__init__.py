"""JetStream as state machines: inputs and ``now`` in, an outbox out.

Nothing here sends, awaits, sleeps or reads a clock.
"""
