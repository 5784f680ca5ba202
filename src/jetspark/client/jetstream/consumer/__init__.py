"""Consumers: made, looked at, and read by fetch, next, messages and consume."""
