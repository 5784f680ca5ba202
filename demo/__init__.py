"""`make demo`: kills a server and a Spark driver, and accounts for every event."""
