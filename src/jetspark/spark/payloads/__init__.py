"""Conversion of payloads to typed columns and back: JSON, MessagePack, Avro."""
