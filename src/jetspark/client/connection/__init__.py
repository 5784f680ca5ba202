"""One connection at a time: which server, how to log in, what is read and written."""
