"""Routing: the operations of clients, and the receivers of messages."""
