import pytest

from jetspark.client.jetstream.pages import Page, parse_count
from jetspark.frame import Frame
from jetspark.units import parse_rfc3339

STAMP = b"2026-11-15T07:01:04.606146633Z"


class Done:
    """Counts how often a page said that it is finished."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def make_page(
    last: int = 1_000_000, *, columns: tuple[bool, bool, bool, bool] = (True, True, True, True)
) -> tuple[Page, Done]:
    done = Done()
    return Page(b"ORDERS", last, *columns, done), done


def own_lines(
    sequence: int,
    *,
    stream: bytes = b"ORDERS",
    subject: bytes = b"orders.a",
    stamp: bytes = STAMP,
    tail: bytes = b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 3\r\n",
) -> bytes:
    """The lines that a server adds to a stored message (wire.md, Direct get)."""
    return (
        b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n%b"
        % (
            stream,
            subject,
            sequence,
            stamp,
            tail,
        )
    )


def take(page: Page, lines: bytes, payload: bytes = b"data", version: bytes = b"NATS/1.0") -> bool:
    """Give a reply to the page in the middle of a chunk, as the parser does."""
    block = version + b"\r\n" + lines + b"\r\n"
    data = b"HMSG _INBOX.x.1 1 99 99\r\n" + block + payload + b"\r\n"
    start = data.index(block)
    end = start + len(block)
    return page.on_reply(Frame(data, 5, 15, 0, 0, start, end, end + len(payload)))


def test_a_row_becomes_one_entry_in_every_column() -> None:
    page, done = make_page()

    assert take(page, own_lines(4)) is False
    assert page.sequences == [4]
    assert page.times == [parse_rfc3339(STAMP.decode())]
    assert page.subjects == ["orders.a"]
    assert page.payloads == [b"data"]
    assert page.headers == [b""]
    assert done.count == 0


def test_columns_that_were_not_requested_are_not_built() -> None:
    page, _ = make_page(columns=(False, False, False, False))
    take(page, own_lines(4))
    take(page, b"k: v\r\n" + own_lines(5))

    assert page.sequences == [4, 5]
    assert (page.times, page.subjects, page.payloads, page.headers) == ([], [], [], [])


def test_the_users_headers_are_kept_without_the_servers() -> None:
    page, _ = make_page()
    take(page, b"k: v\r\nNats-Msg-Id: 1\r\n" + own_lines(4))

    assert page.headers == [b"NATS/1.0\r\nk: v\r\nNats-Msg-Id: 1\r\n\r\n"]
    assert page.sequences == [4]


def test_stored_headers_of_the_same_names_do_not_fool_the_reader() -> None:
    """The user's values come first, the server's are the last."""
    forged = own_lines(999, subject=b"forged", stamp=b"2000-01-01T00:00:00Z")
    page, _ = make_page()
    take(page, forged + own_lines(4))

    assert (page.sequences, page.subjects) == ([4], ["orders.a"])
    assert page.times == [parse_rfc3339(STAMP.decode())]
    assert page.headers == [b"NATS/1.0\r\n" + forged + b"\r\n"]


def test_the_proof_header_of_our_server_may_follow_every_row() -> None:
    """Direct-get messages carry Nats-Min-Last-Sequence."""
    page, _ = make_page()
    tail = b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 3\r\nNats-Min-Last-Sequence: 11\r\n"
    take(page, own_lines(4, tail=tail))

    assert (page.sequences, page.headers) == ([4], [b""])


def test_lines_in_another_order_are_read_too() -> None:
    page, _ = make_page()
    lines = (
        b"Nats-Stream: ORDERS\r\nNats-Num-Pending: 7\r\nNats-Time-Stamp: %b\r\n"
        b"Nats-Sequence: 4\r\nNats-Subject: orders.a\r\nNats-New: x\r\n" % STAMP
    )
    take(page, lines)

    assert (page.sequences, page.subjects, page.headers) == ([4], ["orders.a"], [b""])
    assert page.times == [parse_rfc3339(STAMP.decode())]


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-15T07:01:04Z",
        "2026-11-15T07:01:04.6Z",
        "2026-11-15T07:01:04.000000001Z",
        "2026-11-15T07:01:04.606146633Z",
        "2026-11-15T09:01:04.5+02:00",
        "2022-08-06 00:29:27.587861324 +0000 UTC",
    ],
)
def test_times_of_every_form_are_read_first_and_again(stamp: str) -> None:
    """RFC 3339 and the form of ADR-31's examples; the second row uses the cache."""
    page, _ = make_page()
    for sequence in (1, 2):
        take(page, own_lines(sequence, stamp=stamp.encode()))

    assert page.times == [parse_rfc3339(stamp)] * 2


def test_the_remembered_second_follows_the_rows() -> None:
    page, _ = make_page()
    stamps = [
        "2026-11-15T07:01:04.5Z",
        "2026-11-15T07:01:04.75Z",
        "2026-11-15T07:01:05.25Z",
        "2026-11-15T07:01:05Z",
        "2026-11-15T07:01:05.000001Z",
    ]
    for sequence, stamp in enumerate(stamps, start=1):
        take(page, own_lines(sequence, stamp=stamp.encode()))

    assert page.times == [parse_rfc3339(stamp) for stamp in stamps]


