"""`jetspark shell`."""
