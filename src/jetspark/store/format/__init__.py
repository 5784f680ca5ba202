"""What lies on disk: records, segment heads, manifests, index files."""
