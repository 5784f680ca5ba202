"""What a program meets that uses more than is installed: one line, which names the extra."""

import asyncio
import json
import pickle
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.certificates import make_certificates
from tests.support.client_only import BASE, client_only

import jetspark
from jetspark.errors import Error, MissingExtra
from jetspark.errors.extras import check_extra, extra
from jetspark.protocol.nkeys import USER, KeyPair
from jetspark.server.arguments import combined
from jetspark.server.server import Server

PYPROJECT: Final = Path(__file__).resolve().parents[2] / "pyproject.toml"

NKEYS: Final = 'nkeys and credentials files need the package cryptography: "nkeys"'
WEBSOCKET: Final = 'ws:// and wss:// need the package websockets: "websocket"'
MONITORING: Final = 'monitoring needs the packages starlette, uvicorn: "server"'
VERIFIED: Final = 'monitoring needs the packages starlette, uvicorn, cryptography: "server"'
BCRYPT: Final = 'bcrypt passwords need the package bcrypt: "server"'
SPARK: Final = 'Spark tables need the package pyspark: "spark"'
ARROW: Final = 'Spark tables need the package pyarrow: "spark"'
# A call, and what is said about it; `"server"` stands for the command that installs that extra.
CALLS: Final = {
    "asyncio.run(use(jetspark.connect('nats://127.0.0.1:1', nkey_seed=seed)))": NKEYS,
    "asyncio.run(use(jetspark.connect('nats://127.0.0.1:1', credentials=creds)))": NKEYS,
    "jetspark.sync.connect('nats://127.0.0.1:1', nkey_seed=seed)": NKEYS,
    "asyncio.run(use(jetspark.connect('ws://127.0.0.1:1')))": WEBSOCKET,
    "jetspark.sync.connect(['nats://127.0.0.1:1', 'wss://127.0.0.1:1'])": WEBSOCKET,
    "jetspark.AesGcmValues({'k': bytes(16)})": (
        'AesGcmValues needs the package cryptography: "nkeys"'
    ),
    "jetspark.Server(http_port=-1)": MONITORING,
    "jetspark.sync.Server(http_port=-1)": MONITORING,
    "jetspark.ReplicaServer('nats://127.0.0.1:1', http_port=-1)": MONITORING,
    "jetspark.Server(config=monitored)": VERIFIED,
    "jetspark.Server(config=hashed)": BCRYPT,
    "jetspark.Server(remotes={'hub': {'url': 'nats://127.0.0.1:1', 'nkey': 'seed'}})": NKEYS,
    "jetspark.Server(remotes={'hub': {'url': 'nats://hub:1', 'credentials': 'creds'}})": NKEYS,
    "jetspark.Server(remotes={'hub': {'url': ['nats://hub:1', 'WSS://hub:1']}})": WEBSOCKET,
    "jetspark.ReplicaServer('ws://127.0.0.1:1')": WEBSOCKET,
    "jetspark.spark.session()": SPARK,
    "jetspark.spark.refresh('view')": SPARK,
    "jetspark.spark.encode_headers('h')": SPARK,
    "jetspark.spark.parse_headers('h')": SPARK,
    "jetspark.spark.encode_json('row')": SPARK,
    "jetspark.spark.encode_msgpack('row')": ARROW,
    "jetspark.spark.encode_avro('row', '{}')": ARROW,
    "jetspark.spark.decode_json('data', 'id INT')": ARROW,
    "jetspark.spark.decode_msgpack('data', 'id INT')": ARROW,
    "jetspark.spark.decode_avro('data', '{}')": SPARK,
    "import pyspark_jetstream": SPARK,
    "import pyspark_nats_kv": SPARK,
    "import pyspark_nats_object": SPARK,
}
_MEET: Final = """
import asyncio, json
import jetspark

async def use(opening):
    await opening

given = json.loads(sys.argv[1])
names = {"asyncio": asyncio, "jetspark": jetspark, "use": use, **given["names"]}
said = {}
for call in given["calls"]:
    try:
        exec(call, names)
        said[call] = "nothing"
    except jetspark.errors.MissingExtra as error:
        assert isinstance(error, ImportError)
        said[call] = str(error)
    except Exception as error:
        said[call] = repr(error)
print(json.dumps(said))
"""


def in_full(text: str) -> str:
    head, _, name = text[:-1].rpartition('"')
    return f'{head}pip install "jetspark[{name}]"'


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every call says where only a client is installed."""
    folder = tmp_path_factory.mktemp("extras")
    seed = KeyPair.generate(USER).seed
    hashed = folder / "hashed.conf"
    password = "$2a$04$" + "." * 53
    hashed.write_text(f'authorization {{ user: ann, password: "{password}" }}')
    monitored = folder / "monitored.conf"
    monitored.write_text(f"http_port: -1\n{make_certificates(folder).verifying_block()}")
    names = {
        "seed": seed,
        "creds": (
            "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        ),
        "hashed": str(hashed),
        "monitored": str(monitored),
    }
    found: dict[str, str] = client_only(_MEET, json.dumps({"calls": list(CALLS), "names": names}))
    return found


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_needs_more_than_a_client_names_the_extra(
    said: dict[str, str], call: str
) -> None:
    assert said[call] == in_full(CALLS[call])


def test_every_public_name_exists_where_only_a_client_is_installed() -> None:
    code = """
        import json, jetspark
        for name in jetspark.__all__:
            getattr(jetspark, name)
        print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - set(
            sys.stdlib_module_names))))
    """
    loaded = client_only(code)

    foreign = {name for name in loaded if not name.endswith("__mypyc") and name[0] != "_"}
    assert foreign <= set(BASE)


def test_a_client_and_a_server_without_monitoring_need_no_extra() -> None:
    code = """
        import asyncio, json
        import jetspark

        async def main():
            async with jetspark.Server() as server, server.connect() as client:
                js = client.jetstream()
                kv = await js.create_key_value("settings")
                await kv.put("a", b"1")
                print(json.dumps((await kv.get("a")).value.decode()))

        asyncio.run(main())
    """
    assert client_only(code) == "1"


_COMMAND: Final = """
import contextlib, io, json
from jetspark.__main__ import main

