"""`jetspark events`: advisories and metrics as they happen."""
