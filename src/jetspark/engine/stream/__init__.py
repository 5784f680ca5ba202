"""One stream: configuration, publishing, and replies that wait for the disk."""
