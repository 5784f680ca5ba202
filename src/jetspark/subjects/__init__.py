"""What a subject is: tokens, matching, the subscription trie, transforms."""
