"""Changes by a dashboard that may write, and texts that would like to be scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import Open, Walk
from tests.support.dashboards import Site, apart, ask, embedded
from tests.support.reading_pages import violations, wait_for_texts
from tests.support.shop import fill_shop

import jetspark

# No floating-point number has it.
FAR = 2**60 + 1

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose dashboard may write, with a password."""
    flags = ("--dashboard-write", "--jetspark", "monitor_token=s3cret")
    with embedded(tmp_path_factory.mktemp("writable"), *flags) as site:
        apart(fill_shop(site.server))
        yield site


def test_a_test_message_is_published_and_shown(
    writable: Site, opened: Open, pictures: Path
) -> None:
    page = opened(writable.url + "#/publish", password="s3cret")
    page.get_by_label("Subject").fill("orders.de.test")
    page.get_by_label("Headers").fill("Trace-Id: 77")
    page.get_by_label("Payload").fill('{"order": 77}')
    page.screenshot(path=pictures / "publish-form.png")
    assert violations(page) == []
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("link", name="ORDERS, sequence").click()
    wait_for_texts(page, ("orders.de.test",))


def test_a_key_is_changed_only_if_it_is_still_what_the_page_showed(
    writable: Site, opened: Open
) -> None:
    page = opened(
        writable.url + "#/kv/settings/key/checkout.theme", password="s3cret", may_fail=True
    )
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Value").fill("green")

    async def change() -> None:
        async with await jetspark.connect(writable.server) as client:
            bucket = await client.jetstream().key_value("settings")
            await bucket.put("checkout.theme", b"red")

    apart(change())
    page.get_by_role("button", name="Store", exact=True).click()
    wait = "() => document.querySelector('dialog').innerText.includes('wrong last sequence')"
    page.wait_for_function(wait)
    page.keyboard.press("Escape")
    page.reload()
    wait_for_texts(page, ("red",))
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Value").fill("green")
    page.get_by_role("button", name="Store", exact=True).click()
    wait_for_texts(page, ("green",))
    page.get_by_role("button", name="Delete").click()
    wait_for_texts(page, ("The key was deleted.",))


def test_a_consumer_is_paused_and_resumed(writable: Site, opened: Open) -> None:
    page = opened(writable.url + "#/streams/ORDERS/consumers/warehouse", password="s3cret")
    page.get_by_role("button", name="Pause for an hour").click()
    wait_for_texts(page, ("paused",))
    page.get_by_role("button", name="Resume").click()
    page.wait_for_function("() => !document.querySelector('.stats').innerText.includes('paused')")


def test_a_purge_needs_the_name_of_the_stream(writable: Site, opened: Open) -> None:
    page = opened(writable.url + "#/streams/CLICKS", password="s3cret", may_fail=True)
    page.get_by_role("button", name="Purge…").click()
    page.get_by_label("Type CLICKS to confirm").fill("CLICK")
    page.get_by_role("button", name="Purge", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('dialog').innerText.includes('to confirm')"
    )
    page.get_by_label("Type CLICKS to confirm").fill("CLICKS")
    page.get_by_role("button", name="Purge", exact=True).click()
    wait_for_texts(page, ("No messages",))


def test_a_message_is_deleted_after_a_question(writable: Site, opened: Open) -> None:
    page = opened(writable.url + "#/streams/ORDERS?from=5", password="s3cret")
    page.get_by_role("button", name="5", exact=True).click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('#toast').innerText.includes('was deleted')"
    )
    password = {"authorization": "Bearer s3cret"}
    assert ask(writable.url, "api/streams/ORDERS/messages/5", headers=password).status == 404


