"""The monitoring port: HTTP, who may ask, and which path is answered by what."""
