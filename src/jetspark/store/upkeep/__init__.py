"""Background tasks that maintain the files of a log (``next_task.py``)."""
