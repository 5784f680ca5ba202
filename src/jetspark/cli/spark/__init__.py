"""`jetspark spark`: what clusters of Spark need."""
