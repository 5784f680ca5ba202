"""Mirrors and sources: streams that copy other streams of the account."""
