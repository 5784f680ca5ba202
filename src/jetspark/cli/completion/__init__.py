"""`jetspark completion`, and what shells complete."""
