"""Opening a stream after a clean stop, a crash or damage (``stream_folder.py``)."""
