"""Handlers that write down what a parser calls, with the bytes the offsets stand for."""

from mypy_extensions import i64

from jetspark.frame import Frame
from jetspark.protocol.client_parser import ClientOps
from jetspark.protocol.parser import ServerOps

Call = tuple[object, ...]


class RecordingServerOps(ServerOps):
    """Records the operations of a client as tuples ``(name, values...)``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def on_connect(self, body: bytes) -> None:
        """Record ``("connect", body)``."""
        self.calls.append(("connect", body))

    def on_pub(self, frame: Frame) -> None:
        """Record ``("pub", subject, reply, headers, payload)``."""
        assert frame.data[frame.pe : frame.pe + 2] == b"\r\n"
        self.calls.append(
            (
                "pub",
                frame.subject(),
                frame.reply(),
                frame.headers(),
                frame.payload(),
            )
        )

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """Record ``("sub", subject, queue, sid)``."""
        self.calls.append(("sub", subject, queue, sid))

    def on_unsub(self, sid: bytes, max_msgs: i64) -> None:
        """Record ``("unsub", sid, max_msgs)``."""
        self.calls.append(("unsub", sid, max_msgs))

    def on_ping(self) -> None:
        """Record ``("ping",)``."""
        self.calls.append(("ping",))

    def on_pong(self) -> None:
        """Record ``("pong",)``."""
        self.calls.append(("pong",))

    def on_violation(self, text: bytes, close: bool) -> None:
        """Record ``("violation", text, close)``."""
        self.calls.append(("violation", text, close))


class RecordingClientOps(ClientOps):
    """Records the operations of a server as tuples ``(name, values...)``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def on_info(self, body: bytes) -> None:
        """Record ``("info", body)``."""
        self.calls.append(("info", body))

    def on_msg(self, frame: Frame) -> None:
        """Record ``("msg", subject, sid, reply, headers, payload)``."""
        assert frame.data[frame.pe : frame.pe + 2] == b"\r\n"
        self.calls.append(
            (
                "msg",
                frame.subject(),
                frame.sid,
                frame.reply(),
                frame.headers(),
                frame.payload(),
            )
        )

    def on_ping(self) -> None:
        """Record ``("ping",)``."""
        self.calls.append(("ping",))

    def on_pong(self) -> None:
        """Record ``("pong",)``."""
        self.calls.append(("pong",))

    def on_ok(self) -> None:
        """Record ``("ok",)``."""
        self.calls.append(("ok",))

    def on_err(self, text: bytes) -> None:
        """Record ``("err", text)``."""
        self.calls.append(("err", text))

    def on_violation(self, text: bytes) -> None:
        """Record ``("violation", text)``."""
        self.calls.append(("violation", text))
