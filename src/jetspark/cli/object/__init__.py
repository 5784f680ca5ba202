"""`jetspark object`: object stores."""
