"""The Java that Spark runs on: finding it, and files that speed up its start."""
