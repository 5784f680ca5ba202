"""Header blocks of the NATS protocol: bytes, status lines, header names."""
