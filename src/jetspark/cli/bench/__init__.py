"""`jetspark bench`."""
