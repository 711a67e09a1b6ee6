# SPDX-License-Identifier: MIT
"""The pages in a real browser: no error, accessible, within a narrow window, without scripts, and up to date."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from serving.database import Database
from tests.serving.dashboard.browser import Watched, chromium
from tests.serving.dashboard.filled import SETTINGS, Filled, fill
from tests.serving.running import Running

pytestmark = pytest.mark.browser

HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all tests of this file."""
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def site(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A registry with a fleet, roll-outs and jobs; a name of each kind contains HTML."""
    path = tmp_path_factory.mktemp("site") / "registry.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    filled = fill(database, html=HTML)
    with Running(database, **SETTINGS) as running:
        filled.url = running.url
        yield filled
    database.close()


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_every_page_is_accessible_and_without_errors(site: Filled, browser: Browser, width: int, dark: bool) -> None:
    with Watched(browser, url=site.url, width=width, dark=dark) as window:
        found = {}
        for path in site.paths:
            window.allowed_statuses = {404} if path == "/ui/nowhere" else set()
            page = window.open(path)
            wrong = [*window.axe(), *window.wrong]
            window.wrong.clear()
            if window.overflow_px() > 0:
                wrong.append(f"{window.overflow_px()} pixels wider than the window")
            if page.locator("img").count():
                wrong.append("stored HTML became an element")
            if wrong:
                found[path] = wrong
        assert not found


def test_pages_work_without_scripts(site: Filled, browser: Browser) -> None:
    with Watched(browser, url=site.url, scripts=False) as window:
        page = window.open("/ui/")
        page.get_by_role("link", name="Fleet").click()
        page.get_by_label("Standing").select_option("behind")
        page.get_by_role("button", name="Show").click()
        assert "It has serial" in page.locator("table").inner_text()
        assert not window.wrong


def test_the_keyboard_alone_reaches_the_content(site: Filled, browser: Browser) -> None:
    with Watched(browser, url=site.url) as window:
        page = window.open("/ui/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_a_move_in_one_browser_shows_in_another_within_a_second(site: Filled, browser: Browser) -> None:
    with Watched(browser, url=site.url) as mover, Watched(browser, url=site.url) as watcher:
        page = watcher.open("/ui/")
        page.locator("#following:visible").wait_for()
        row = page.locator("tr", has=page.get_by_role("link", name="gr/still"))
        before = int(row.locator("td").first.inner_text())
        form = mover.open("/ui/channels/gr/still").locator("form[action$=move]")
        form.locator("select[name=digest]").select_option(site.digests[1])
        form.get_by_role("button").click()
        mover.page.wait_for_url("**/channels/gr/still")
        moved_s = time.monotonic()
        row.locator("td").first.get_by_text(str(before + 1), exact=True).wait_for(timeout=10_000)
        took_s = time.monotonic() - moved_s
        assert took_s < 1, took_s
        assert not watcher.wrong
