# SPDX-License-Identifier: MIT
"""The state that a report has, by the registry's last answer, the last decision and the signatures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import pytest

from serving.agent import Decision, State, Store
from serving.agent.files import CcaFiles
from serving.agent.kernel import KernelView
from serving.agent.publishing import Link, Publisher, Standing
from serving.agent.store import SERIALS, STATE
from serving.agent.trust import Trust
from tests.serving.agent.fakes import log_to, table

NO_TABLE = KernelView(status=None, text="", parameters={})
EXPIRED = "the signature expired"


class FakeTrust:
    """A FAKE of a pinned root document. The real one needs signatures of a chosen age."""

    def __init__(self, stale: str | None) -> None:
        self._stale = stale

    def why_stale(self, _table: object) -> str | None:
        return self._stale


VALID, PAST = cast("Trust", FakeTrust(None)), cast("Trust", FakeTrust(EXPIRED))


def publisher_of(store: Store, trust: Trust | None, log: io.StringIO | None = None) -> tuple[Publisher, CcaFiles]:
    files = CcaFiles("gr", store=store, log=log_to(log or io.StringIO()))
    publisher = Publisher(
        "gr", channel="champion", run_id="run", trust=trust, files=files, log=log_to(log or io.StringIO()),
        confirm_every_s=10.0, clock=lambda: 0.0,
    )  # fmt: skip
    return publisher, files


def standing(link: Link, *, blocked: State | None = None, damaged: str | None = None) -> Standing:
    decision = Decision("nothing", "why", blocked=blocked) if blocked is not None else None
    return Standing(kernel=NO_TABLE, offer=table(1), good=None, link=link, blocked=decision, damaged=damaged)


@pytest.mark.parametrize(
    ("trust", "link", "expected"),
    [
        (None, Link(State.STARTING), (State.STARTING, None)),
        (None, Link(State.IN_SYNC), (State.UNSIGNED, None)),
        (None, Link(State.OFFLINE, "gone"), (State.OFFLINE, "gone")),
        (VALID, Link(State.STARTING), (State.STARTING, None)),
        (VALID, Link(State.IN_SYNC), (State.IN_SYNC, None)),
        (VALID, Link(State.OFFLINE, "gone"), (State.OFFLINE, "gone")),
        (VALID, Link(State.STALE, "expired offer"), (State.STALE, "expired offer")),
        (PAST, Link(State.STARTING), (State.STARTING, None)),
        (PAST, Link(State.IN_SYNC), (State.STALE, EXPIRED)),
        (PAST, Link(State.OFFLINE, "gone"), (State.STALE, f"{EXPIRED}; gone")),
        (PAST, Link(State.REJECTED, "bad digest"), (State.REJECTED, "bad digest")),
        (PAST, Link(State.STALE, "expired offer"), (State.STALE, "expired offer")),
    ],
)
def test_signatures_turn_in_sync_into_unsigned_or_stale(
    tmp_path: Path, trust: Trust | None, link: Link, expected: tuple[State, str | None]
) -> None:
    report = publisher_of(Store(tmp_path), trust)[0].report(standing(link))
    assert (report.state, report.error) == expected


@pytest.mark.parametrize("trust", [None, VALID, PAST], ids=["no root", "valid", "expired"])
@pytest.mark.parametrize("blocked", [State.REJECTED, State.DEGRADED, State.INCOMPATIBLE])
def test_a_blocked_decision_takes_precedence(tmp_path: Path, trust: Trust | None, blocked: State) -> None:
    publisher, _ = publisher_of(Store(tmp_path), trust)
    report = publisher.report(standing(Link(State.IN_SYNC), blocked=blocked, damaged="half a file"))
    assert (report.state, report.error) == (blocked, "why")


def test_a_damaged_last_known_good_is_named_unless_the_link_has_an_error(tmp_path: Path) -> None:
    publisher, _ = publisher_of(Store(tmp_path), None)
    assert publisher.report(standing(Link(State.STARTING), damaged="half a file")).error == "half a file"
    assert publisher.report(standing(Link(State.OFFLINE, "gone"), damaged="half a file")).error == "gone"


def test_a_file_that_is_not_saved_is_named_beside_the_state(tmp_path: Path) -> None:
    publisher, files = publisher_of(Store(tmp_path), None)
    (tmp_path / "gr" / SERIALS).mkdir(parents=True)  # a folder in the place of a file
    assert not files.save(SERIALS, {})
    report = publisher.report(standing(Link(State.IN_SYNC)))
    assert report.state == State.UNSIGNED
    assert "gr/serials: Is a directory" in str(report.error)
    assert "until then a reboot brings an older table back" in str(report.error)


def test_a_report_is_published_once_and_outdated_by_another_state(tmp_path: Path) -> None:
    log = io.StringIO()
    publisher, files = publisher_of(Store(tmp_path), None, log)
    assert not publisher.is_outdated(standing(Link(State.IN_SYNC)))
    for _ in range(2):
        publisher.publish(standing(Link(State.IN_SYNC)))
    assert log.getvalue().count("event=state") == 1
    assert not files.is_unsaved(STATE)
    assert Store(tmp_path).load("gr", STATE)["state"] == "Unsigned"
    assert not publisher.is_outdated(standing(Link(State.IN_SYNC)))
    assert publisher.is_outdated(standing(Link(State.OFFLINE, "gone")))
