"""A server that cannot start says why and what to do."""

import errno
import logging
import socket
from pathlib import Path

import pytest

import jetspark
from jetspark import StreamConfig
from jetspark.cli.serve.log import open_log
from jetspark.errors import InsufficientResources
from jetspark.server.config.settings import Settings
from jetspark.server.start_errors import cannot_listen, cannot_open_store, in_words


@pytest.mark.parametrize(
    ("number", "advice", "flags"),
    [
        (
            errno.EADDRINUSE,
            "choose another port with port= (-1: any free)",
            "choose another port with -p (-1: any free)",
        ),
        (
            errno.EADDRNOTAVAIL,
            "choose an address of this machine with host=",
            "choose an address of this machine with -a",
        ),
        (
            errno.EACCES,
            "choose a port from 1024 up with port=",
            "choose a port from 1024 up with -p",
        ),
        (
            errno.EMFILE,
            "choose another address with host=, or another port with port=",
            "choose another address with -a, or another port with -p",
        ),
    ],
)
def test_a_port_that_cannot_be_opened_is_named_with_advice(
    number: int, advice: str, flags: str
) -> None:
    """A program sees its arguments, the command line its flags."""
    error = cannot_listen("clients", "0.0.0.0", 4222, OSError(number, "long text of asyncio"))

    assert error.errno == number
    assert "cannot listen for clients on 0.0.0.0:4222: " in in_words(error)
    assert advice in str(error)
    assert flags in in_words(error)
    assert "asyncio" not in in_words(error)


def test_an_unknown_host_is_named() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert in_words(cannot_listen("http monitoring", "::x", 1, unknown)) == (
        "cannot listen for http monitoring on [::x]:1: Name or service not known; "
        "choose an address of this machine with -a"
    )


async def test_a_port_in_use_is_reported_to_programs_too() -> None:
    async with jetspark.Server(http_port=-1) as first:
        monitor = int(first.monitor_url.rpartition(":")[2])
        with pytest.raises(OSError, match=r"listen for clients on .* another port with port="):
            await jetspark.Server(port=first.port).start()
        with pytest.raises(OSError, match=r"listen for http monitoring on .* with http_port= "):
            await jetspark.Server(http_port=monitor).start()


async def test_a_file_where_the_store_should_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(OSError, match=r"it is a file, expected a folder; .* with store_dir="):
        await jetspark.Server(store_dir=str(tmp_path / "file")).start()


def test_a_store_without_permission_names_the_file() -> None:
    refused = PermissionError(13, "Permission denied", "/data/STORE")

    assert in_words(cannot_open_store(Path("/data"), refused)) == (
        "cannot keep streams in /data: Permission denied (/data/STORE); "
        "let this user write there, or choose another folder with -sd"
    )


def test_other_errors_keep_their_words() -> None:
    assert in_words(ValueError("two words")) == "two words"
    assert in_words(FileNotFoundError(2, "No such file", "ca.pem")) == "ca.pem: No such file"


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_logged(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot write the log .*: No such file or directory"):
        open_log(Settings(logfile=str(tmp_path / "nowhere" / "log")))


async def test_a_full_budget_is_reported_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients get 10023, which does not say whose limit it was."""
    config = tmp_path / "server.conf"
    config.write_text(f'port: -1, jetstream {{ store_dir: "{tmp_path}/store", max_file: 4KiB }}')
    caplog.set_level(logging.ERROR, "jetspark")
    async with jetspark.Server(config=str(config)) as server, await server.connect() as client:
        js = client.jetstream()
        await js.create_stream(StreamConfig(name="BIG", subjects=("big",)))
        for _ in range(4):
            await js.publish("big", bytes(1000))
        with pytest.raises(InsufficientResources):
            await js.publish("big", bytes(1000))

    told = [line for line in caplog.messages if "resource limits exceeded" in line]
    assert len(told) == 1
    assert "of 4 KiB; messages are refused (10023)" in told[0]
    assert "jetstream.max_file" in told[0]
