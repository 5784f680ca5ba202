"""`jetspark account` and `rtt`: the connection and its account."""
