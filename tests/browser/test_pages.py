"""Every page, on our server and on nats-server: what it shows, to everyone who reads it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.browser.conftest import PHONE, Open, Walk
from tests.support.dashboards import Site
from tests.support.reading_pages import COLOURS, LAYOUT, violations, wait_for_texts


class Case(NamedTuple):
    """A page, and texts that it must show; ``ours`` only on our server."""

    name: str
    path: str
    texts: tuple[str, ...]
    ours: tuple[str, ...] = ()


CASES = (
    Case(
        "overview", "#/", ("Messages in", "Use of limits", "JetStream requests"), ("Sync to disk",)
    ),
    Case(
        "streams",
        "#/streams",
        ("ORDERS", "work queue", "mirror of ORDERS", "memory", "of 4 streams"),
    ),
    Case("messages", "#/streams/ORDERS", ("240", "orders.", "Newest first: 240 to 191")),
    Case("work-queue", "#/streams/PAYMENTS", ("does not take them", "payments.capture")),
    Case("subjects", "#/streams/ORDERS/subjects", ("orders.de.paid",)),
    Case("consumers", "#/streams/ORDERS/consumers", ("billing", "warehouse", "analytics")),
    Case(
        "configuration",
        "#/streams/ORDERS/config",
        ("remove old messages", "64.0 MiB", "direct get"),
    ),
    Case(
        "consumer",
        "#/streams/ORDERS/consumers/billing?seq=1",
        ("Why is a message not delivered?", "filtered", "orders.*.paid", "Ack pending"),
    ),
    Case("lag", "#/lag", ("warehouse", "capture", "no pull waiting", "4 consumers of")),
    Case("buckets", "#/kv", ("settings", "sessions", "spark_ledger")),
    Case("bucket", "#/kv/settings", ("prices.eu", "checkout.theme", "dark-blue")),
    Case(
        "entry", "#/kv/settings/key/prices.eu", ("since May", "until May", "the bucket keeps 10")
    ),
    Case("object-stores", "#/objects", ("reports",)),
    Case("objects", "#/objects/reports", ("2026/november.pdf", "293 KiB", "Download")),
    Case("connections", "#/connections", ("jetspark", "Slow consumers", "python-jetspark")),
    Case(
        "store",
        "#/store",
        (),
        ("How long syncs took", "Quarantine", "None: every batch was committed"),
    ),
    Case("copies", "#/copies", ("ORDERS_COPY", "current"), ("no read replica",)),
    Case("pipelines", "#/pipelines", ("7c0c9e0e-orders", "41", "committed", "clean_orders")),
    Case("publish", "#/publish", ("The dashboard is read-only",)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_page_shows_everyone_what_it_is_for(
    shop: Site, walked: Walk, pictures: Path, case: Case
) -> None:
    page = walked(shop.url + case.path)
    wait_for_texts(page, case.texts + case.ours)
    page.screenshot(path=pictures / f"{case.name}.png")
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=pictures / f"{case.name}-dark.png")
    assert violations(page, COLOURS) == []
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.screenshot(path=pictures / f"{case.name}-phone.png")
    assert violations(page, LAYOUT) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_page_works_over_nats_server(
    nats_shop: Site, walked: Walk, opened: Open, pictures: Path, case: Case
) -> None:
    url = nats_shop.url + case.path
    # What a server does not have is an error of a request, which a browser logs.
    page = walked(url) if case.texts else opened(url, may_fail=True)
    wait_for_texts(page, case.texts or ("Not available here",))
    page.screenshot(path=pictures / f"{case.name}-nats-server.png")


def test_a_message_shows_its_headers_payload_and_who_got_it(
    shop: Site, opened: Open, pictures: Path
) -> None:
    page = opened(shop.url + "#/streams/ORDERS?from=1")
    page.get_by_role("button", name="1", exact=True).click()
    wait_for_texts(page, ("Trace-Id", '"order": 10000'))
    page.get_by_role("radio", name="Hex").check()
    wait_for_texts(page, ("000000  7b 22 6f",))
    page.get_by_role("radio", name="Text").check()
    page.get_by_role("button", name="Who got it?").click()
    wait_for_texts(page, ("analytics", "acknowledged", "warehouse"))
    page.get_by_role("radio", name="JSON").check()
    page.screenshot(path=pictures / "message.png")
    assert violations(page) == []


def test_messages_are_found_by_subject_sequence_and_time(shop: Site, opened: Open) -> None:
    page = opened(shop.url + "#/streams/ORDERS")
    page.get_by_label("Subject").fill("orders.de.*")
    page.get_by_role("button", name="Show").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('td[data-label=Subject]')].length > 0 && "
        "[...document.querySelectorAll('td[data-label=Subject]')].every("
        "(cell) => cell.innerText.startsWith('orders.de.'))"
    )
    page.get_by_label("Subject").fill("")
    page.get_by_label("From sequence").fill("101")
    page.get_by_role("button", name="Show").click()
    wait_for_texts(page, ("From 101 to 150",))
    page.get_by_role("button", name="Later").click()
    wait_for_texts(page, ("From 151 to 200",))
    page.get_by_role("button", name="Earlier").click()
    wait_for_texts(page, ("From 101 to 150",))
    page.get_by_label("From time").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Show").click()
    wait_for_texts(page, ("From 1 to 50",))
    page.get_by_role("button", name="Newest", exact=True).click()
    wait_for_texts(page, ("Newest first: 240 to 191",))
    page.get_by_role("button", name="Older").click()
    wait_for_texts(page, ("Newest first: 190 to 141",))


def test_keys_are_searched_by_a_part_and_by_a_pattern(shop: Site, opened: Open) -> None:
    page = opened(shop.url + "#/kv/sessions")
    wait_for_texts(page, ("user.0129.cart", "130 keys"))
    page.get_by_role("button", name="Older").click()
    wait_for_texts(page, ("user.0079.cart",))
    page.get_by_label("Search keys").fill("0042")
    wait_for_texts(page, ("user.0042.cart",))
    page.get_by_label("Search keys").fill("user.0007.*")
    wait_for_texts(page, ("user.0007.cart",))
    page.get_by_label("Search keys").fill("nothing")
    wait_for_texts(page, ("No key matches",))


def test_two_revisions_are_compared_line_by_line(shop: Site, opened: Open) -> None:
    page = opened(shop.url + "#/kv/settings/key/prices.eu")
    page.wait_for_selector(".diff")
    assert '"vat": 0.19' in page.locator(".minus").all_inner_texts()[0]
    assert '"vat": 0.21' in page.locator(".plus").all_inner_texts()[0]


def test_an_object_is_downloaded_whole(shop: Site, opened: Open, tmp_path: Path) -> None:
    page = opened(shop.url + "#/objects/reports")
    with page.expect_download() as download:
        page.get_by_label("Download 2026/november.pdf").click()
    download.value.save_as(tmp_path / "november.pdf")
    assert (tmp_path / "november.pdf").stat().st_size == 300_000
