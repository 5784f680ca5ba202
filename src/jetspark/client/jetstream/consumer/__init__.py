"""Consumers: creating, inspecting, and reading with fetch, next, messages and consume."""
