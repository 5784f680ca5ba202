"""How a handler refuses a request: an exception with the complete error body."""

from jetspark.errors.bodies import error_body


class Refusal(Exception):
    """A request is refused with this error code; ``body`` is the JSON of the error."""

    def __init__(self, err_code: int, **fields: object) -> None:
        super().__init__(err_code)
        self.body: bytes = error_body(err_code, **fields)
        self._err_code = err_code
        self._fields = fields

    def again(self) -> "Refusal":
        """Return a fresh copy: this one's traceback would keep objects alive."""
        return Refusal(self._err_code, **self._fields)
