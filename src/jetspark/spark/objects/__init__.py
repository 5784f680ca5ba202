"""Format ``nats_object``: an object store as a table of objects."""
