"""Storage of streams on disk, with an injected file layer and an injected committer.

Nothing here uses asyncio or reads a clock; only ``committer.py`` and ``threads.py`` use threads.
"""
