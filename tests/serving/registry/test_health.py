# SPDX-License-Identifier: MIT
"""Writers that wait, seen by readers and by /readyz"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from serving.context import WorkPool
from serving.database import Database, migrate
from serving.errors import BusyError
from tests.serving.api import problem_of
from tests.serving.running import LONG_S, Running

pytestmark = pytest.mark.service

REPORT = {"cca": "gr", "channel": "champion", "state": "InSync"}


@pytest.fixture
def database(sqlite_url) -> Iterator[Database]:
    """An empty registry on SQLite, whose writes wait for the lock for a long time."""
    opened = Database(sqlite_url, busy_timeout_ms=60_000)
    migrate(opened)
    yield opened
    opened.close()


@contextmanager
def write_lock(database: Database) -> Iterator[None]:
    """Hold the write lock, as another process would."""
    other = sqlite3.connect(str(database.sqlite_file), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def test_writes_that_wait_for_the_lock_delay_no_read(database):
    async def scenario(url: str) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=LONG_S, limits=limits) as client:
            with write_lock(database):
                writes = [asyncio.create_task(client.post(f"/v1/agents/a{n}/reports", json=REPORT)) for n in range(60)]
                await asyncio.sleep(0.3)
                reads = await asyncio.gather(*(client.get(path) for path in ("/v1/agents", "/v1/channels") * 10))
                assert {answer.status_code for answer in reads} == {200}
                assert not any(write.done() for write in writes)
            answers = await asyncio.gather(*writes)
            assert {answer.status_code for answer in answers} == {204}

    with Running(database, busy_timeout_ms=60_000) as registry:
        asyncio.run(scenario(registry.url))


def test_readyz_is_unhealthy_while_no_write_succeeds_and_recovers_and_livez_answers_meanwhile(database):
    with (
        Running(database, write_stall_s=0.05) as registry,
        httpx.Client(base_url=registry.url, timeout=LONG_S) as client,
    ):
        paths = ("/livez", "/readyz", "/healthz")
        assert [client.get(path).json() for path in paths] == [{"status": "ok", "registry": "lab"}] * 3
        with write_lock(database):
            asyncio.run(asyncio.sleep(0.1))
            document = problem_of(client.get("/readyz"), status=503)
            assert client.get("/livez").status_code == 200
            assert problem_of(client.get("/healthz"), status=503)["type"] == document["type"]
        assert document["type"] == "urn:ccatune:problem:writes-stalled"
        assert "no answer within 1 s" in document["detail"]
        answers = (client.get("/readyz").status_code for _ in range(20))
        assert 200 in answers


def test_work_that_waited_too_long_is_refused_and_so_is_work_over_the_bound():
    now_s = 0.0
    may_end = threading.Event()

    def first_step() -> None:
        nonlocal now_s
        may_end.wait()
        now_s = 1.0

    async def scenario() -> list[object]:
        pool = WorkPool("writes", threads=1, max_queued=1, max_queue_s=0.5, clock=lambda: now_s)
        steps = [asyncio.create_task(pool.run(step)) for step in (first_step, lambda: None, lambda: None)]
        await asyncio.sleep(0)
        may_end.set()
        return await asyncio.gather(*steps, return_exceptions=True)

    first, late, surplus = asyncio.run(scenario())
    assert first is None
    assert isinstance(late, BusyError)
    assert "to start in 0.5 s" in str(late)
    assert isinstance(surplus, BusyError)
    assert "2 wait" in str(surplus)
