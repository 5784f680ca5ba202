"""Format ``jetstream``: streams as tables, read in batches and as they grow."""