def test_sequences_above_the_numbers_of_browsers_keep_their_digits(
    writable: Site, opened: Open
) -> None:
    async def fill() -> None:
        async with await jetspark.connect(writable.server) as client:
            context = client.jetstream()
            stream = await context.create_stream(
                "FAR", subjects=["far"], first_seq=FAR, allow_direct=True
            )
            for number in range(60):
                await context.publish("far", b"message %d" % number)
            consumer = await stream.create_consumer(durable="worker")
            for message in (await consumer.fetch(7, timeout=5))[:4]:
                await message.ack_sync()
            await context.create_stream(
                "KV_far",
                subjects=["$KV.far.>"],
                first_seq=FAR,
                max_msgs_per_subject=5,
                allow_direct=True,
            )
            await (await context.key_value("far")).put("key", b"old")

    async def state() -> tuple[int, int, bytes]:
        async with await jetspark.connect(writable.server) as client:
            found = (await client.jetstream().stream("FAR")).cached_info.state
            entry = await (await client.jetstream().key_value("far")).get("key")
            return found.first_seq, found.messages, bytes(entry.value)

    def to(path: str, *texts: str) -> None:
        page.goto(writable.url + path)
        wait_for_texts(page, texts)

    apart(fill())
    page = opened(writable.url, password="s3cret")
    to(
        "#/streams/FAR",
        f"{FAR:,}\N{EN DASH}{FAR + 59:,}",
        f"Newest first: {FAR + 59:,} to {FAR + 10:,}",
    )
    page.keyboard.press("]")
    wait_for_texts(page, (f"Newest first: {FAR + 9:,} to {FAR:,}",))
    to("#/streams/FAR/consumers/worker", f"{FAR + 6:,} of {FAR + 59:,}", f"{FAR + 3:,}, 6 %")
    page.get_by_label("Sequence").fill(f"{FAR + 2:,}")
    page.get_by_role("button", name="Explain").click()
    wait_for_texts(page, ("acknowledged", f"message {FAR + 2:,}"))
    to("#/streams/FAR/config", "As JSON")
    page.get_by_text("As JSON").click()
    wait_for_texts(page, (f'"first_seq": {FAR},',))
    to(f"#/streams/FAR?from={FAR + 5}", f"From {FAR + 5:,} to {FAR + 54:,}")
    page.get_by_role("button", name=f"{FAR + 5:,}", exact=True).click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text(f"Message {FAR + 5:,} was deleted.").wait_for()
    page.get_by_role("button", name="Purge…").click()
    page.get_by_label("Only before this sequence").fill(f"{FAR + 20:,}")
    page.get_by_label("Type FAR to confirm").fill("FAR")
    page.get_by_role("button", name="Purge", exact=True).click()
    page.get_by_text("19 messages removed.").wait_for()
    to("#/kv/far/key/key", f"{FAR:,}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Value").fill("new")
    page.get_by_role("button", name="Store", exact=True).click()
    page.get_by_text(f"Stored as revision {FAR + 1:,}").wait_for()
    assert apart(state()) == (FAR + 20, 40, b"new")


def test_no_stored_text_becomes_a_script(shop: Site, walked: Walk) -> None:
    async def store() -> None:
        async with await jetspark.connect(shop.server) as client:
            stream = client.jetstream()
            await stream.create_stream(
                'EVIL_<b"x=', subjects=["evil.>"], description=EVIL, metadata={"a": EVIL}
            )
            await stream.publish(
                "evil.<script>alert(3)</script>", EVIL.encode(), headers={"X": EVIL}
            )
            await stream.publish("evil.json", json.dumps({EVIL: [EVIL]}).encode())
            await stream.create_consumer('EVIL_<b"x=', durable='c<i"d=', description=EVIL)
            bucket = await stream.create_key_value("evil", description=EVIL, history=5)
            for value in (EVIL, EVIL + EVIL):
                await bucket.put("javascript=alert/1", value.encode())
            objects = await stream.create_object_store("evil", description=EVIL)
            await objects.put(EVIL, EVIL.encode())

    apart(store())
    try:
        for path, text in (
            ("#/streams", 'EVIL_<b"x='),
            ("#/streams/EVIL_%3Cb%22x%3D", "evil.<script>alert(3)</script>"),
            ("#/streams/EVIL_%3Cb%22x%3D/subjects", "evil.<script>alert(3)</script>"),
            ("#/streams/EVIL_%3Cb%22x%3D/config", "evil.>"),
            ("#/streams/EVIL_%3Cb%22x%3D/consumers", 'c<i"d='),
            ("#/lag", 'c<i"d='),
            ("#/kv/evil", "javascript=alert/1"),
            ("#/kv/evil/key/javascript%3Dalert%2F1", "<script>alert(2)</script>"),
            ("#/objects/evil", "<script>alert(2)</script>"),
            ("#/%3Cimg%20src%3Dx%3E", "<img src=x>"),
        ):
            page = walked(shop.url + path)
            wait_for_texts(page, (text,))
            if path.endswith("x%3D"):
                for button in page.locator("tr.message .link-button").all():
                    button.click()
                wait_for_texts(page, (EVIL,))
            # A script would have asked, and left an element that is none of ours.
            assert page.locator("main img, main script, main b, main i").count() == 0
    finally:
        # It would ask for what is removed below.
        walked(shop.url + "#/publish")

        async def remove() -> None:
            async with await jetspark.connect(shop.server) as client:
                stream = client.jetstream()
                await stream.delete_stream('EVIL_<b"x=')
                await stream.delete_key_value("evil")
                await stream.delete_object_store("evil")

        apart(remove())


