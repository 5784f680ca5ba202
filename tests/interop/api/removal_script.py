"""Requests that remove messages, and limits that do (wire.md, Streams)."""

from __future__ import annotations

from typing import Final

from tests.interop.api.script import Step, api

_FILL: Final = [Step(f"p.{n % 3}", b"%d" % n) for n in range(9)]
_STATE: Final = api("STREAM.INFO.P", b'{"deleted_details":true,"subjects_filter":">"}')


def _purged(*bodies: bytes) -> list[Step]:
    """Each on a stream of nine messages that begins where the last one ended."""
    steps: list[Step] = []
    for body in bodies:
        steps += [*_FILL, *api("STREAM.PURGE.P", body), *_STATE]
    return steps


REMOVE: Final = [
    *api("STREAM.CREATE.P", b'{"name":"P","subjects":["p.*"],"allow_direct":true}'),
    *api("STREAM.MSG.DELETE.P", b'{"seq":1}'),
    *api("STREAM.PURGE.P", b'{"seq":1}', b'{"seq":1,"filter":"p.0"}'),
    *api("STREAM.INFO.P"),
    *api("STREAM.PURGE.P"),
    *_STATE,
    *_FILL,
    *api(
        "STREAM.MSG.DELETE.P",
        b"",
        b"{}",
        b"x",
        b"{",
        b'{"seq":"1"}',
        b'{"seq":-1}',
        b'{"seq":3}',
        b'{"seq":3}',
        b'{"seq":0}',
        b'{"seq":99}',
        b'{"seq":1,"no_erase":true}',
        b'{"seq":1,"nonsense":1}',
        b'{"seq":1}',
        b'{"seq":9}',
        b'{"no_erase":true}',
    ),
    *_STATE,
    Step("$JS.API.DIRECT.GET.P", b'{"seq":3}'),
    Step("$JS.API.DIRECT.GET.P", b'{"seq":2,"batch":3}', many=True),
    Step("$JS.API.DIRECT.GET.P", b'{"multi_last":["p.*"],"up_to_seq":3}', many=True),
    Step("$JS.API.DIRECT.GET.P", b'{"last_by_subj":"p.2"}'),
    Step("$JS.API.DIRECT.GET.P", b'{"start_time":"2020-01-01T00:00:00Z"}'),
    *api("STREAM.MSG.GET.P", b'{"seq":3}', b'{"next_by_subj":"p.2","seq":3}'),
    *api("STREAM.MSG.DELETE.NONE", b'{"seq":1}'),
    *api("STREAM.PURGE.NONE"),
    *api(
        "STREAM.PURGE.P",
        b"[]",
        b'{"seq":1,"keep":1}',
        b'{"nonsense":1}',
        b'{"seq":-1}',
        b'{"filter":1}',
    ),
    *_purged(
        b"",
        b"{}",
        b"x",
        b'{"filter":"p.1"}',
        b'{"filter":"p.*"}',
        b'{"filter":">"}',
        b'{"filter":"none"}',
        b'{"keep":2}',
        b'{"keep":100}',
        b'{"filter":"p.1","keep":1}',
        b'{"filter":"p.*","keep":2}',
        b'{"seq":70}',
        b'{"seq":1}',
        b'{"filter":"p.0","seq":75}',
        b'{"seq":500}',
        b'{"filter":"p.2","seq":900}',
    ),
    *api("STREAM.MSG.DELETE.P", b'{"seq":2}'),
    *api("STREAM.CREATE.D", b'{"name":"D","deny_delete":true,"deny_purge":true}'),
    *api("STREAM.MSG.DELETE.D", b'{"seq":1}'),
    *api("STREAM.PURGE.D"),
]

LIMITS: Final = [
    *api("STREAM.CREATE.L", b'{"name":"L","subjects":["l.*"],"max_msgs":4}'),
    *[Step(f"l.{n}", b"%d" % n) for n in range(6)],
    *api("STREAM.INFO.L", b'{"subjects_filter":">"}'),
    *api("STREAM.UPDATE.L", b'{"name":"L","subjects":["l.*"],"max_msgs":2}'),
    *api("STREAM.INFO.L", b'{"subjects_filter":">"}'),
    *api("STREAM.UPDATE.L", b'{"name":"L","subjects":["l.*"],"max_bytes":70}'),
    *[Step(f"l.{n}", b"%d" % n) for n in range(3)],
    *api("STREAM.INFO.L", b'{"subjects_filter":">"}'),
    *api(
        "STREAM.UPDATE.L",
        b'{"name":"L","subjects":["l.*"],"max_msgs_per_subject":2,"allow_direct":true}',
    ),
    *[Step(f"l.{n % 2}", b"%d" % n) for n in range(7)],
    *api("STREAM.INFO.L", b'{"subjects_filter":">","deleted_details":true}'),
    Step("$JS.API.DIRECT.GET.L", b'{"multi_last":["l.*"]}', many=True),
    Step("$JS.API.DIRECT.GET.L", b'{"next_by_subj":"l.0","batch":9}', many=True),
    *api("STREAM.UPDATE.L", b'{"name":"L","subjects":["l.*"],"max_bytes":9000}'),
    *api("INFO"),
    *api("STREAM.DELETE.L"),
    *api("INFO"),
]

SEALED: Final = [
    *api("STREAM.CREATE.Z", b'{"name":"Z","subjects":["z"],"max_age":3600000000000}'),
    Step("z", b"1"),
    *api("STREAM.UPDATE.Z", b'{"name":"Z","subjects":["z"],"sealed":true}'),
    Step("z", b"2"),
    *api("STREAM.MSG.DELETE.Z", b'{"seq":1}'),
    *api("STREAM.PURGE.Z"),
    *api("STREAM.MSG.GET.Z", b'{"seq":1}'),
    *api("STREAM.UPDATE.Z", b'{"name":"Z","subjects":["z"]}'),
    *api("STREAM.UPDATE.Z", b'{"name":"Z","subjects":["z"],"sealed":true,"description":"x"}'),
    *api("STREAM.INFO.Z"),
    *api("STREAM.DELETE.Z"),
]

FIRST: Final = [
    *api("STREAM.CREATE.F", b'{"name":"F","subjects":["f"],"first_seq":1000,"max_msgs":5}'),
    *api("STREAM.INFO.F"),
    *api("STREAM.MSG.GET.F", b'{"seq":999}', b'{"next_by_subj":"f"}'),
    *api("STREAM.MSG.DELETE.F", b'{"seq":999}'),
    Step("f", b"1"),
    *api("STREAM.INFO.F"),
    *api("STREAM.UPDATE.F", b'{"name":"F","subjects":["f"],"first_seq":5}'),
    Step("f", b"2"),
    *api("STREAM.INFO.F"),
    *api("STREAM.CREATE.G", b'{"name":"G","subjects":["g"],"first_seq":1}'),
    *api("STREAM.INFO.G"),
    Step("g", b"1"),
]

REMOVAL_SCRIPT: Final = [*REMOVE, *LIMITS, *SEALED, *FIRST]
