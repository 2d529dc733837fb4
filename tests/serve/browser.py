"""A real browser for the tests of the page: Debian's chromium, driven by playwright.

Whatever a test does, at its end: no error in the console, no request to another host, no script
that was planted as text has run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 90_000  # milliseconds; for busy machines
ARGUMENTS = ["--no-sandbox", "--disable-background-networking"]
# each of these would call window.hacked(), were it ever read as HTML or as script
HOSTILE = '<img src=x onerror="window.hacked()">'
HOSTILE_SCRIPT = "</script><script>window.hacked()</script>"


@pytest.fixture(scope="module")  # a running playwright is a running event loop: not for all tests
def chromium() -> Iterator[Browser]:
    """The browser; skips where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("TIANCI_CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.skip("no chromium on PATH (apt-get install chromium, or set TIANCI_CHROMIUM)")
    api.expect.set_options(timeout=PATIENCE)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """A page with what happened on it."""

    def __init__(self, browser: Browser, url: str, **options: Any):
        self.url = url
        self.context = browser.new_context(**{"locale": "en-US", **options})
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.hacked: list[bool] = []
        self.allowed: tuple[str, ...] = ()  # parts of console errors that a test expects
        self.page.set_default_timeout(PATIENCE)
        self.page.expose_function("hacked", lambda: self.hacked.append(True))
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda one: self.hosts.add(urlsplit(one.url).netloc))
        self.page.on("dialog", self._asked)

    def _asked(self, dialog: Any) -> None:
        self.errors.append("a dialog")
        dialog.dismiss()

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def go(self, address: str = "") -> Page:
        """Opens an address of the page, such as "#/playground/fill"."""
        self.page.goto(f"{self.url}/{address}")
        return self.page

    def check(self) -> None:
        """What must hold at the end of every test."""
        wrong = [one for one in self.errors if not any(part in one for part in self.allowed)]
        assert not wrong, wrong
        assert self.hosts - {""} <= {urlsplit(self.url).netloc}, self.hosts
        assert not self.hacked, "a script that came as text has run"


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens pages at a server's address; looks at all of them after the test."""
    pages: list[Opened] = []

    def open_page(url: str, **options: Any) -> Opened:
        pages.append(Opened(chromium, url, **options))
        return pages[-1]

    yield open_page
    try:
        for one in pages:
            one.check()
    finally:
        for one in pages:
            one.context.close()


def findings(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.evaluate(
        "for (const one of document.getAnimations())"
        " try { one.finish() } catch { one.cancel() }  // some have no end"
    )
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in axe.run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def shown(value: float) -> str:
    """A probability as the page shows it."""
    return "<0.1%" if 0 < value < 0.0005 else f"{100 * value:.1f}%"


def bars(page: Page) -> list[tuple[str, str]]:
    """Names and numbers of the bars that are shown."""
    return [
        (row.locator(".name").inner_text(), row.locator(".number").inner_text())
        for row in page.locator(".bar").all()
    ]


def run(page: Page, **values: str) -> None:
    """Types into fields of the playground, by name, and runs; returns when the result is there."""
    from playwright.sync_api import expect

    for name, value in values.items():
        page.locator(f"[name={name}]").fill(value)
    page.locator("form button.main").click()
    expect(page.locator(".result")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator(".result .waiting")).to_have_count(0)


def ask(server: Any, path: str, body: Any) -> Any:
    """The same question without the page."""
    import httpx

    found = httpx.post(server.url + path, json=body)
    assert found.status_code == 200, found.text
    return found.json()
