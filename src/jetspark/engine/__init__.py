"""JetStream itself, as state machines: inputs and ``now`` in, an outbox out (contracts.md 1).

Nothing in here sends, awaits, sleeps or reads a clock.
"""
