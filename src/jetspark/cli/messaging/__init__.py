"""`jetspark pub`, `sub`, `req` and `reply`."""
