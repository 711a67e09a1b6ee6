# SPDX-License-Identifier: MIT
"""A real browser (Debian's Chromium) for tests of pages: each message of its console and failed request counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Response, StorageState, sync_playwright

from tests.conftest import AXE

CHROMIUM = "/usr/bin/chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        # Without a sandbox of its own, because tests run as root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A window of a browser, with what went wrong in it.

    width: in pixels. dark: the colour scheme. scripts: whether they run. session: the cookies of another window.
    """

    def __init__(
        self,
        browser: Browser,
        *,
        url: str,
        width: int = 1200,
        dark: bool = False,
        scripts: bool = True,
        session: StorageState | None = None,
    ) -> None:
        self.context: BrowserContext = browser.new_context(
            base_url=url,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
            storage_state=session,
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.wrong: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("response", self._response)
        self.allowed_statuses: set[int] = set()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def _console(self, message: ConsoleMessage) -> None:
        is_allowed = any(f"status of {status}" in message.text for status in self.allowed_statuses)
        if message.type in {"error", "warning"} and not is_allowed:
            self.wrong.append(f"{message.type}: {message.text} at {message.location}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.allowed_statuses:
            self.wrong.append(f"{response.status}: {response.url}")

    def open(self, path: str) -> Page:
        """Open a page and wait until its scripts have run."""
        self.page.goto(path)
        return self.page

    def axe(self, *, only_colours: bool = False) -> list[str]:
        """What axe finds wrong: rule and first element."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
        rules = {"type": "rule", "values": ["color-contrast"]} if only_colours else {"type": "tag", "values": tags}
        found: dict[str, Any] = self.page.evaluate(
            "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", rules
        )
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        return int(self.page.evaluate("document.scrollingElement.scrollWidth - innerWidth"))

    def log_in(self, name: str, password: str) -> StorageState:
        """Log in by password, and return the session's cookies."""
        page = self.open("ui/login")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in", exact=True).click()
        page.get_by_role("button", name="Log out").wait_for()
        return self.context.storage_state()