said = {}
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words.split()
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        try:
            main()
        except SystemExit as end:
            # A text is what Python prints before it ends with code 1.
            text = end.code if isinstance(end.code, str) else shown.getvalue()
            said[words] = [1 if isinstance(end.code, str) else end.code, text]
print(json.dumps(said))
"""


def test_the_command_line_without_its_packages_is_one_line() -> None:
    (said,) = client_only(_COMMAND, json.dumps(["serve -js"])).values()

    text = 'the command jetspark needs the packages click, rich: "cli"'
    assert said == [1, in_full(f"jetspark: {text}")]


def test_commands_name_the_extra_that_they_lack(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "spark-pipeline.yml").write_text("name: shop\n")
    password = "$2a$04$" + "." * 53
    configs = {
        f'authorization {{ user: ann, password: "{password}" }}': BCRYPT,
        "http_port: -1": MONITORING,
        "jetspark { remotes { hub { url: 'nats://hub:1', nkey: 'seed' } } }": NKEYS,
        "jetspark { remotes { hub { url: 'wss://hub:1' } } }": WEBSOCKET,
    }
    checked = {}
    for at, (text, needs) in enumerate(configs.items()):
        config = tmp_path / f"{at}.conf"
        config.write_text(text)
        checked[f"serve -c {config}"] = f"[FTL] {in_full(needs)}"
        checked[f"serve -t -c {config}"] = f"[FTL] {config}: {in_full(needs)}"
    wanted = {
        **checked,
        f"serve -m -1 -sd {tmp_path}/store": f"[FTL] {in_full(MONITORING)}",
        f"pipeline run --project {project}": in_full(
            "jetspark: pipelines need the packages pyspark, pyarrow, pandas, PyYAML, grpcio, "
            'grpcio-status, protobuf, zstandard: "pipelines"'
        ),
        f"pipeline status --project {project}": in_full(
            'jetspark: pipelines need the package pyarrow: "pipelines"'
        ),
        f"stream export ORDERS {tmp_path}/a.parquet": in_full(
            'Error: Parquet needs (and --format ndjson does not) the package pyarrow: "spark"'
        ),
    }

    installed = ("click", "rich", "markdown_it", "mdurl", "pygments")
    said = client_only(_COMMAND, json.dumps(list(wanted)), installed=installed)

    for words, text in wanted.items():
        code, shown = said[words]
        assert code == 1
        assert shown.rstrip().endswith(text), words
        assert len(shown.splitlines()) == 1, words


def test_a_reload_that_needs_an_extra_names_it_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = make_certificates(tmp_path)
    config = tmp_path / "server.conf"
    config.write_text(f"http_port: -1\n{certificates.tls_block()}")
    server = Server(config=str(config))
    before = server.settings
    config.write_text(f"http_port: -1\n{certificates.verifying_block()}")
    verifying = combined({"config": str(config)})
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(MissingExtra, match=r"cryptography: .*\[server\]"):
        asyncio.run(server.reload(verifying))

    assert server.settings is before


def test_a_folder_with_the_name_of_a_package_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frobnicate").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(MissingExtra, match="the package frobnicate"):
        check_extra("cli", "nothing needs", "frobnicate")


def test_avro_names_its_extra_where_spark_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    monkeypatch.setitem(sys.modules, "fastavro", None)

    with pytest.raises(MissingExtra) as caught:
        jetspark.spark.decode_avro("data", "{}")

    assert str(caught.value) == in_full(
        'Avro needs, with Spark on the driver and on the workers, the package fastavro: "avro"'
    )


def test_the_error_knows_package_and_extra_and_travels_between_processes() -> None:
    with pytest.raises(MissingExtra) as caught, extra("nkeys", "nkeys need"):
        raise ModuleNotFoundError("No module named 'grpc_status.rpc'", name="grpc_status.rpc")

    copied = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copied, MissingExtra)
    assert issubclass(MissingExtra, Error)
    assert issubclass(MissingExtra, ImportError)
    assert (copied.package, copied.extra) == ("grpcio-status", "nkeys")
    assert str(copied) == str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("ours", name="jetspark.nonsense"),
        ImportError("cannot import name 'x' from 'cryptography'", name="cryptography"),
        ValueError("anything else"),
    ],
)
def test_other_errors_of_an_import_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, extra("nkeys", "nkeys need"):
        raise error

    assert caught.value is error


def test_every_extra_that_the_code_names_exists() -> None:
    project: dict[str, Any] = tomllib.loads(PYPROJECT.read_text())["project"]
    named = {text[:-1].rpartition('"')[2] for text in CALLS.values()}

    assert named | {"avro", "cli", "pipelines"} <= project["optional-dependencies"].keys()


def test_what_is_installed_passes_the_check() -> None:
    check_extra("nkeys", "nothing needs", "json", "xml.etree")
