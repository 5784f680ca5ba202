"""How commands show entries of buckets.

As JSON an entry is a line of the file of `kv export`: what one prints, `kv import` reads.
"""

import base64
from typing import Any

from jetspark.client.jetstream.kv.entry import Entry
from jetspark.units import format_rfc3339


def entry_fields(entry: Entry, *, value: bool = True) -> dict[str, Any]:
    """An entry as JSON; a deletion has no value."""
    fields: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "time": format_rfc3339(entry.time_ns),
        "operation": entry.operation.value,
    }
    if entry.marker_reason:
        fields["marker_reason"] = entry.marker_reason
    if entry.is_put:
        fields["size"] = entry.size
        if value:
            fields["value"] = base64.b64encode(entry.value).decode()
    return fields


def shown_value(entry: Entry) -> str:
    """A value in a table or a line."""
    return entry.value.decode("utf-8", "backslashreplace")
