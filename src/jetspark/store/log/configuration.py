"""What the store asks of a stream's configuration; everything else in it is the engine's."""

import msgspec

from jetspark.store.format.manifest import Identity


class _Copied(msgspec.Struct):
    mirror: dict[str, object] | None = None


_copied = msgspec.json.Decoder(_Copied)


def is_copy(identity: Identity) -> bool:
    """Say whether the sequences of a stream are those of another one, which it mirrors.

    All that the store ever asks of a configuration.
    """
    try:
        return _copied.decode(bytes(identity.config)).mirror is not None
    except msgspec.MsgspecError:
        return False  # no stream of an engine
