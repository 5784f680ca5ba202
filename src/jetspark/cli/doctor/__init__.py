"""`jetspark doctor`: for stores that no server uses."""
