"""Every way to reach a server and to say who one is.

Each option reads a stream through the reader, as a task would; the file that Spark distributes
goes through a real session.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import make_certificate
from tests.support.jwts import Operator, credentials_text
from tests.support.servers import ServerProcess

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jetspark import KeyValueConfig, ObjectStoreConfig, StreamConfig, TlsFiles, sync
from jetspark.protocol.nkeys import USER, KeyPair
from jetspark.spark.connections import CONNECTIONS
from jetspark.spark.kv.source import KvDataSource
from jetspark.spark.objects.source import ObjectDataSource
from jetspark.spark.stream.source import JetStreamDataSource
from jetspark.spark.stream.view import PlanningFailed

Start = Callable[..., str]


@pytest.fixture(params=["jetspark", "nats-server"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server with a configuration, make the stream S in it, and return its URL."""
    started: list[ServerProcess] = []

    def begin(kind: str, config: str, **identity: Any) -> str:
        file = tmp_path / "server.conf"
        file.write_text(config)
        started.append(ServerProcess(kind, tmp_path / "store", "-js", "-c", str(file)))
        domain = identity.pop("domain", "")
        with sync.connect(started[-1].url, **identity) as client:
            js = client.jetstream(domain=domain)
            js.create_stream(StreamConfig(name="S", subjects=("s.>",), allow_direct=True))
            for number in range(3):
                js.publish(f"s.{number}", b"%d" % number)
        return started[-1].url

    yield begin
    CONNECTIONS.close()
    for server in started:
        server.kill()


def _read(url: str, **options: str) -> list[int]:
    source = JetStreamDataSource(options={"servers": url, "stream": "S", **options})
    reader: Any = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


def _with(options: dict[str, str]) -> dict[str, str]:
    """Options as a user writes them: with dots in their names."""
    return {name.replace("_", ".", 1): value for name, value in options.items()}


def test_a_token_and_a_name(start: Start, kind: str) -> None:
    url = start(kind, "authorization { token: s3cret }", token="s3cret")

    assert _read(url, **_with({"nats_token": "s3cret", "nats_name": "night job"})) == [1, 2, 3]
    with pytest.raises(PlanningFailed, match=r"cannot read stream 'S' on 127\.0\.0\.1") as caught:
        _read(url, **_with({"nats_token": "wrong-token"}))
    assert "wrong-token" not in str(caught.value)


def test_the_server_shows_the_name_of_a_connection(kind: str, tmp_path: Path) -> None:
    server = ServerProcess(kind, tmp_path / "store", "-js", "-m", "-1")
    try:
        with sync.connect(server.url, name="another") as client:
            client.jetstream().create_stream(StreamConfig(name="S", allow_direct=True))
            _read(server.url, **_with({"nats_name": "night job"}))
            with urllib.request.urlopen(f"{server.monitor}/connz", timeout=20) as answer:
                shown = {one.get("name") for one in json.load(answer)["connections"]}
    finally:
        CONNECTIONS.close()
        server.kill()

    assert shown == {"another", "night job"}


def test_a_user_whose_inboxes_are_its_own(start: Start, kind: str) -> None:
    users = """authorization { users: [
        { user: root, password: r },
        { user: ann, password: a, permissions: { subscribe: { allow: ["_ANN.>"] } } } ] }"""
    url = start(kind, users, user="root", password="r")
    ann = _with({"nats_user": "ann", "nats_password": "a"})

    assert _read(url, **ann, **_with({"nats_inboxPrefix": "_ANN"})) == [1, 2, 3]
    with pytest.raises(
        PlanningFailed, match=r"(?i)permission.*option nats\.inboxPrefix is '_INBOX'"
    ):
        _read(url, **ann)


def test_an_nkey(start: Start) -> None:
    """Our server has no users with nkeys yet; it says so."""
    key = KeyPair.generate(USER)
    config = f"authorization {{ users: [ {{ nkey: {key.public_key} }} ] }}"
    url = start("nats-server", config, nkey_seed=key.seed)

    assert _read(url, **_with({"nats_nkeySeed": key.seed})) == [1, 2, 3]


def test_tls_with_a_certificate_of_the_client(start: Start, kind: str, tmp_path: Path) -> None:
    certificate, key = map(str, make_certificate(tmp_path))
    config = f"""tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{certificate}",
        verify: true }}"""
    files = TlsFiles(ca_file=certificate, certificate_file=certificate, key_file=key)
    url = start(kind, config, tls=files)
    trusting = {"nats_tlsCa": certificate}

    known = _with({**trusting, "nats_tlsCert": certificate, "nats_tlsKey": key})
    assert _read(url, **known, **_with({"nats_tls": "true"})) == [1, 2, 3]
    with pytest.raises(
        PlanningFailed, match=r"certificate: set options nats\.tlsCert and nats\.tlsKey"
    ):
        _read(url, **_with(trusting))
    with pytest.raises(PlanningFailed, match=r"set option nats\.tlsCa to a PEM file"):
        _read(url, **_with({"nats_tls": "true"}))
    (tmp_path / "other").mkdir()
    other, other_key = map(str, make_certificate(tmp_path / "other"))
    with pytest.raises(PlanningFailed, match=f"option nats.tlsCa is '{other}', which does not"):
        _read(url, **_with({"nats_tlsCa": other}))
    unknown = {**trusting, "nats_tlsCert": other, "nats_tlsKey": other_key}
    with pytest.raises(PlanningFailed, match=f"certificate of option nats.tlsCert, '{other}'"):
        _read(url, **_with(unknown))
    with pytest.raises(PlanningFailed, match=r"'/none\.pem' cannot be read: .* nats\.tlsCa"):
        _read(url, **_with({"nats_tlsCa": "/none.pem"}))


