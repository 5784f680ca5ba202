"""The language of nats-server's configuration files: from text to a tree of values."""
