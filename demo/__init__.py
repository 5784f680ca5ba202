"""`make demo`: a server and a Spark driver are killed, and every event is accounted for."""
