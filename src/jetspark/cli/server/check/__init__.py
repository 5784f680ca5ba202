"""`jetspark server check`: health checks for Nagios, Prometheus and scripts."""
