"""JetStream itself, as state machines: inputs and ``now`` in, an outbox out.

Nothing in here sends, awaits, sleeps or reads a clock.
"""
