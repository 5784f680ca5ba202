"""Key-value buckets (ADR-8): a stream per bucket, a subject per key."""
