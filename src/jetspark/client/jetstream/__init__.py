"""JetStream: manage streams, publish to them, read them."""
