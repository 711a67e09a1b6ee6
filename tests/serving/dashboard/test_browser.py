# SPDX-License-Identifier: MIT
"""The pages in a real browser: no error, accessible, within a narrow window, without scripts, and up to date."""

from __future__ import annotations

import shutil
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, StorageState

from emulation.mahimahi.namespace import shells
from serving.access.grants import local_caller
from serving.database import Database
from serving.people.service import add_person
from tests.serving.dashboard.browser import Watched, chromium
from tests.serving.dashboard.filled import SETTINGS, Filled, fill
from tests.serving.running import Running

pytestmark = pytest.mark.browser

HTML = "<img src=x onerror=alert(1)>"
PASSWORD = "correct horse battery staple"
# The registry looks for changes every 20 ms in tests, and every 500 ms by default: the rest of the second is left.
MOST_DELAY_S = 0.5


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all tests of this file."""
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def site(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A registry with people, a fleet, roll-outs and jobs; a name of each kind contains HTML."""
    path = tmp_path_factory.mktemp("site") / "registry.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    filled = fill(database, html=HTML, ahead_s=3600)
    hashed = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    with database.write() as session:
        add_person(session, "alice", "admin", password_hash=hashed, must_change=False, by=local_caller("init"),
                   now=datetime.now(tz=UTC))  # fmt: skip
    with Running(database, **{**SETTINGS, "open": False}) as running:
        # A passkey belongs to a name, not to an address.
        filled.url = running.url.replace("127.0.0.1", "localhost")
        yield filled
    database.close()


@pytest.fixture(scope="module")
def session(site: Filled, browser: Browser) -> StorageState:
    """The cookies of a window in which alice has logged in."""
    with Watched(browser, url=site.url) as window:
        state = window.log_in("alice", PASSWORD)
        assert not window.wrong
        return state


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_every_page_is_accessible_and_without_errors(
    site: Filled, browser: Browser, session: StorageState, width: int, dark: bool
) -> None:
    found = {}
    with Watched(browser, url=site.url, width=width, dark=dark, session=session) as window:
        for path in [*site.paths, "/ui/account", "/ui/people", "/ui/channels/gr/still/rollback"]:
            window.allowed_statuses = {404} if path == "/ui/nowhere" else set()
            page = window.open(path)
            wrong = [*window.axe(only_colours=dark), *window.wrong]
            window.wrong.clear()
            if window.overflow_px() > 0:
                wrong.append(f"{window.overflow_px()} pixels wider than the window")
            if page.locator("img").count():
                wrong.append("stored HTML became an element")
            if wrong:
                found[path] = wrong
    with Watched(browser, url=site.url, width=width, dark=dark) as window:
        window.open("/ui/login")
        found |= {"log-in": wrong} if (wrong := [*window.axe(), *window.wrong]) else {}
    assert not found


def test_pages_work_without_scripts(site: Filled, browser: Browser) -> None:
    with Watched(browser, url=site.url, scripts=False) as window:
        window.log_in("alice", PASSWORD)
        page = window.open("/ui/")
        page.get_by_role("link", name="older table than").click()
        assert "It has serial" in page.locator("table").inner_text()
        page.goto("/ui/channels/gr/still/rollback")
        page.get_by_role("button", name="Roll back to serial").click()
        page.wait_for_url("**/channels/gr/still")
        assert "back to serial" in page.locator("table", has_text="Hold-back").inner_text()
        assert not window.wrong


