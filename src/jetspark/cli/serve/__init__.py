"""`jetspark serve`: a server in a process of its own."""
