"""The subscribe workflow of ADR-15: the decision, its execution, and the subscriptions."""
