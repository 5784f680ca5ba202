"""Write the blocking twins of the client: ``jetspark.sync`` from ``jetspark.client``.

    python tools/gen_sync.py            rewrite the generated modules
    python tools/gen_sync.py --check    exit 1 if one of them is outdated

A twin holds the async object and a portal (``jetspark/sync/portal.py``). What a public method
becomes is decided by its signature, which must be fully annotated:

- ``async def f() -> T``                     ``portal.call(inner.f())``
- ``def f() -> T``                           ``portal.run(inner.f)``: on the loop's thread
- ``def f() -> Pager[T]``                    an iterator that crosses threads once per page
- ``async def f() -> AsyncGenerator[T, _]``  the same; its items are already chunks
- a property                                 read directly
- ``async with`` and ``async for``           ``with`` and ``for``
- ``overload``                               the same, without ``async``

A result that has a twin is wrapped. Names with a leading underscore are left out: what other parts
of the client need of a handle belongs to a part of it, not to the handle.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.sync_writer import SOURCE, Rules, Target, Writer

TARGETS = (
    Target(
        "jetspark.sync.client",
        "The blocking client: ``connect``, and publish, subscribe, request.",
        (
            ("jetspark.client.subscription", "Subscription"),
            ("jetspark.client.client", "Client"),
            ("jetspark.client.client", "connect"),
            ("jetspark.client.client", "connect_with"),
        ),
    ),
    Target(
        "jetspark.sync.jetstream",
        "Streams, blocking: manage them, publish to them, read them.",
        (
            ("jetspark.client.jetstream.publishing.publisher", "AckFuture"),
            ("jetspark.client.jetstream.publishing.atomic", "AtomicBatch"),
            ("jetspark.client.jetstream.publishing.fast", "FastPublisher"),
            ("jetspark.client.jetstream.streams", "Stream"),
            ("jetspark.client.jetstream.replica", "StreamReplica"),
            ("jetspark.client.jetstream.context", "JetStream"),
        ),
    ),
    Target(
        "jetspark.sync.consumers",
        "Consumers and subscriptions of streams, blocking.",
        (
            ("jetspark.client.jetstream.consumer.message", "JetStreamMessage"),
            ("jetspark.client.jetstream.consumer.endless", "MessageIterator"),
            ("jetspark.client.jetstream.consumer.consume", "Consumption"),
            ("jetspark.client.jetstream.consumer.handle", "Consumer"),
            ("jetspark.client.jetstream.subscribe.push_subscription", "PushSubscription"),
            ("jetspark.client.jetstream.subscribe.pull_subscription", "PullSubscription"),
        ),
    ),
    Target(
        "jetspark.sync.key_value",
        "Key-value buckets, blocking.",
        (
            ("jetspark.client.jetstream.kv.watch", "Watcher"),
            ("jetspark.client.jetstream.kv.transaction", "Transaction"),
            ("jetspark.client.jetstream.kv.lock", "Lock"),
            ("jetspark.client.jetstream.kv.lock", "Election"),
            ("jetspark.client.jetstream.kv.members", "Membership"),
            ("jetspark.client.jetstream.kv.members", "Members"),
            ("jetspark.client.jetstream.kv.replica", "KeyValueReplica"),
            ("jetspark.client.jetstream.kv.typed", "TypedKeyValue"),
            ("jetspark.client.jetstream.kv.bucket", "KeyValue"),
        ),
    ),
    Target(
        "jetspark.sync.schemas",
        "Schema registries, blocking.",
        (("jetspark.client.jetstream.schema_registry", "SchemaRegistry"),),
    ),
    Target(
        "jetspark.sync.objects",
        "Object stores, blocking.",
        (
            ("jetspark.client.jetstream.objects.reading", "ObjectReader"),
            ("jetspark.client.jetstream.objects.store", "ObjectStore"),
        ),
    ),
    # Separate: its defaults have the names of those above, but other values.
    Target(
        "jetspark.sync.ordered",
        "Ordered consumers, blocking.",
        (("jetspark.client.jetstream.consumer.ordered_handle", "OrderedConsumer"),),
    ),
)

# Callable from any thread: no switch to the loop needed.
THREAD_SAFE = {
    "Client.publish",
    "Client.new_inbox",
    "AckFuture.done",
    "AckFuture.result",
    "AckFuture.exception",
    "JetStreamMessage.ack",
    "KeyValueReplica.exists",
    "KeyValueReplica.get",
    "KeyValueReplica.items",
    "KeyValueReplica.value",
    "KeyValue.typed",
    "TypedKeyValue.decode",
    "TypedKeyValue.encode",
    "StreamReplica.get_last",
    "StreamReplica.messages",
    "JetStreamMessage.nak",
    "JetStreamMessage.term",
    "JetStreamMessage.in_progress",
}
# Returns what the iterator of the same object has fetched but not handed out.
AFTER_ITEMS = {
    "Subscription.next",
    "PushSubscription.next",
    "MessageIterator.next",
    "Watcher.next",
}

# Methods that read in another way, or discard unread items, after items that the iteration of the
# twin has read ahead were put back.
PUT_BACK = {
    "MessageIterator.close",
    "Watcher.initial",
    "Watcher.marked",
    "Watcher.close",
    "ObjectReader.read",
    "ObjectReader.close",
}

# Does nothing in a forked child and when the process exits.
CLOSING = {"Client.close"}

TWINS = {
    name: target.module for target in TARGETS for _, name in target.parts if name[0].isupper()
}
SOURCES = {name: module for target in TARGETS for module, name in target.parts}
RULES = Rules(THREAD_SAFE, AFTER_ITEMS, PUT_BACK, CLOSING, TWINS, SOURCES)


def formatted(text: str, path: Path) -> str:
    """The text as formatted by ruff: imports sorted and used, lines wrapped."""
    import subprocess

    for command in (["check", "--select", "I,F401", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def main() -> int:
    """Write the generated modules, or compare them."""
    parser = argparse.ArgumentParser(description="write jetspark.sync from jetspark.client")
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if stale")
    check = parser.parse_args().check
    stale = []
    for target in TARGETS:
        path = SOURCE.joinpath(*target.module.split(".")).with_suffix(".py")
        text = formatted(Writer(target, RULES).write(), path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(
            f"src/jetspark/sync/{name}: {'stale, run tools/gen_sync.py' if check else 'written'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
