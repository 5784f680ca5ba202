"""`jetspark errors`: what error codes mean."""
