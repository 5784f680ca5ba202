"""The format on disk: records, segment heads, manifests, index files."""
