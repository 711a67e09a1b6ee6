# SPDX-License-Identifier: MIT
"""Reports in batches"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import event

from serving.agents.intake import ReportIntake
from serving.agents.service import ReceivedReport
from serving.errors import BusyError
from tests.serving.api import START

pytestmark = pytest.mark.service

SAID = {
    "channel": "champion", "state": "InSync", "error": None, "offered_digest": None, "offered_serial": 0,
    "effective_digest": None, "effective_serial": 0, "kernel_version": None, "module_version": None,
    "agent_version": None, "run_id": None,
}  # fmt: skip


def a_report(number: int, **changes: object) -> ReceivedReport:
    """A report of the agent of that number."""
    return ReceivedReport(f"server-{number}", "gr", {**SAID, **changes}, START)


@pytest.fixture
def intake(api) -> Callable[..., ReportIntake]:
    """Makes a queue on the API's database."""

    def make(*, max_queued: int = 1000) -> ReportIntake:
        context = api.app.state.context
        settings = context.settings.model_copy(update={"max_queued_reports": max_queued})
        return ReportIntake(replace(context, settings=settings))

    return make


def listed(api) -> dict[str, str]:
    """The state of each agent."""
    rows = api.get("/v1/agents", params={"limit": 200}).json()["items"]
    return {row["agent_id"]: row["state"] for row in rows}


def test_reports_that_arrive_together_share_transactions(api, intake):
    commits: list[object] = []
    event.listen(api.database._engine, "commit", commits.append)

    async def scenario() -> None:
        queue = intake()
        await asyncio.gather(*(queue.submit(a_report(number)) for number in range(100)))

    asyncio.run(scenario())
    assert len(commits) <= 2
    assert len(listed(api)) == 100


def test_the_last_report_of_an_agent_in_a_batch_is_kept(api, intake):
    async def scenario() -> None:
        queue = intake()
        await asyncio.gather(*(queue.submit(a_report(1, state=state)) for state in ("Starting", "Offline", "InSync")))

    asyncio.run(scenario())
    assert listed(api) == {"server-1": "InSync"}


def test_a_report_is_acknowledged_after_its_commit_and_a_full_queue_refuses(api, intake):
    may_commit = threading.Event()
    event.listen(api.database._engine, "commit", lambda _connection: may_commit.wait())

    async def scenario() -> None:
        queue = intake(max_queued=2)
        first = asyncio.create_task(queue.submit(a_report(1)))
        await asyncio.sleep(0.1)
        rest = [asyncio.create_task(queue.submit(a_report(number))) for number in (2, 3)]
        await asyncio.sleep(0.1)
        with pytest.raises(BusyError, match="2 wait"):
            await queue.submit(a_report(4))
        assert not any(task.done() for task in (first, *rest))
        may_commit.set()
        await asyncio.gather(first, *rest)

    asyncio.run(scenario())
    assert set(listed(api)) == {"server-1", "server-2", "server-3"}


def test_a_report_that_the_database_refuses_does_not_take_others_with_it(api, intake):
    async def scenario() -> list[object]:
        queue = intake()
        bad = replace(a_report(2), said={**SAID, "state": None})
        reports = (a_report(1), bad, a_report(3))
        return await asyncio.gather(*(queue.submit(report) for report in reports), return_exceptions=True)

    outcomes = asyncio.run(scenario())
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert set(listed(api)) == {"server-1", "server-3"}


def test_a_full_queue_is_a_503_that_says_when_to_return(api, problem, monkeypatch):
    async def refuse(_report: object) -> None:
        raise BusyError("expected room for a report, 20000 wait to be written; try again")

    monkeypatch.setattr(api.part(ReportIntake), "submit", refuse)
    answer = api.request("POST", "/v1/agents/a/reports", json={"cca": "gr", "channel": "champion", "state": "InSync"})
    problem(answer, status=503)
    assert answer.headers["retry-after"] == "1"
