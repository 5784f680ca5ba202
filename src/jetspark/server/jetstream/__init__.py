"""JetStream on the event loop: the store, engines and their drivers, one per account."""
