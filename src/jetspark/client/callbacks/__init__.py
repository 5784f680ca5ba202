"""Running the callbacks of users: of subscriptions, of iterators, of the connection."""
