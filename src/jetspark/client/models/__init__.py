"""Configurations and reports as Python objects; ``jetspark.api`` has the wire format."""
