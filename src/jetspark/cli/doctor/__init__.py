"""`jetspark doctor`: stores that no server uses."""