def test_a_refused_identity_names_its_options(start: Start, kind: str) -> None:
    url = start(kind, "authorization { user: ann, password: a }", user="ann", password="a")

    with pytest.raises(PlanningFailed, match=r"set one of nats\.user and nats\.password, "):
        _read(url)
    with pytest.raises(PlanningFailed, match=r"came from option nats\.user and nats\.password$"):
        _read(url, **_with({"nats_user": "ann", "nats_password": "b"}))
    with pytest.raises(PlanningFailed, match=r"nkey seed.*this is option nats\.nkeySeed$"):
        _read(url, **_with({"nats_nkeySeed": "SUA"}))


def test_a_certificate_that_is_not_accepted_is_not_tried_again(
    start: Start, tmp_path: Path
) -> None:
    """A streaming write waits for servers that are away; this one will not become another."""
    certificate, key = map(str, make_certificate(tmp_path))
    files = TlsFiles(ca_file=certificate)
    url = start("jetspark", f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}', tls=files)
    options = {"servers": url, "stream": "S", **_with({"nats_tls": "true"})}
    source: Any = JetStreamDataSource(options=options)
    schema = StructType().add("subject", "string").add("data", "string")

    with pytest.raises(PlanningFailed, match=r"nats\.tlsCa") as refused:
        source.streamWriter(schema, False)

    assert not refused.value.transient


def test_credentials_of_a_file_and_of_a_variable(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only nats-server has operators (our server says so when it is started with one)."""
    operator = Operator()
    text = credentials_text(*operator.user())
    file = tmp_path / "user.creds"
    file.write_text(text)
    url = start("nats-server", operator.config(jetstream=True), credentials=str(file))
    monkeypatch.setenv("CREDENTIALS_TEXT", text)
    monkeypatch.setenv("CREDENTIALS_PATH", str(file))

    assert _read(url, credentialsFile=str(file)) == [1, 2, 3]
    assert _read(url, **_with({"nats_credentials": str(file)})) == [1, 2, 3]
    assert _read(url, credentialsEnv="CREDENTIALS_TEXT") == [1, 2, 3]
    assert _read(url, credentialsEnv="CREDENTIALS_PATH") == [1, 2, 3]
    with pytest.raises(PlanningFailed, match="variable 'CREDENTIALS_NONE' is not set"):
        _read(url, credentialsEnv="CREDENTIALS_NONE")
    with pytest.raises(PlanningFailed, match=r"the file '/none\.creds' does not exist"):
        _read(url, credentialsFile="/none.creds")


def test_a_file_that_spark_distributes(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """The option credentialsFile is resolved through SparkFiles, on driver and executors.

    Neither runs in the folder of the file, so that its name alone leads nowhere else.
    """
    operator = Operator()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = elsewhere / f"spark-{os.getpid()}.creds"
    file.write_text(credentials_text(*operator.user()))
    url = start("nats-server", operator.config(jetstream=True), credentials=str(file))

    spark.sparkContext.addFile(str(file))
    options = {"servers": url, "stream": "S", "credentialsFile": file.name}
    frame = spark.read.format("jetstream").options(**options).load()

    assert sorted(row.seq for row in frame.collect()) == [1, 2, 3]


def test_a_domain_and_a_prefix(start: Start) -> None:
    """Our server has no domains of its own; it says so."""
    url = start("nats-server", "jetstream { domain: hub }", domain="hub")
    with sync.connect(url) as client:
        js = client.jetstream(domain="hub")
        js.create_key_value(KeyValueConfig(bucket="B")).put("k", b"v")
        js.create_object_store(ObjectStoreConfig(bucket="O")).put("o", b"content")
    for where in ({"domain": "hub"}, {"apiPrefix": "$JS.hub.API"}):
        sources: list[tuple[Any, str]] = [(KvDataSource, "B"), (ObjectDataSource, "O")]
        for source, bucket in sources:
            made = source(options={"servers": url, "bucket": bucket, **where})
            reader = made.reader(made.schema())
            rows = [one for part in reader.partitions() for one in reader.read(part)]
            assert sum(batch.num_rows for batch in rows) == 1

        assert _read(url, **where) == [1, 2, 3]
    with pytest.raises(PlanningFailed, match="cannot read stream 'S'"):
        _read(url, domain="elsewhere")
