"""Consumers: their positions, waiting requests, and pending messages."""
