"""Format ``jetstream``: streams as tables, read in batches or continuously."""
