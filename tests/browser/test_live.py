"""Pages that stay open: what happens on the server appears on them."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser
from tests.browser.conftest import PHONE, Open
from tests.support.dashboards import Site, apart, ask, embedded
from tests.support.reading_pages import violations, wait_for_texts

import jetspark


async def publish(url: str, subject: str, count: int) -> None:
    async with await jetspark.connect(url) as client:
        for number in range(count):
            await client.jetstream().publish(subject, f"message {number}".encode())


async def create(url: str, name: str, subjects: list[str]) -> None:
    async with await jetspark.connect(url) as client:
        await client.jetstream().create_stream(name, subjects=subjects)


def test_the_overview_follows_the_rates(opened: Open, tmp_path: Path) -> None:
    with embedded(tmp_path) as site:
        page = opened(site.url, may_fail=True)
        wait_for_texts(page, ("Messages in", "0 consumers"))
        apart(create(site.server, "LIVE", ["live.>"]))
        apart(publish(site.server, "live.x", 300))
        page.wait_for_function(
            "() => [...document.querySelectorAll('.stat')].some((tile) => "
            "tile.innerText.startsWith('Streams') && tile.innerText.includes('\\n1\\n'))"
        )
        page.wait_for_selector("svg.plot path.line")


def test_a_live_tail_shows_messages_and_takes_none_from_a_work_queue(
    shop: Site, opened: Open
) -> None:
    before = ask(shop.url, "api/streams/PAYMENTS").json["info"]["state"]
    page = opened(shop.url + "#/streams/PAYMENTS")
    page.get_by_role("button", name="Live tail").click()
    wait_for_texts(page, ("Waiting for new messages",))
    apart(publish(shop.server, "payments.live", 3))
    wait_for_texts(page, ("payments.live", "message 2", "Live: the newest 3 messages"))
    after = ask(shop.url, "api/streams/PAYMENTS").json["info"]["state"]
    assert after["messages"] == before["messages"] + 3
    assert after["consumer_count"] == before["consumer_count"]
    page.get_by_role("button", name="Stop tail").click()
    wait_for_texts(page, ("Newest first:",))


def test_everything_is_reached_with_the_keyboard_alone(shop: Site, opened: Open) -> None:
    page = opened(shop.url)
    press = page.keyboard.press
    press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to content"
    press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    press("g")
    press("s")
    wait_for_texts(page, ("of 4 streams",))
    press("/")
    page.keyboard.type("orders")
    wait_for_texts(page, ("of 2 streams",))
    page.locator("a", has_text=re.compile("^ORDERS$")).focus()
    press("Enter")
    wait_for_texts(page, ("Newest first: 240",))
    press("]")
    wait_for_texts(page, ("Newest first: 190",))
    page.get_by_role("button", name="190", exact=True).focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("Enter")
    wait_for_texts(page, ("Trace-Id",))
    press("?")
    assert page.locator("dialog[open]").count() == 1
    press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_the_menu_of_a_phone_and_the_theme_are_buttons(
    shop: Site, opened: Open, pictures: Path
) -> None:
    page = opened(shop.url, phone=True)
    assert not page.locator("#nav").is_visible()
    page.get_by_role("button", name="Menu").click()
    assert page.locator("#nav").is_visible()
    page.screenshot(path=pictures / "menu-phone.png")
    assert violations(page) == []
    page.get_by_role("link", name="Streams").first.click()
    wait_for_texts(page, ("ORDERS",))
    assert not page.locator("#nav").is_visible()
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.reload()
    page.wait_for_selector("main h1")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_a_stream_that_is_deleted_and_made_again_while_its_pages_are_open(
    opened: Open, tmp_path: Path
) -> None:
    async def change(url: str, *, create: bool) -> None:
        async with await jetspark.connect(url) as client:
            if create:
                stream = await client.jetstream().create_stream("S", subjects=["s"])
                await stream.create_consumer(durable="worker")
            else:
                await client.jetstream().delete_stream("S")

    with embedded(tmp_path) as site:
        apart(change(site.server, create=True))
        apart(publish(site.server, "s", 1))
        paths = ("#/streams/S", "#/streams/S/consumers/worker", "#/streams")
        pages = [opened(site.url + path, may_fail=True) for path in paths]
        wait_for_texts(pages[0], ("message 0",))
        apart(change(site.server, create=False))
        for page, text in zip(pages, ("Not found", "Not found", "No streams yet"), strict=True):
            wait_for_texts(page, (text,))
        apart(change(site.server, create=True))
        wait_for_texts(pages[1], ("messages not delivered yet",))
        wait_for_texts(pages[2], ("of 1 streams",))
        wait_for_texts(pages[0], ("deleted and created again since",))
        pages[0].get_by_role("button", name="Show the newest").click()
        wait_for_texts(pages[0], ("Nothing was stored yet",))


def test_people_sign_in_and_out(browser: Browser, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        """
        authorization { users [ {user: ops, password: one}, {user: app, password: two} ] }
        jetspark { dashboard { user: ops } }
        """
    )
    with embedded(tmp_path / "store", "-c", str(config)) as site:
        context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]
        try:
            page = context.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(site.url + "#/kv")
            assert violations(page) == []
            # With the keyboard alone; the first field has the focus.
            page.keyboard.type("ops")
            page.keyboard.press("Tab")
            page.keyboard.type("two")
            page.keyboard.press("Enter")
            wait_for_texts(page, ("The user name or the password is wrong.",))
            page.keyboard.type("one")
            page.keyboard.press("Enter")
            wait_for_texts(page, ("No buckets yet",))
            assert page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
            other = context.new_page()
            other.goto(site.url)
            wait_for_texts(other, ("Overview",))
            page.get_by_role("button", name="Menu").click()
            page.get_by_role("button", name="Sign out").click()
            page.get_by_label("Password").wait_for()
            # The other page notices with its next request.
            other.goto(site.url + "#/streams")
            other.get_by_label("Password").wait_for()
            assert not [url for url in asked if "two" in url or "=one" in url]
        finally:
            context.close()


def test_the_scale_of_a_plot_is_readable_at_every_rate(shop: Site, opened: Open) -> None:
    """A label such as 1000 KiB/s is wider than the margin, and was truncated at the left."""
    page = opened(shop.url)
    page.wait_for_selector("section.plot-card")
    cut = page.evaluate(
        """async () => {
            const { linePlot } = await import("./plot.js");
            const { bytes } = await import("./format.js");
            const show = (value) => `${bytes(value)}/s`;
            const series = [{ name: "a", key: "a", color: "c1" }];
            const plot = linePlot({ title: "T", binary: true, series, show });
            document.querySelector("main").append(plot.card);
            const cut = [];
            for (let value = 1; value < 1e13; value *= 1.15) {
              plot.update([{ time: 0, a: 0 }, { time: 60, a: value }]);
              for (const label of plot.card.querySelectorAll("text.axis"))
                if (label.getBBox().x < 0) cut.push(label.textContent);
            }
            return [...new Set(cut)];
        }"""
    )
    assert cut == []