ODD = {
    "number": (b'{"id":1234567890123456781}', b'{"id":1234567890123456782}'),
    "binary": (b"\0" * 5000 + b"a", b"\0" * 5000 + b"b"),
    "large": (b"x" * 100_000 + b"a", b"x" * 100_000 + b"b"),
    "lines": (b"line\n" * 4000 + b"a", b"line\n" * 4000 + b"b"),
    "mark": (b"\xef\xbb\xbfyes", b"yes"),
    "ends": (b"a\r\nb", b"a\nb\r"),
    "nested": (b"[" * 30_000 + b"]" * 30_000, b"[" * 30_001 + b"]" * 30_001),
}


@pytest.fixture(scope="module")
def odd(writable: Site) -> Site:
    """Two buckets with values that a page cannot show as a whole, or might change."""

    async def fill() -> None:
        async with await jetspark.connect(writable.server) as client:
            for name in ("odd", "edited"):
                bucket = await client.jetstream().create_key_value(name, history=5)
                for key, values in ODD.items():
                    for value in values:
                        await bucket.put(key, value)

    apart(fill())
    return writable


def test_values_that_differ_are_never_called_the_same(odd: Site, opened: Open) -> None:
    page = opened(odd.url, password="s3cret")
    for key in ODD:
        page.goto(odd.url + f"#/kv/odd/key/{key}")
        page.get_by_role("heading", name=key, exact=True).wait_for()
        text = page.locator("section.card", has_text="History").inner_text()
        assert "have the same value" not in text, key
        if key == "number":
            assert "1234567890123456782" in page.locator(".plus").inner_text()
            assert "1234567890123456782" in page.locator("pre.payload").first.inner_text()


def test_storing_a_value_as_it_was_opened_keeps_it_or_warns(odd: Site, opened: Open) -> None:
    page = opened(odd.url, password="s3cret")
    warned = set()
    for key in ODD:
        page.goto(odd.url + f"#/kv/edited/key/{key}")
        page.get_by_role("heading", name=key, exact=True).wait_for()
        page.get_by_role("button", name="Edit").click()
        if page.locator("dialog").get_by_text("cannot be edited here").count():
            assert page.get_by_role("textbox", name="Value").input_value() == ""
            page.keyboard.press("Escape")
            warned.add(key)
        else:
            page.get_by_role("button", name="Store", exact=True).click()
            page.locator("dialog:not([open])").wait_for(state="attached")
            page.get_by_text("Stored as revision").wait_for()
    assert warned == {"binary", "large", "ends"}

    async def read() -> dict[str, bytes]:
        async with await jetspark.connect(odd.server) as client:
            bucket = await client.jetstream().key_value("edited")
            return {key: bytes((await bucket.get(key)).value) for key in ODD}

    assert apart(read()) == {key: values[1] for key, values in ODD.items()}
