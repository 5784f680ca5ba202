"""`jetspark pipeline`: Spark pipeline projects over streams."""
