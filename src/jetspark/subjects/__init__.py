"""Subjects: tokens, matching, the subscription trie, transforms."""
