# SPDX-License-Identifier: MIT
"""The answers to many agents at once"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from serving.channels.watch import ChannelWatch
from tests.serving.running import CHAMPION, LONG_S, Running

pytestmark = pytest.mark.service

POLLS = 200


def count_queries(database: Any, table: str) -> list[str]:
    """A list that grows by each statement on the table."""
    statements: list[str] = []

    def note(_connection, _cursor, statement, *_: object) -> None:
        if f"FROM {table}" in statement:
            statements.append(statement)

    event.listen(database._engine, "before_cursor_execute", note)
    return statements


def test_a_move_is_read_once_for_all_polls_that_it_ends(api):
    api.move(0)
    digest = api.publish(1)

    async def scenario(registry: Running) -> int:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=registry.url, timeout=LONG_S, limits=limits) as client:
            etag = (await client.get(CHAMPION)).headers["etag"]
            known = {"If-None-Match": etag}
            polls = [
                asyncio.create_task(client.get(CHAMPION, params={"wait": LONG_S}, headers=known)) for _ in range(POLLS)
            ]
            await asyncio.wait(polls, timeout=0.5)
            statements = count_queries(api.database, "deployments")
            await client.put(CHAMPION, json={"digest": digest})
            answers = await asyncio.gather(*polls)
            assert {answer.json()["serial"] for answer in answers} == {2}
            return len(statements)

    # The checks for moves by other processes query another table.
    with Running(api.database, recheck_ms=60_000, wake_spread_ms=100) as registry:
        assert asyncio.run(scenario(registry)) < 10


def test_a_move_is_answered_before_it_wakes_anyone(api, monkeypatch):
    api.move(0)
    digest = api.publish(1)
    order: list[str] = []
    watch = api.part(ChannelWatch)
    announce = watch.announce
    monkeypatch.setattr(watch, "announce", lambda *a, **k: (order.append("woken"), announce(*a, **k)))

    async def observed(scope: Any, receive: Any, send: Any) -> None:
        async def note(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                order.append("answered")

        await api.app(scope, receive, note)

    async def scenario() -> None:
        transport = httpx.ASGITransport(app=observed)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=api.headers) as client:
            await client.put(CHAMPION, json={"digest": digest})
            await client.post(f"{CHAMPION}/rollback")

    asyncio.run(scenario())
    assert order == ["answered", "woken", "answered", "woken"]


def test_a_request_sees_the_move_of_another_process_at_once(api):
    api.move(0)
    other = api.other_process()
    stale = other.get(CHAMPION).headers["etag"]
    moved = api.move(1)
    assert other.get(CHAMPION, headers={"If-None-Match": stale}).json()["serial"] == moved["serial"]
    again = api.move(2)
    assert other.get(CHAMPION).json()["serial"] == again["serial"]


def test_a_poll_that_is_ahead_of_the_cache_does_not_go_back(api):
    api.move(0)
    other = api.other_process()
    other.get(CHAMPION)
    api.move(1)
    ahead = {"If-None-Match": api.get(CHAMPION).headers["etag"]}
    assert other.get(CHAMPION, params={"wait": 0.05}, headers=ahead).status_code == 304


@pytest.mark.parametrize("query", ["?wait=abc", "?wait=1e9", "?wait=3601", "?wait=0.1&wait=-1"])
def test_an_unusual_query_is_answered_by_the_endpoint(api, query):
    api.move(0)
    assert api.get(f"{CHAMPION}{query}").status_code == 422
    assert api.get(f"{CHAMPION}?wait=0&other=1").status_code == 422
