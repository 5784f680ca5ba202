"""The sample project is run in an environment of its own, not with these tests."""

collect_ignore = ["sample_project"]
