"""One stream: configuration, publishing, what waits for the disk."""
