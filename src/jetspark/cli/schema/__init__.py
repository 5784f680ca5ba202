"""`jetspark schema`: schemas of payloads, with versions."""
