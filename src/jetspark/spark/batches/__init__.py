"""Exactly-once writes from ``foreachBatch`` to sinks of any kind."""
