"""Does things to the keys of a bucket at random, and notes them for ``history.py``."""

import random
import time
from collections.abc import Sequence

from tests.support.kv.history import Cut, Done, History

from jetspark import KeyValue
from jetspark.errors import KeyExists, KeyNotFound, WrongLastSequence


class Actor:
    """Does things to a bucket at random and notes what came of them."""

    def __init__(
        self, history: History, keys: list[str], dice: random.Random, kinds: Sequence[str]
    ) -> None:
        self._history = history
        self._keys = keys
        self._dice = dice
        self._kinds = kinds
        self._count = 0
        # The newest revision of a key that anybody saw: updates begin with it.
        self._known: dict[str, int] = {}

    async def act(self, kv: KeyValue, goal: int) -> None:
        """Continue until so many operations were started."""
        history, choose = self._history, self._dice.choice
        while self._count < goal:
            kind = choose(self._kinds)
            self._count += 1
            if kind == "cut":
                history.cuts.append(await self._cut(kv))
            elif kind == "together":
                history.done.extend(await self._together(kv))
            else:
                done = await self._single(kv, kind, choose(self._keys), b"%d" % self._count)
                history.done.append(done)
                if done.revision > self._known.get(done.key, 0):
                    self._known[done.key] = done.revision

    async def _single(self, kv: KeyValue, kind: str, key: str, text: bytes) -> Done:
        expected: int | None = None
        value: bytes | None = text
        began = time.monotonic_ns()
        try:
            if kind == "get":
                entry = await kv.get(key)
                revision, value = entry.revision, entry.value
            elif kind == "put":
                revision = await kv.put(key, text)
            elif kind == "update":
                expected = self._known.get(key, 0)
                revision = await kv.update(key, text, expected)
            elif kind == "create":
                revision = await kv.create(key, text)
            else:
                removed = kv.delete(key) if kind == "delete" else kv.purge(key)
                kind, revision, value = "delete", await removed, None
        except KeyNotFound as error:
            kind, revision, value = "get", error.revision, None
        except KeyExists as error:
            kind, revision, value = "refused", error.revision, None
        except WrongLastSequence as error:
            kind, revision, value = "refused", error.actual or 0, None
        return Done(kind, key, began, time.monotonic_ns(), revision, value, expected)

    async def _together(self, kv: KeyValue) -> list[Done]:
        """Two keys at once, or as many as there are."""
        keys = self._dice.sample(self._keys, min(2, len(self._keys)))
        text = b"%d" % self._count
        began = time.monotonic_ns()
        async with kv.transaction() as tx:
            for key in keys:
                tx.put(key, text)
        ended = time.monotonic_ns()
        revisions = tx.revisions
        self._history.together.append((min(revisions.values()), max(revisions.values())))
        return [Done("put", key, began, ended, revisions[key], text) for key in keys]

    async def _cut(self, kv: KeyValue) -> Cut:
        """Some keys as of one point in time."""
        keys = self._dice.sample(self._keys, min(4, len(self._keys)))
        began = time.monotonic_ns()
        found = await kv.get_many(keys)
        seen = {key: (entry.revision, entry.value) for key, entry in found.items()}
        return Cut(tuple(keys), began, time.monotonic_ns(), seen)
