"""What JSON decoders raise for bytes that others wrote and that cannot be read."""

from typing import Final

import msgspec

# Levels of nesting beyond the stack of the decoder are no MsgspecError.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)
