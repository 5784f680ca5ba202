"""Projects in the convention of Spark's declarative pipelines, over streams and buckets.

A project is a folder with ``spark-pipeline.yml`` and transformations in Python and SQL, as defined
by ``spark-pipelines``, and ``jetspark.yml`` next to it: the streams and buckets it needs.
``declarative`` runs it with Spark's own runner until it has caught up; ``continuous`` runs the
same flows as streaming queries that do not end, from the same checkpoints.
"""
