"""The words that users choose from. No imports: the help of the command line shows them."""

from typing import Final, Literal, get_args

SchemaFormat = Literal["json", "msgpack", "avro", "protobuf"]
Compatibility = Literal["backward", "forward", "full", "none"]
FORMATS: Final[tuple[str, ...]] = get_args(SchemaFormat)
LEVELS: Final[tuple[str, ...]] = get_args(Compatibility)
