"""Configurations and reports as users see them; ``jetspark.api`` has them as the wire does."""
