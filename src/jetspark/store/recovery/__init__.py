"""Opening a stream after any kind of end (``stream_folder.py``)."""
