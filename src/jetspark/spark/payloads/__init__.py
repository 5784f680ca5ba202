"""Payloads to typed columns and back: JSON, MessagePack, Avro."""