def test_rows_beyond_the_range_are_left_out() -> None:
    """A batch has no upper bound, so drop what lies past it."""
    page, _ = make_page(last=4)
    for sequence in (4, 5, 6):
        take(page, own_lines(sequence))
    take(page, b"k: v\r\n" + own_lines(7))

    assert (page.sequences, page.last_seq, page.past) == ([4], 4, True)


def test_rows_of_a_mirror_are_marked() -> None:
    page, _ = make_page()
    take(page, own_lines(4, stream=b"MIRROR"))
    take(page, own_lines(5, stream=b"MIRROR"))

    assert (page.foreign, page.sequences) == (True, [4, 5])


def test_the_end_of_a_batch_brings_what_is_left_and_the_proof() -> None:
    page, done = make_page()
    take(page, own_lines(4))
    lines = b"Nats-Num-Pending: 5\r\nNats-Last-Sequence: 4\r\nNats-Min-Last-Sequence: 11\r\n"

    assert take(page, lines, b"", b"NATS/1.0 204 EOB") is True
    assert (page.status, page.pending, page.proof) == (204, 5, 11)
    assert done.count == 1


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        (b"NATS/1.0 404 Message Not Found", 404, b"Message Not Found"),
        (b"NATS/1.0 412 Min Last Sequence", 412, b"Min Last Sequence"),
        (b"NATS/1.0 408 Bad Request", 408, b"Bad Request"),
        (b"NATS/1.0 503", 503, b""),
    ],
)
def test_a_status_ends_the_page(line: bytes, code: int, text: bytes) -> None:
    page, done = make_page()

    assert take(page, b"", b"", line) is True
    assert (page.status, page.status_text, page.proof, done.count) == (code, text, 0, 1)


def test_a_server_without_batches_is_noticed() -> None:
    """ADR-31: detected by the absence of Nats-Num-Pending in the first reply."""
    page, done = make_page()

    assert take(page, own_lines(4, tail=b"")) is True
    assert (page.unbatched, done.count) == (True, 1)


@pytest.mark.parametrize("lines", [b"", b"k: v\r\n", b"Nats-Stream: ORDERS\r\n"])
def test_a_reply_without_its_headers_ends_the_page_with_an_error(lines: bytes) -> None:
    page, done = make_page()
    take(page, lines)

    assert isinstance(page.error, ValueError)
    assert done.count == 1


def test_replies_that_keep_coming_move_the_deadline() -> None:
    page, _ = make_page()
    page.allow(5.0)
    take(page, own_lines(4))

    assert page.renew(now=100.0) is True
    assert page.deadline == 105.0
    assert page.renew(now=105.0) is False


@pytest.mark.parametrize(
    ("value", "count"), [(None, -1), (b"", -1), (b"x", -1), (b"-1", -1), (b"0", 0), (b"42", 42)]
)
def test_numbers_of_headers(value: bytes | None, count: int) -> None:
    assert parse_count(value) == count


TOO_LARGE = [2**63 - 1, 2**63, 2**64 - 1, 10**30]


@pytest.mark.parametrize("sequence", TOO_LARGE)
@pytest.mark.parametrize("order", ["released", "other"])
def test_a_sequence_that_no_column_can_hold_ends_the_page_with_an_error(
    sequence: int, order: str
) -> None:
    page, done = make_page(2**63 - 1)
    tail = b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 3\r\n"

    take(page, own_lines(sequence, tail=tail if order == "released" else b"X: y\r\n" + tail))

    assert done.count == 1
    assert "has a message with a sequence above" in str(page.error)
    assert page.sequences == []


def test_the_largest_sequence_that_can_be_read() -> None:
    page, _ = make_page(2**63 - 1)

    take(page, own_lines(2**63 - 2))

    assert (page.sequences, page.error) == ([2**63 - 2], None)


@pytest.mark.parametrize("digits", [*(b"%d" % number for number in TOO_LARGE), b"9" * 5000])
def test_numbers_of_a_status_are_at_most_the_largest_count(digits: bytes) -> None:
    page, done = make_page()

    assert take(page, b"Nats-Num-Pending: %b\r\n" % digits, version=b"NATS/1.0 204 EOB")

    assert (page.pending, page.status, done.count) == (2**63 - 1, 204, 1)


@pytest.mark.parametrize(
    ("stamp", "time_ns"),
    [
        (b"0001-01-01T00:00:00Z", -(2**63)),
        (b"9999-12-31T23:59:59.9Z", 2**63 - 1),
        (b"2262-04-11T23:47:16.854775806Z", 2**63 - 2),
        (b"2262-04-11T23:47:17.5Z", 2**63 - 1),
    ],
)
def test_a_time_that_no_column_can_hold_is_the_nearest_one(stamp: bytes, time_ns: int) -> None:
    page, _ = make_page()

    for sequence in (1, 2):
        take(page, own_lines(sequence, stamp=stamp))

    assert page.times == [time_ns, time_ns]