def test_the_keyboard_alone_reaches_the_content(site: Filled, browser: Browser, session: StorageState) -> None:
    with Watched(browser, url=site.url, session=session) as window:
        page = window.open("/ui/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.fixture
def proxied(site: Filled) -> Iterator[str]:
    """The same pages below a path of a proxy, which strips it."""
    program = shutil.which("haproxy", path=shells.PATH)
    if program is None:
        pytest.skip("not installed: haproxy")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = f"""
            defaults
                mode http
                timeout connect 5s
                timeout client 60s
                timeout server 60s
            listen pages
                bind fd@{listener.fileno()}
                http-request replace-path /tune(/.*) \\1
                server registry {site.url.removeprefix("http://")}
            """
        haproxy = subprocess.Popen(
            [program, "-db", "-f", "/dev/stdin"], stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
        )
        try:
            assert haproxy.stdin is not None
            haproxy.stdin.write(textwrap.dedent(settings).encode())
            haproxy.stdin.close()
            yield f"http://localhost:{listener.getsockname()[1]}/tune/"
        finally:
            haproxy.terminate()
            haproxy.wait()


def test_a_move_shows_in_another_browser_within_a_second_also_behind_a_proxy_with_a_path(
    site: Filled, browser: Browser, session: StorageState, proxied: str
) -> None:
    with (
        Watched(browser, url=site.url, session=session) as mover,
        Watched(browser, url=proxied) as watcher,
    ):
        watcher.log_in("alice", PASSWORD)
        page = watcher.page
        page.get_by_role("link", name="Overview").click()
        page.locator("#following:visible").wait_for()
        row = page.locator("tr", has=page.get_by_role("link", name="gr/still"))
        before = int(row.locator("td").first.inner_text())
        form = mover.open("/ui/channels/gr/still").locator("form[action$=move]")
        if not form.is_visible():
            mover.page.get_by_text("Move all agents at once").click()
        form.locator("select[name=digest]").select_option(site.digests[4])
        form.get_by_role("button").click()
        mover.page.wait_for_url("**/channels/gr/still")
        moved_s = time.monotonic()
        row.locator("td").first.get_by_text(str(before + 1), exact=True).wait_for(timeout=10_000)
        took_s = time.monotonic() - moved_s
        assert took_s < MOST_DELAY_S, took_s
        assert not [*watcher.wrong, *mover.wrong]


def test_a_passkey_is_added_logs_in_is_renamed_and_removed(site: Filled, browser: Browser) -> None:
    with Watched(browser, url=site.url) as window:
        devtools = window.context.new_cdp_session(window.page)
        devtools.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                   "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip
        devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        window.log_in("alice", PASSWORD)
        page = window.open("/ui/account")
        page.get_by_label("Name of the passkey").fill("laptop")
        page.locator("form[action$=passkeys]").get_by_label("Present password").fill(PASSWORD)
        page.get_by_role("button", name="Add a passkey").click()
        page.get_by_role("button", name="Remove").wait_for()
        page.get_by_role("button", name="Log out", exact=True).click()
        page.get_by_role("button", name="Log in with a passkey").click()
        page.get_by_role("button", name="Log out", exact=True).wait_for()
        page = window.open("/ui/account")
        row = page.locator("tr", has=page.get_by_role("button", name="Rename"))
        row.get_by_label("Name of the passkey").fill("phone")
        row.get_by_role("button", name="Rename").click()
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Remove").click()
        page.get_by_text("None. With a passkey").wait_for()
        assert not window.wrong


def test_an_operator_s_questions_take_five_clicks_at_most(
    site: Filled, browser: Browser, session: StorageState
) -> None:
    with Watched(browser, url=site.url, session=session) as window:
        # Who is behind, and why: two clicks.
        page = window.open("/ui/")
        page.get_by_role("link", name="reports a problem").click()
        page.get_by_role("row", name="web-0002").get_by_role("link").click()
        page.get_by_text("ERANGE").first.wait_for()
        # Why was the roll-out aborted: one.
        page = window.open("/ui/")
        page.get_by_role("link", name="was aborted").click()
        assert "aborted in step" in page.locator(".notice.bad").first.inner_text()
        # A job on a recording: three.
        page = window.open("/ui/")
        page.get_by_role("link", name="Links").click()
        page.get_by_role("row", name="city-3g").get_by_role("link", name="Start a job").click()
        page.get_by_role("button", name="Start the job").click()
        page.get_by_role("heading", name="Job 5").wait_for()
        # Roll back: three.
        page = window.open("/ui/")
        page.get_by_role("link", name="gr/still").click()
        page.get_by_role("link", name="Roll back").click()
        page.get_by_role("button", name="Roll back to serial").click()
        page.wait_for_url("**/channels/gr/still")
        assert not window.wrong


def test_people_tokens_and_roll_outs_change_by_their_forms(
    site: Filled, browser: Browser, session: StorageState
) -> None:
    with Watched(browser, url=site.url, session=session) as window:
        window.page.on("dialog", lambda dialog: dialog.accept())
        page = window.open("/ui/people")
        page.get_by_label("Name", exact=True).fill("bob")
        page.get_by_role("button", name="Add").click()
        page.locator("a[href*=set-up]").or_(page.get_by_text("set-up")).first.wait_for()
        page = window.open("/ui/people")
        page.get_by_label("Role of bob").select_option("operator")
        page.get_by_role("row", name="bob").get_by_role("button").first.click()
        page.get_by_role("row", name="bob").get_by_role("button", name="Disable").click()
        page.get_by_text("disabled").first.wait_for()
        page = window.open("/ui/tokens")
        page.get_by_label("Of", exact=True).fill("web-9")
        page.get_by_label("Kind").select_option("agent")
        page.locator("input[name=scopes][value=report]").check()
        page.get_by_role("button", name="Make the token").click()
        page.get_by_text("ccat_").first.wait_for()
        page = window.open("/ui/tokens")
        page.get_by_role("row", name="web-9").get_by_role("button").click()
        page.get_by_text("revoked").first.wait_for()
        page = window.open("/ui/jobs/4")
        page.get_by_role("button", name="Cancel job 4").click()
        page.get_by_text("cancelled").first.wait_for()
        page = window.open("/ui/channels/gr/champion/rollouts/start")
        page.get_by_role("button", name="Start the roll-out").click()
        page.wait_for_url("**/rollouts/4")
        for action, state in (("Pause", "paused"), ("Resume", "running"), ("Promote", "promoted")):
            page.get_by_role("button", name=action).click()
            page.locator(".badge", has_text=state).first.wait_for()
        page = window.open("/ui/channels/gr/champion/rollouts/start")
        page.get_by_role("button", name="Start the roll-out").click()
        page.wait_for_url("**/rollouts/5")
        page.get_by_role("button", name="Abort").click()
        page.locator(".badge", has_text="aborted").first.wait_for()
        page = window.open(f"/ui/ensembles/{site.digests[2]}")
        page.get_by_label("new channel").fill("second")
        page.get_by_role("button", name="Move all agents").click()
        page.wait_for_url("**/channels/gr/second")
        page = window.open("/ui/channels/gr/still")
        page.get_by_text("Train anew").click()
        page.get_by_role("button", name="Start a retraining").click()
        page.get_by_role("button", name="Dismiss it").click()
        page.locator(".badge", has_text="dismissed").first.wait_for()
        page = window.open("/ui/agents/web-0005")
        page.get_by_role("button", name="Remove").click()
        page.wait_for_url("**/fleet")
        assert not window.wrong


def test_a_new_person_sets_a_password_by_the_link_changes_it_and_logs_out_everywhere(
    site: Filled, browser: Browser, session: StorageState
) -> None:
    with (
        Watched(browser, url=site.url, session=session) as admin,
        Watched(browser, url=site.url) as hers,
    ):
        page = admin.open("/ui/people")
        page.get_by_label("Name", exact=True).fill("carol")
        page.get_by_role("button", name="Add").click()
        link = page.locator("a[href*=set-up]").get_attribute("href")
        page = hers.open(str(link))
        for label in ("New password", "New password again"):
            page.get_by_label(label, exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Set the password").click()
        page.get_by_role("button", name="Log out").wait_for()
        page = hers.open("/ui/account")
        change = page.locator("form[action$=password]")
        for name, word in (("current", PASSWORD), ("new", PASSWORD[::-1]), ("again", PASSWORD[::-1])):
            change.locator(f"input[name={name}]").fill(word)
        change.get_by_role("button").click()
        page.get_by_role("button", name="Log out everywhere").click()
        page.get_by_label("Name").wait_for()
        hers.log_in("carol", PASSWORD[::-1])
        hers.allowed_statuses = {401}  # the open page learns that its session has ended
        admin.page.once("dialog", lambda dialog: dialog.accept())
        page = admin.open("/ui/people")
        page.get_by_role("row", name="carol").get_by_role("button", name="Reset").click()
        page.locator("a[href*=set-up]").wait_for()
        hers.page.get_by_label("Name").wait_for()
        assert not [*admin.wrong, *hers.wrong]
