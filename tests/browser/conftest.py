"""A headless Chromium, and the dashboards that it opens."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.support.dashboards import Site, apart, ask_in_loop, embedded, over_nats_server
from tests.support.shop import fill_shop

import jetspark

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
# `make screenshots` keeps them.
SCREENSHOTS = os.environ.get("JETSPARK_SCREENSHOTS", "")

BUSY_S = 75

Open = Callable[..., Page]
Walk = Callable[[str], Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; without one the tests are skipped."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("chromium is not installed (apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


async def be_busy(site: Site) -> None:
    """Publish for a while, and look: the plots of pictures show something then."""
    async with await jetspark.connect(site.server) as client:
        stream = client.jetstream()
        for second in range(BUSY_S):
            rate = 40 + int(30 * math.sin(second / 5)) + second % 7 * 3
            for _ in range(rate):
                await stream.publish_async("clicks.web", b"x" * 200)
            await stream.publish_async_complete()
            await ask_in_loop(site.url, "api/overview")
            await asyncio.sleep(1)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The dashboard in a server of ours that has what a shop has."""
    with embedded(tmp_path_factory.mktemp("ours"), "-n", "shop-1") as site:
        apart(fill_shop(site.server))
        if SCREENSHOTS:
            apart(be_busy(site))
        yield site


@pytest.fixture(scope="session")
def nats_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The same over nats-server."""
    with over_nats_server(tmp_path_factory.mktemp("theirs")) as site:
        apart(fill_shop(site.server))
        yield site


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end, none has logged an error or broken the policy of its contents."""
    contexts = []
    problems: list[str] = []

    def open_page(
        url: str,
        *,
        phone: bool = False,
        dark: bool = False,
        password: str = "",
        may_fail: bool = False,
    ) -> Page:
        context = browser.new_context(
            viewport=PHONE if phone else LAPTOP,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        if password:
            answer = context.request.post(
                url.partition("#")[0] + "login", data={"password": password}
            )
            assert answer.ok, answer.text()
        page = context.new_page()
        page.set_default_timeout(10_000)
        ignored: list[str] = []
        watch(page, ignored if may_fail else problems)
        if may_fail:
            # Requests may fail; scripts may not.
            page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(url)
        page.wait_for_selector("main h1, main .state-title")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


class Tour:
    """One page of a browser that walks from page to page, as people do."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport=LAPTOP, reduced_motion="reduce")  # type: ignore[arg-type]
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.problems: list[str] = []
        watch(self.page, self.problems)

    def to(self, url: str) -> Page:
        page = self.page
        page.set_viewport_size(LAPTOP)  # type: ignore[arg-type]
        page.emulate_media(color_scheme="light")
        page.evaluate("document.querySelector('main .page')?.setAttribute('data-left', '')")
        page.goto(url)
        page.wait_for_selector("main .page:not([data-left]) h1")
        return page


def watch(page: Page, problems: list[str]) -> None:
    """Note what a page logs, and what breaks the policy of its contents."""
    page.on(
        "console",
        lambda said: problems.append(said.text) if said.type in {"error", "warning"} else None,
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error("
        "`policy: ${event.violatedDirective} ${event.blockedURI}`))"
    )


@pytest.fixture(scope="module")
def tour_page(browser: Browser) -> Iterator[Tour]:
    """The page of the tests of a file: opening one for each costs more than what they look at."""
    tour = Tour(browser)
    yield tour
    tour.context.close()


@pytest.fixture
def walked(tour_page: Tour) -> Iterator[Walk]:
    """Walks to an address; at the end, nothing was logged on the way."""
    tour_page.problems.clear()
    yield tour_page.to
    assert tour_page.problems == []


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go."""
    return Path(SCREENSHOTS) if SCREENSHOTS else tmp_path_factory.mktemp("pictures")
