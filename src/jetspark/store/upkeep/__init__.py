"""Tasks that keep the files of a log in order beside its use (``next_task.py``)."""
