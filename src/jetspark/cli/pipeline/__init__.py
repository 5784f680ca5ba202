"""`jetspark pipeline`: projects of Spark pipelines over streams."""
