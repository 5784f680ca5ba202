"""The part of a stream's configuration that the store reads; the rest is the engine's."""

import msgspec

from jetspark.store.format.manifest import Identity


class _Copied(msgspec.Struct):
    mirror: dict[str, object] | None = None


_copied = msgspec.json.Decoder(_Copied)


def is_copy(identity: Identity) -> bool:
    """Return whether a stream mirrors another one, whose sequences it uses.

    The only thing that the store reads of a configuration.
    """
    try:
        return _copied.decode(bytes(identity.config)).mirror is not None
    except msgspec.MsgspecError:
        return False  # not a stream of an engine
