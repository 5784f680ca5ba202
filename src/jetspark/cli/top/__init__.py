"""`jetspark top`: a server, refreshed."""
