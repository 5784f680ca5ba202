"""The parsers, whatever the bytes and however they were cut."""

from collections.abc import Callable
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.recording import Call, RecordingClientOps, RecordingServerOps

from jetspark.protocol import encoder
from jetspark.protocol.client_parser import ClientParser
from jetspark.protocol.parser import ServerParser

CONTROL_LINE = 80
PAYLOAD = 40


def server_calls(chunks: list[bytes]) -> list[Call]:
    """What chunks from a client lead to."""
    handler = RecordingServerOps()
    parser = ServerParser(handler, CONTROL_LINE, PAYLOAD, headers=True)
    for chunk in chunks:
        parser.feed(chunk)
    return handler.calls


def client_calls(chunks: list[bytes]) -> list[Call]:
    """What chunks from a server lead to.

    A violation quotes what has arrived, so only its first words are the same for every cut.
    """
    handler = RecordingClientOps()
    parser = ClientParser(handler, CONTROL_LINE, PAYLOAD)
    for chunk in chunks:
        parser.feed(chunk)
    return [
        (call[0], call[1].partition(b":")[0])
        if call[0] == "violation" and isinstance(call[1], bytes)
        else call
        for call in handler.calls
    ]


def cut(wire: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes in pieces, cut at these places."""
    edges = [0, *sorted(place % (len(wire) + 1) for place in cuts), len(wire)]
    return [wire[start:end] for start, end in pairwise(edges)]


token = st.text("abcXYZ019_-$*>.", min_size=1, max_size=24).map(str.encode)
optional = st.one_of(st.just(b""), token)
payload = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"\r\n", b"PING\r\n", b"x\r\nPUB a 0\r\n"])
)
block = st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"])
sid = st.integers(0, 10**18 - 1)
cuts = st.lists(st.integers(0, 400), max_size=8)

client_frame = st.one_of(
    st.sampled_from([encoder.PING, encoder.PONG, encoder.OK, b"CONNECT {}\r\n", b"INFO {}\r\n"]),
    st.builds(encoder.encode_pub, token, optional, payload),
    st.builds(encoder.encode_hpub, token, optional, block, payload),
    st.builds(encoder.encode_sub, token, optional, sid),
    st.builds(encoder.encode_unsub, sid, st.integers(0, 10**9 - 1)),
)
server_frame = st.one_of(
    st.sampled_from([encoder.PING, encoder.PONG, encoder.OK, b"INFO {} \r\n", b"-ERR 'x'\r\n"]),
    st.builds(encoder.encode_msg, token, sid.map(b"%d".__mod__), optional, payload),
    st.builds(encoder.encode_hmsg, token, sid.map(b"%d".__mod__), optional, block, payload),
)

# Nearly right: the words of the protocol in any order, with line ends of every kind.
fragment = st.sampled_from([
    b"PUB", b"HPUB", b"SUB", b"UNSUB", b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"CONNECT",
    b"MSG", b"HMSG", b"pub ", b"hpub ", b"Msg ", b" ", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\r\n",
    b"\r\n", b"a", b"b.c", b"0", b"1", b"3", b"12", b"41", b"0000000001", b"abc", b"{}", b"NO",
    b"PUB a 3\r\nabc\r\n", b"HPUB a 1 3\r\nabc\r\n", b"MSG a 1 3\r\nabc\r\n", b"x" * 30,
])  # fmt: skip
garbage = st.one_of(
    st.lists(fragment, max_size=16).map(b"".join),
    st.binary(max_size=60),
    st.tuples(client_frame, st.binary(max_size=30)).map(b"".join),
    st.tuples(server_frame, st.binary(max_size=30)).map(b"".join),
)


def check_every_cut(calls: Callable[[list[bytes]], list[Call]], wire: bytes) -> None:
    """One piece, single bytes, and every cut in two give the same calls."""
    whole = calls([wire])

    assert calls([wire[i : i + 1] for i in range(len(wire))]) == whole
    for place in range(len(wire) + 1):
        assert calls([wire[:place], wire[place:]]) == whole


@given(frames=st.lists(client_frame, max_size=6), places=cuts)
def test_frames_of_clients_do_not_depend_on_cuts(frames: list[bytes], places: list[int]) -> None:
    """wire.md, Core protocol: frames may arrive in any pieces."""
    wire = b"".join(frames)

    assert server_calls(cut(wire, places)) == server_calls([wire])
    assert all(call[0] != "violation" for call in server_calls([wire]))


@given(frames=st.lists(server_frame, max_size=6), places=cuts)
def test_frames_of_servers_do_not_depend_on_cuts(frames: list[bytes], places: list[int]) -> None:
    """wire.md, Core protocol: frames may arrive in any pieces."""
    wire = b"".join(frames)

    assert client_calls(cut(wire, places)) == client_calls([wire])
    assert len(client_calls([wire])) == len(frames)
    assert all(call[0] != "violation" for call in client_calls([wire]))


@settings(max_examples=200)
@given(wire=garbage)
@example(wire=b"PUB a\r")
@example(wire=b"PUB a\rb")
@example(wire=b"PUB \n")
@example(wire=b"SUB \n")
@example(wire=b"PUB a 1\r\nx\rPING\r\n")
@example(wire=b"SUB " + b"a" * CONTROL_LINE + b"\r\r\n")
def test_garbage_of_clients_never_raises_and_does_not_depend_on_cuts(wire: bytes) -> None:
    """Any bytes at all: the same calls for every cut; a violation is the last of them."""
    check_every_cut(server_calls, wire)
    names = [call[0] for call in server_calls([wire])]

    assert "violation" not in names[:-1]


@settings(max_examples=200)
@given(wire=garbage)
@example(wire=b"MSG a\r")
@example(wire=b"MSG a\rb 1 0\r\n")
@example(wire=b"MSG \r\n")
@example(wire=b"-ERR\r\n")
@example(wire=b"INFO\n")
def test_garbage_of_servers_never_raises_and_does_not_depend_on_cuts(wire: bytes) -> None:
    """Any bytes at all: the same calls for every cut; a violation is the last of them."""
    check_every_cut(client_calls, wire)
    names = [call[0] for call in client_calls([wire])]

    assert "violation" not in names[:-1]


@given(subject=token, reply=optional, headers=block, body=payload)
def test_publishes_read_back(subject: bytes, reply: bytes, headers: bytes, body: bytes) -> None:
    """What the encoder writes for a client is what the server's parser reports."""
    plain = encoder.encode_pub(subject, reply, body)
    full = encoder.encode_hpub(subject, reply, headers, body)

    assert server_calls([plain + full]) == [
        ("pub", subject, reply, b"", body),
        ("pub", subject, reply, headers, body),
    ]


@given(subject=token, reply=optional, headers=block, body=payload, number=sid)
def test_messages_read_back(
    subject: bytes, reply: bytes, headers: bytes, body: bytes, number: int
) -> None:
    """What the encoder writes for a server is what the client's parser reports."""
    plain = encoder.encode_msg(subject, b"%d" % number, reply, body)
    full = encoder.encode_hmsg(subject, b"%d" % number, reply, headers, body)

    assert client_calls([plain + full]) == [
        ("msg", subject, number, reply, b"", body),
        ("msg", subject, number, reply, headers, body),
    ]


@given(subject=token, queue=optional, number=sid, count=st.integers(0, 10**9 - 1))
def test_subscriptions_read_back(subject: bytes, queue: bytes, number: int, count: int) -> None:
    """SUB and UNSUB come back as they were written."""
    wire = encoder.encode_sub(subject, queue, number) + encoder.encode_unsub(number, count)

    assert server_calls([wire]) == [
        ("sub", subject, queue, b"%d" % number),
        ("unsub", b"%d" % number, count),
    ]
