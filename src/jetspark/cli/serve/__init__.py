"""`jetspark serve`: a server as a separate process."""
