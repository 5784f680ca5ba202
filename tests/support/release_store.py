"""A small store as a release wrote it, with what was in it: later versions must read the same.

``python -m tests.support.release_store`` writes the archive of the version that is installed; the
release procedure (CONTRIBUTING.md) does that once for each. An archive is never written again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jetspark
from jetspark.store.format.segment import SEGMENT_SIZE

FOLDER = Path(__file__).resolve().parents[1] / "integration" / "storage" / "releases"
# Of the answers: what depends on when they are given, or on whether a client waits.
PASSING = {
    "ts",
    "type",
    "cluster",
    "num_waiting",
    "alternates",
    "did_create",
    "active",
    "last_active",
}


async def fill(js: jetspark.JetStream) -> None:
    """Leave something of every kind of record in the store."""
    orders = await js.create_stream(
        "ORDERS", subjects=["orders.>"], allow_direct=True, allow_atomic=True, allow_msg_ttl=True
    )
    for n in range(20):
        headers = {"Kind": "even"} if n % 2 == 0 else None
        await js.publish(f"orders.{n % 4}", b"order %d" % n, headers=headers, msg_id=f"id-{n}")
    async with js.atomic_batch() as batch:
        batch.add("orders.debit", b"10")
        batch.add("orders.credit", b"10")
    await js.publish("orders.kept", b"x" * 70_000, ttl="never")
    await orders.delete_msg(3)
    await orders.delete_msg(7, erase=False)
    await orders.purge(subject="orders.1", keep=1)
    billing = await orders.create_consumer(durable="billing", ack_wait=3600)
    first, second, third, _ = await billing.fetch(4, timeout=20)
    await first.ack_sync()
    await third.ack_sync()
    second.nak(delay=3600)
    await orders.create_consumer(durable="audit", filter_subject="orders.2", deliver_policy="last")

    limited = await js.create_stream("LIMITED", subjects=["limited"], max_msgs=50)
    for n in range(60):
        await js.publish("limited", b"%d " % n * 20)
    await limited.update(max_msgs=40)
    # A full segment and the beginning of the next one: upkeep compresses and indexes the first.
    await js.create_stream("PACKED", subjects=["packed"], compression="s2")
    for n in range(SEGMENT_SIZE // 1_000_000 + 2):
        await js.publish("packed", (b"%d " % n * 500_000)[:1_000_000])

    bucket = await js.create_key_value("settings", history=3)
    for n in range(5):
        await bucket.put("mail.host", b"host %d" % n)
    await bucket.put("mail.port", b"25")
    await bucket.delete("mail.port")
    files = await js.create_object_store("files")
    await files.put("letter", bytes(range(256)) * 1000)

    await js.create_stream(
        "COPY", mirror=jetspark.StreamSource(name="ORDERS", filter_subject="orders.2")
    )
    while (await (await js.stream("COPY")).info()).state.messages < 3:
        await asyncio.sleep(0.01)


async def contents(client: jetspark.Client) -> dict[str, Any]:
    """Streams with their configuration, state, consumers and every message, as the server says."""
    found: dict[str, Any] = {}
    for name in sorted([name async for name in client.jetstream().stream_names()]):
        info = await ask(client, f"STREAM.INFO.{name}", {"deleted_details": True})
        listed = await ask(client, f"CONSUMER.LIST.{name}", {})
        state = info["state"]
        gone = set(state.get("deleted") or ())
        found[name] = info | {
            "consumers": sorted(listed["consumers"], key=lambda each: str(each["name"])),
            "messages": [
                short(await ask(client, f"STREAM.MSG.GET.{name}", {"seq": seq}))
                for seq in range(state["first_seq"], state["last_seq"] + 1)
                if seq not in gone
            ],
        }
    return found


def short(message: dict[str, Any]) -> dict[str, Any]:
    """A message, with the digest of its data where that is long."""
    stored = message["message"]
    if len(stored.get("data", "")) > 1000:
        stored["data"] = hashlib.sha256(stored["data"].encode()).hexdigest()
    return message


async def ask(client: jetspark.Client, request: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await client.request(f"$JS.API.{request}", json.dumps(body).encode(), timeout=20)
    answer = without_passing(json.loads(reply.data))
    assert isinstance(answer, dict)
    assert "error" not in answer, answer
    return answer


def without_passing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_passing(each) for key, each in value.items() if key not in PASSING}
    return [without_passing(each) for each in value] if isinstance(value, list) else value


async def opened(store: Path) -> dict[str, Any]:
    """What a server of this version finds in a store."""
    async with jetspark.Server(store_dir=store) as server, server.connect() as client:
        return await contents(client)


async def write(store: Path) -> dict[str, Any]:
    """Fill a store, and return what the same version finds in it after a restart."""
    async with jetspark.Server(store_dir=store) as server, server.connect() as client:
        await fill(client.jetstream())
        while not list(store.rglob("*.idx")):
            await asyncio.sleep(0.01)
    return await opened(store)


def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    """Write the archive."""
    archive = FOLDER / f"store-{jetspark.__version__}.tar.gz"
    if archive.exists():
        raise SystemExit(f"{archive.name} exists: a release is written once; raise the version")
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        expected = asyncio.run(write(Path(name, "store")))
        Path(name, "contents.json").write_text(json.dumps(expected, indent=1, sort_keys=True))
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(Path(name, "store"), "store", filter=without_owner)
            packed.add(Path(name, "contents.json"), "contents.json", filter=without_owner)


if __name__ == "__main__":
    main()
