"""The exceptions of JSON decoders for invalid bytes."""

from typing import Final

import msgspec

# Nesting deeper than the decoder's stack is no MsgspecError.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)
