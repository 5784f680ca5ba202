"""Format ``nats_kv``: the snapshot of a bucket, its changes, and writing into it."""
