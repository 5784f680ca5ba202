"""JetStream on the event loop: stores, engines and their drivers, one per account."""
