"""The JSON requests of the pages: one module per subject."""
