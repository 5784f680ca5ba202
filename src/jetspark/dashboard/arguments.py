"""The arguments of a request of a page."""

from typing import Final

from starlette.requests import Request

from jetspark.dashboard.browse import ROWS_MAX
from jetspark.dashboard.deployment import checked_name
from jetspark.dashboard.errors import BadInput
from jetspark.dashboard.values import whole
from jetspark.subjects.tokens import is_valid_subject

ROWS: Final = 50
TEXT_MAX: Final = 1000
# With a longer key the subjects of requests would be longer than servers accept.
KEY_MAX: Final = 3000


class Query:
    """Reads the path and the query of a request; anything wrong is a BadInput."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def text(self, name: str, default: str = "", most: int = TEXT_MAX) -> str:
        """An argument as it is."""
        found = self._request.query_params.get(name, default)
        if len(found.encode(errors="replace")) > most:
            raise BadInput(f"{name} is longer than {most} bytes")
        return found

    def name(self, part: str, what: str) -> str:
        """A part of the path that names something."""
        return checked_name(self._request.path_params[part], what)

    def number(self, name: str, default: int = 0) -> int:
        """A number that is not negative."""
        return whole(self.text(name), name, default=default)

    def limit(self) -> int:
        """How many rows to return."""
        limit = whole(self.text("limit"), "limit", default=ROWS)
        if not 1 <= limit <= ROWS_MAX:
            raise BadInput(f"limit={limit}: expected 1 to {ROWS_MAX} rows")
        return limit

    def pattern(self, name: str) -> str:
        """A subject, perhaps with wildcards; empty is all."""
        found = self.text(name).strip()
        if found and not is_valid_subject(found.encode()):
            raise BadInput(
                f"{found!r} is no subject: expected tokens like orders.*.new or orders.>"
            )
        return "" if found == ">" else found

    def tail_position(self) -> tuple[int, str]:
        """The last sequence that a page has seen and when its stream was created; -1 if none.

        A browser that connects again sends the id of the last event, a page that opens another
        event stream sends it as an argument.
        """
        found = self._request.headers.get("last-event-id") or self.text("after")
        sequence, _, created = found.partition("@")
        return whole(sequence, "after", default=-1), created
