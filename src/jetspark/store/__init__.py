"""Messages on disk, through an injected file layer and an injected committer.

Nothing in here knows asyncio or reads a clock; only ``committer.py`` knows threads.
"""
