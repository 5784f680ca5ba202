"""The dashboard: pages over any NATS deployment, in a server or on its own (docs/dashboard.md)."""
