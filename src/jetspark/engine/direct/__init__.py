"""Direct get (ADR-31) and its gate for read-after-write (ADR-53)."""
