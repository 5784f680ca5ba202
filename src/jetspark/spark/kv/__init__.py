"""Format ``nats_kv``: snapshots of a bucket, its changes, and writes."""
