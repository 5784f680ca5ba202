"""`/metrics` for Prometheus: the names of prometheus-nats-exporter, and our own."""
