"""Routing: what clients send, and who gets it."""
