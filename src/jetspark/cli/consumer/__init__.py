"""`jetspark consumer`."""
