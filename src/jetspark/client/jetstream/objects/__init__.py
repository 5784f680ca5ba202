"""Object stores (ADR-20): large values in chunks, with names, metadata, links and digests."""
