"""The subscribe workflow of ADR-15: a decision, its driver, and what subscribers hold."""
