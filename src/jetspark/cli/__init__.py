"""Commands for people: thin, they parse, call, and show."""
