"""Requests that both servers are asked in this order (wire.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.support.both_servers import masked
from tests.support.raw_requests import RawClient

LEVEL: Final = b"NATS/1.0\r\nNats-Required-Api-Level: %s\r\n\r\n"
HEADERS: Final = b"NATS/1.0\r\nkey: value\r\nNats-Sequence: 77\r\n\r\n"


@dataclass(frozen=True)
class Step:
    """One request. ``many``: the replies continue until a status comes."""

    subject: str
    body: bytes = b""
    headers: bytes = b""
    many: bool = False

    def __str__(self) -> str:
        return f"{self.subject} {self.body[:80].decode(errors='replace')}"


def api(verb: str, *bodies: bytes) -> list[Step]:
    return [Step(f"$JS.API.{verb}", body) for body in bodies or (b"",)]


def _direct(*bodies: bytes, appended: str = "", many: bool = False) -> list[Step]:
    subject = "$JS.API.DIRECT.GET.S" + (f".{appended}" if appended else "")
    return [Step(subject, body, many=many) for body in bodies]


CREATE: Final = [
    *api("STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"],"allow_direct":true}'),
    *api(
        "STREAM.CREATE.S",
        b'{"name":"S","subjects":["s.>"],"allow_direct":true}',
        b'{"name":"S","subjects":["s.>"],"allow_direct":true,"metadata":{"_nats.ver":"7"}}',
        b'{"name":"S","subjects":["s.>"]}',
        b'{"name":"S","subjects":["s.>"],"allow_direct":true,"metadata":{"a":"b"}}',
        b"",
        b"{",
        b"[]",
        b"null",
        b'"S"',
        b'{"name":"T"}',
        b'{"name":5}',
    ),
    *api("STREAM.CREATE.A", b'{"name":"A","subjects":["s.x"]}', b'{"name":"A"}'),
    *api("STREAM.CREATE.B", b'{"name":"B","subjects":["b.*","c"],"description":"d"}'),
    *api("STREAM.CREATE.x/y", b'{"name":"x/y"}'),
    *api("STREAM.CREATE.x*y", b'{"name":"x*y","subjects":["q"]}'),
]

# On their own, so that each has a time of its own.
STORE: Final = [
    Step("s.a", b"1"),
    Step("s.b", b"2"),
    Step("s.a", b"3", b"NATS/1.0\r\nkey: value\r\n\r\n"),
    Step("s.c", b""),
    Step("s.a.x", b"5"),
    Step("s.b", b"66"),
    Step("A", b"own name"),
]

INFO: Final = [
    *api("INFO", b"", b"x", b"{}"),
    *api(
        "STREAM.INFO.S",
        b"",
        b"{}",
        b"x",
        b"5",
        b"[]",
        b"{",
        b'{"nonsense":1}',
        b'{"subjects_filter":">"}',
        b'{"subjects_filter":"s.*"}',
        b'{"subjects_filter":"s.a"}',
        b'{"subjects_filter":"none"}',
        b'{"subjects_filter":">","offset":2}',
        b'{"subjects_filter":">","offset":99}',
        b'{"subjects_filter":">","offset":-2}',
        b'{"offset":3}',
        b'{"deleted_details":true}',
        b'{"deleted_details":1}',
    ),
    *api("STREAM.INFO.NONE"),
    *api("STREAM.INFO.B", b'{"subjects_filter":">"}'),
    *api(
        "STREAM.NAMES",
        b"",
        b"{}",
        b"x",
        b'{"subject":"s.x"}',
        b'{"subject":"b.>"}',
        b'{"subject":"nothing"}',
        b'{"offset":1}',
        b'{"offset":99}',
        b'{"offset":-1}',
        b'{"nonsense":1}',
        b'{"offset":"1"}',
    ),
    *api(
        "STREAM.LIST",
        b"",
        b'{"subject":"c"}',
        b'{"subject":"nothing"}',
        b'{"offset":2}',
        b'{"offset":99}',
        b'{"nonsense":1}',
    ),
    *api("STREAM.LEADER.STEPDOWN.S", b"", b"{}"),
    *api("STREAM.PEER.REMOVE.S", b"", b'{"peer":"x"}'),
]

GET: Final = [
    *api(
        "STREAM.MSG.GET.S",
        b"",
        b"{}",
        b"x",
        b"[]",
        b"{ }",
        b'{"nonsense":1}',
        b'{"seq":1}',
        b'{"seq":3}',
        b'{"seq":3,"no_hdr":true}',
        b'{"seq":4}',
        b'{"seq":99}',
        b'{"seq":-1}',
        b'{"seq":"1"}',
        b'{"seq":18446744073709551615}',
        b'{"last_by_subj":"s.a"}',
        b'{"last_by_subj":"s.*"}',
        b'{"last_by_subj":"none"}',
        b'{"next_by_subj":"s.b"}',
        b'{"next_by_subj":"s.b","seq":3}',
        b'{"next_by_subj":"s.>","seq":5}',
        b'{"next_by_subj":"s.b","seq":7}',
        b'{"start_time":"2020-01-01T00:00:00Z"}',
        b'{"start_time":"2020-01-01T00:00:00Z","next_by_subj":"s.c"}',
        b'{"start_time":"2200-01-01T00:00:00Z"}',
        b'{"start_time":"yesterday"}',
        b'{"seq":1,"last_by_subj":"s.a"}',
        b'{"seq":1,"start_time":"2020-01-01T00:00:00Z"}',
        b'{"last_by_subj":"s.a","next_by_subj":"s.a"}',
        b'{"last_by_subj":"s.a","start_time":"2020-01-01T00:00:00Z"}',
        b'{"seq":1,"batch":1}',
        b'{"seq":1,"max_bytes":1}',
        b'{"seq":1,"batch":-1}',
        b'{"multi_last":["s.a"]}',
        b'{"seq":1,"multi_last":["s.a"]}',
        b'{"no_hdr":true}',
    ),
    *api("STREAM.MSG.GET.NONE", b'{"seq":1}', b"", b'{"seq":1,"last_by_subj":"a"}'),
    *api("STREAM.MSG.GET.A", b'{"seq":1}'),
]

DIRECT: Final = [
    *_direct(
        b"",
        b"{}",
        b"x",
        b"[]",
        b"null",
        b'{"nonsense":1}',
        b'{"seq":1}',
        b'{"seq": 2 }',
        b'{"seq":3}',
        b'{"seq":3,"no_hdr":true}',
        b'{"seq":4}',
        b'{"seq":0}',
        b'{"SEQ":2}',
        b'{"seq":null,"Last_By_Subj":"s.a"}',
        b'{"seq":1,"seq":2}',
        b'{"seq":01}',
        b'{"seq":99}',
        b'{"seq":-1}',
        b'{"seq":"1"}',
        b'{"seq":1.5}',
        b'{"seq":18446744073709551615}',
        b'{"seq":1,"nonsense":[1]}',
        b'{"seq":1,"batch":0}',
        b'{"last_by_subj":"s.a"}',
        b'{"last_by_subj":"s.\\u0061"}',
        b'{"last_by_subj":"s.*"}',
        b'{"last_by_subj":">"}',
        b'{"last_by_subj":""}',
        b'{"last_by_subj":"none"}',
        b'{"last_by_subj":"s.a","max_bytes":1}',
        b'{"next_by_subj":"s.b"}',
        b'{"next_by_subj":"s.b","seq":3}',
        b'{"seq":3,"next_by_subj":"s.b"}',
        b'{"seq":3,"next_by_subj":"s.*"}',
        b'{"next_by_subj":"s.b","seq":7}',
        b'{"next_by_subj":"none"}',
        b'{"start_time":"2020-01-01T00:00:00Z"}',
        b'{"start_time":"2020-01-01T00:00:00Z","next_by_subj":"s.c"}',
        b'{"start_time":"2200-01-01T00:00:00Z"}',
        b'{"start_time":"yesterday"}',
        b'{"start_time":5}',
        b'{"seq":1,"last_by_subj":"s.a"}',
        b'{"seq":1,"start_time":"2020-01-01T00:00:00Z"}',
        b'{"start_time":"2020-01-01T00:00:00Z","last_by_subj":"s.a"}',
        b'{"last_by_subj":"s.a","next_by_subj":"s.a"}',
        b'{"last_by_subj":"s.a","batch":1}',
        b'{"last_by_subj":"s.a","multi_last":["s.a"]}',
        b'{"next_by_subj":"s.a","multi_last":["s.a"]}',
        b'{"seq":1,"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}',
        b'{"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}',
        b'{"up_to_seq":1}',
        b'{"max_bytes":1}',
        b'{"no_hdr":true}',
        b'{"multi_last":"s.a"}',
        b'{"multi_last":[]}',
        b'{"multi_last":[1]}',
    ),
    *_direct(b"", b"{}", b'{"no_hdr":true}', b'{"max_bytes":1}', b"x", b'{"seq":1}',
             b'{"last_by_subj":"s.a"}', b'{"batch":1}', b'{"batch":0}', b'{"up_to_seq":1}',
             b'{"start_time":"2020-01-01T00:00:00Z"}', b'{"multi_last":["s.a"]}',
             b'{"nonsense":1}', appended="s.a"),
    *_direct(b"", appended="s.*"),
    *_direct(b"", appended="s.>"),
    *_direct(b"", appended="none"),
    *_direct(
        b'{"seq":1,"batch":2}',
        b'{"seq":1,"batch":100}',
        b'{"seq":4,"batch":100}',
        b'{"seq":99,"batch":2}',
        b'{"seq":1,"batch":-1}',
        b'{"next_by_subj":"s.a","batch":1}',
        b'{"next_by_subj":"s.a","batch":5}',
        b'{"next_by_subj":"s.*","batch":5,"seq":2}',
        b'{"next_by_subj":"none","batch":5,"seq":2}',
        b'{"start_time":"2020-01-01T00:00:00Z","next_by_subj":"s.>","batch":3}',
        b'{"start_time":"2200-01-01T00:00:00Z","batch":3}',
        b'{"seq":1,"batch":6,"max_bytes":5}',
        b'{"seq":1,"batch":6,"max_bytes":-5}',
        b'{"seq":1,"batch":6,"max_bytes":1,"next_by_subj":"s.b"}',
        b'{"multi_last":["s.a"]}',
        b'{"multi_last":["s.a","s.b","none"]}',
        b'{"multi_last":["s.>"]}',
        b'{"multi_last":["s.*","s.a",">"]}',
        b'{"multi_last":["s.>"],"batch":2}',
        b'{"multi_last":["s.>"],"batch":2,"seq":4,"up_to_seq":6}',
        b'{"multi_last":["s.>"],"batch":2,"seq":6,"up_to_seq":6}',
        b'{"multi_last":["s.>"],"seq":7}',
        b'{"multi_last":["s.>"],"up_to_seq":3}',
        b'{"multi_last":["s.a"],"up_to_seq":2}',
        b'{"multi_last":["s.c"],"up_to_seq":2}',
        b'{"multi_last":["s.>"],"up_to_seq":1000}',
        b'{"multi_last":["s.>"],"max_bytes":5}',
        b'{"multi_last":["s.>"],"no_hdr":true}',
        b'{"multi_last":["s.>"],"batch":-1}',
        b'{"multi_last":["none"]}',
        b'{"multi_last":["s.>"],"up_to_time":"2020-01-01T00:00:00Z"}',
        b'{"multi_last":["s.>"],"up_to_time":"2200-01-01T00:00:00Z"}',
        b'{"multi_last":["s.>"],"start_time":"2020-01-01T00:00:00Z"}',
        b'{"seq":1,"multi_last":["s.b"],"batch":1}',
        many=True,
    ),
    Step("$JS.API.DIRECT.GET.A", b'{"seq":1}'),
    Step("$JS.API.DIRECT.GET.NONE", b'{"seq":1}'),
    Step("$JS.API.DIRECT.GET.NONE.x"),
]  # fmt: skip

LEVELS: Final = [
    Step(subject, body, LEVEL % level)
    for subject, body in (
        ("$JS.API.INFO", b""),
        ("$JS.API.STREAM.INFO.S", b""),
        ("$JS.API.STREAM.NAMES", b""),
        ("$JS.API.STREAM.LIST", b""),
        ("$JS.API.STREAM.MSG.GET.S", b'{"seq":1}'),
        ("$JS.API.DIRECT.GET.S", b'{"seq":1}'),
        ("$JS.API.DIRECT.GET.S.s.a", b""),
    )
    for level in (b"5", b"6", b"x", b"", b"-1", b"99999999999999999999")
]

CHANGE: Final = [
    *api(
        "STREAM.UPDATE.B",
        b'{"name":"B","subjects":["b.*","e"],"description":"new"}',
        b'{"name":"B","subjects":["s.q"]}',
        b'{"name":"C"}',
        b"",
        b"{}",
        b"x",
        b'{"name":"B","nonsense":1}',
        b'{"name":"B","subjects":["e"],"metadata":{"a":"b"},"allow_direct":true}',
    ),
    *api("STREAM.UPDATE.NONE", b'{"name":"NONE"}'),
    *api("STREAM.INFO.B"),
    Step("e", b"now stored"),
    Step("b.x", b"no longer"),
    Step("$JS.API.DIRECT.GET.B", b'{"seq":1}'),
    *api("STREAM.DELETE.B", b"x", b'{"a":1}', b"{}"),
    *api("STREAM.DELETE.B"),
    *api("STREAM.DELETE.A"),
    *api("STREAM.NAMES"),
]

SCRIPT: Final = [*CREATE, *STORE, *INFO, *GET, *DIRECT, *LEVELS, *CHANGE]


def play(client: RawClient, step: Step) -> list[tuple[str, Any]]:
    return masked(client.ask(step.subject, step.body, step.headers, many=step.many))
