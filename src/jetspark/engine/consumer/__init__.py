"""Consumers: what reads a stream in order, and remembers how far it came."""
