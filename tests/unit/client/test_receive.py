from jetspark.client import receive
from jetspark.client.header_input import HeaderInput
from jetspark.client.message import Message
from jetspark.client.receive import MessageQueue, Receiver
from jetspark.protocol.client_parser import ClientParser


class Recorder:
    """Stands for the client and for the subscription that owns a queue."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.wakes = 0

    def publish(self, subject: str, payload: bytes = b"", *, headers: HeaderInput = None) -> None:
        assert headers is None
        self.published.append((subject, payload))

    def wake(self) -> None:
        self.wakes += 1


def make_queue(
    messages_max: int = 100, bytes_max: int = 10_000
) -> tuple[Receiver, MessageQueue, Recorder]:
    receiver, recorder = Receiver(), Recorder()
    queue = MessageQueue(receiver, recorder, messages_max, bytes_max, recorder.wake)
    receiver.add(7, queue)
    return receiver, queue, recorder


def feed(receiver: Receiver, wire: bytes) -> None:
    """Parse one chunk and wake the waiters, as the driver does."""
    ClientParser(receiver, 4096, -1).feed(wire)
    woken = receiver.take_woken()
    for sink in woken:
        sink.wake()


def test_a_message_carries_subject_reply_headers_and_payload() -> None:
    receiver, queue, recorder = make_queue()
    feed(receiver, b"HMSG a.b 7 in.1 20 25\r\nNATS/1.0\r\nk: vwx\r\n\r\nhello\r\n")

    message = queue.take()

    assert (message.subject, message.reply, message.data) == ("a.b", "in.1", b"hello")
    assert message.headers.items() == [("k", "vwx")]
    message.respond(b"there")
    assert recorder.published == [("in.1", b"there")]


def test_messages_of_an_unknown_subscription_are_dropped_but_counted() -> None:
    receiver, queue, _ = make_queue()
    feed(receiver, b"MSG a 8 2\r\nxy\r\n")

    assert (receiver.messages, receiver.bytes, len(queue.messages)) == (1, 2, 0)


def test_a_waiting_reader_is_woken_once_per_chunk() -> None:
    """Nothing is scheduled per message."""
    receiver, queue, recorder = make_queue()
    queue.waiting = True
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 50)

    assert (recorder.wakes, len(queue.messages)) == (1, 50)


def test_no_wakeup_without_a_waiter() -> None:
    receiver, _, recorder = make_queue()
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 50)

    assert recorder.wakes == 0


def test_what_exceeds_the_message_limit_is_dropped_and_reported_once() -> None:
    receiver, queue, recorder = make_queue(messages_max=10)
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 15)
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 5)

    assert (len(queue.messages), queue.dropped, queue.delivered) == (10, 10, 20)
    assert recorder.wakes == 1


def test_what_exceeds_the_byte_limit_is_dropped() -> None:
    receiver, queue, _ = make_queue(bytes_max=25)
    feed(receiver, b"MSG a 7 10\r\n0123456789\r\n" * 3)

    assert (len(queue.messages), queue.bytes, queue.dropped) == (2, 20, 1)


def test_a_second_episode_is_reported_again_when_the_queue_was_half_emptied() -> None:
    receiver, queue, recorder = make_queue(messages_max=10)
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 11)
    for _ in range(6):
        queue.take()
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 10)

    assert (recorder.wakes, queue.dropped) == (2, 5)


def test_taking_messages_gives_the_bytes_back() -> None:
    receiver, queue, _ = make_queue()
    feed(receiver, b"HMSG a 7 12 15\r\nNATS/1.0\r\n\r\nabc\r\n" * 3)
    assert queue.bytes == 45

    queue.take()
    assert queue.bytes == 30
    assert [message.data for message in queue.take_many(1)] == [b"abc"]
    assert queue.bytes == 15
    assert len(queue.take_many(10)) == 1
    assert (queue.bytes, len(queue.messages)) == (0, 0)


def test_the_last_message_of_a_limited_subscription_wakes_its_owner() -> None:
    receiver, queue, recorder = make_queue()
    queue.delivered_max = 2
    feed(receiver, b"MSG a 7 1\r\nx\r\n" * 2)

    assert recorder.wakes == 1


def test_control_operations_wait_for_the_driver_in_order() -> None:
    receiver, _, _ = make_queue()
    feed(receiver, b"PING\r\nPONG\r\nPING\r\nINFO {}\r\n-ERR 'Stale Connection'\r\n")

    assert receiver.control == [
        (receive.PING, b""),
        (receive.PONG, b""),
        (receive.PING, b""),
        (receive.INFO, b"{}"),
        (receive.ERR, b"Stale Connection"),
    ]


def test_garbage_is_kept_as_a_violation() -> None:
    receiver, _, _ = make_queue()
    feed(receiver, b"HTTP/1.1 400 Bad Request\r\n\r\n")

    assert [kind for kind, _ in receiver.control] == [receive.VIOLATION]


def test_a_message_shows_its_size_and_not_its_payload() -> None:
    assert repr(Message("a", b"secret")) == "Message(subject='a', reply='', size=6)"
