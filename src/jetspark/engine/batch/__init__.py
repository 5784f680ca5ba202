"""Batch publishing (ADR-50): atomic batches, and fast ingest in both of its dialects."""
