"""The log of one stream, composed of parts that own their fields (``stream_log.py``)."""
