"""Consumers: where each one is in its stream, who waits, and what is not acknowledged yet."""
