"""Streams over a client: manage them, publish into them, read them."""
