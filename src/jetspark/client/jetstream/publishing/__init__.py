"""Publishing to streams: single messages, atomic batches, fast ingest."""
