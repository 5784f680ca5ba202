"""Schemas of payloads: types, formats, compatibility. No connection, and no Spark."""
