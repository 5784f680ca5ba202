"""Coverage-guided fuzzing of both parsers and the handshake.

    python fuzz/fuzz_protocol.py -max_total_time=600 corpus/

Any bytes must lead to the same calls however they were split, never to an exception, and no more
than one control line and one payload may be buffered. Fuzzing runs on the interpreted build:
atheris cannot instrument compiled modules.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.recording import Call, RecordingClientOps, RecordingServerOps

with atheris.instrument_imports(include=["jetspark"]):
    from jetspark.protocol.client_parser import ClientParser
    from jetspark.protocol.framing import FrameParser
    from jetspark.protocol.handshake import decode_connect, decode_info
    from jetspark.protocol.parser import ServerParser

# Small, so that the fuzzer reaches the limits.
CONTROL_LINE = 48
PAYLOAD = 32

# Seeds: one of everything, so that the first words are not left to chance.
SEEDS = (
    b'CONNECT {"verbose":false}\r\nPUB a 1\r\nx\r\nSUB a q 1\r\nUNSUB 1 2\r\nPING\r\nPONG\r\n',
    b"HPUB a r 12 13\r\nNATS/1.0\r\n\r\nx\r\n+OK\r\nINFO {}\r\n-ERR x\r\n",
    b'INFO {"port":1} \r\nMSG a 1 r 2\r\nxy\r\n+OK\r\n',
    b"HMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n-ERR 'x'\r\nPING\r\n",
)


def check_held(parser: FrameParser) -> None:
    """The bytes buffered between chunks are bounded by the limits."""
    held = len(parser._word) + parser._pieces.size  # noqa: SLF001 - the bound is the point
    if held > CONTROL_LINE + PAYLOAD + 32:
        raise AssertionError(f"{held} bytes held")


def server_calls(chunks: list[bytes]) -> list[Call]:
    """The calls that chunks from a client lead to."""
    handler = RecordingServerOps()
    parser = ServerParser(handler, CONTROL_LINE, PAYLOAD, headers=True)
    for chunk in chunks:
        parser.feed(chunk)
        check_held(parser)
    return handler.calls


def client_calls(chunks: list[bytes]) -> list[Call]:
    """The calls that chunks from a server lead to, without the quoting text of a violation."""
    handler = RecordingClientOps()
    parser = ClientParser(handler, CONTROL_LINE, PAYLOAD)
    for chunk in chunks:
        parser.feed(chunk)
        check_held(parser)
    return [call[:1] if call[0] == "violation" else call for call in handler.calls]


def check(data: bytes) -> None:
    """Raise if an invariant does not hold; the first two bytes say where to split the others."""
    wire = data[2:]
    first, second = sorted((data[0] % (len(wire) + 1), data[1] % (len(wire) + 1)))
    pieces = [wire[:first], wire[first:second], wire[second:]]
    single = [wire[i : i + 1] for i in range(len(wire))]
    for calls in (server_calls, client_calls):
        whole = calls([wire])
        if calls(pieces) != whole or calls(single) != whole:
            raise AssertionError(f"{calls.__name__} depends on how {wire!r} was split")
    for decode in (decode_connect, decode_info):
        try:
            decode(wire)
        except ValueError:
            continue


def test_one_input(data: bytes) -> None:
    """Entry point of the fuzzer."""
    if len(data) > 2:
        check(data)


def main() -> None:
    """Check the seeds, then the fuzzer's inputs."""
    for seed in SEEDS:
        check(b"\x07\x13" + seed)
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
