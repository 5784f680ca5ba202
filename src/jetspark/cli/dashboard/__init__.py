"""`jetspark dashboard`: the dashboard of any NATS deployment, as a process of its own."""
