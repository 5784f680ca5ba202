"""Where the readers are who read a stream in pages with a filter.

A page says how many messages follow it. A client that reads a stream page by page would make the
server count the rest for each of them, so the cursor of a page is kept for the next one: then only
the rows in between are counted.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.consumer.cursor import Cursor
from jetspark.store.log.index import StreamIndex
from jetspark.subjects.tokens import is_literal

# This many patterns are kept; a cursor has a byte for each subject of the stream that it has met.
KEPT_MAX: Final = 8


class Page:
    """The place of one reader, and how much had been removed when it was counted."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor: Cursor = cursor
        self.removals: i64 = cursor.index.removals_inside

    def is_exact(self) -> bool:
        """Return whether nothing that it counted was removed; the oldest messages may be."""
        index = self.cursor.index
        return self.removals == index.removals_inside and index.first_seq <= self.cursor.next


class Pages:
    """The kept pages of one stream, by pattern."""

    def __init__(self, index: StreamIndex) -> None:
        self.index: StreamIndex = index
        self.kept: dict[bytes, Page] = {}

    def take(self, pattern: bytes, first: i64) -> Page:
        """Return a page that starts at a sequence; no other reader has it until it is kept.

        Its cursor may have to count, in steps.
        """
        page = self.kept.pop(pattern, None)
        if page is not None and page.is_exact():
            page.cursor.move(first)
            return page
        if self.index.needs_order() and not is_literal(pattern):
            self.index.want_order()
        cursor = Cursor(self.index, [pattern])
        cursor.place(first)
        cursor.recount()
        return Page(cursor)

    def keep(self, page: Page) -> None:
        """Keep the place of a reader for its next page."""
        if not page.is_exact():
            return
        pattern = page.cursor.filters[0]
        self.kept.pop(pattern, None)
        self.kept[pattern] = page
        if len(self.kept) > KEPT_MAX:
            for oldest in self.kept:
                del self.kept[oldest]
                break
