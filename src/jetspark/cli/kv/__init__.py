"""`jetspark kv`: key-value buckets."""
