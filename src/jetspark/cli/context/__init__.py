"""`jetspark context`: saved connection options."""
