"""Writing rows to a stream: at least once, or exactly once by ids, ledger or batches."""
