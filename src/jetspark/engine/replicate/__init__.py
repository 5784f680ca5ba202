"""Mirrors and sources: streams that copy other streams of the account (wire-facts.md 12)."""
