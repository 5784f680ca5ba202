"""Progress of streaming queries: reports, lag, where they are sent and shown."""
