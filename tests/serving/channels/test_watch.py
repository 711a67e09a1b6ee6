# SPDX-License-Identifier: MIT
"""Waking those who wait for a channel"""

from __future__ import annotations

import asyncio

from sqlalchemy.exc import OperationalError

from serving.channels.watch import ChannelWatch

KEY = ("gr", "champion")
LONG_S = 30.0
# Longer than any test: what is found without `announce` is found by nothing else.
NEVER_MS = 3_600_000


def test_a_move_between_the_look_and_the_wait_is_not_missed():
    async def scenario():
        watch = ChannelWatch(dict, recheck_ms=NEVER_MS)
        watch.announce(KEY, serial=4)
        return await watch.wait(KEY, serial=3, timeout_s=LONG_S)

    assert asyncio.run(scenario())


def test_one_look_serves_all_who_wait_and_none_is_made_when_nobody_does():
    looks: list[int] = []

    def look():
        looks.append(1)
        return {KEY: 4} if len(looks) == 3 else {}

    async def scenario():
        watch = ChannelWatch(look, recheck_ms=10)
        await asyncio.gather(*(watch.wait(KEY, serial=3, timeout_s=LONG_S) for _ in range(50)))
        await asyncio.sleep(0.1)

    asyncio.run(scenario())
    assert len(looks) == 3


def test_looking_starts_again_with_the_next_who_waits():
    serial = 3

    async def scenario():
        nonlocal serial
        watch = ChannelWatch(lambda: {KEY: serial}, recheck_ms=10)
        assert not await watch.wait(KEY, serial=3, timeout_s=0.05)
        await asyncio.sleep(0.05)
        serial = 4
        return await watch.wait(KEY, serial=3, timeout_s=LONG_S)

    assert asyncio.run(scenario())


def test_a_database_that_is_away_for_a_moment_sends_nobody_home():
    looks: list[int] = []

    def look():
        looks.append(1)
        if len(looks) < 3:
            raise OperationalError("SELECT", {}, Exception("gone"))
        return {KEY: 4}

    async def scenario():
        return await ChannelWatch(look, recheck_ms=10).wait(KEY, serial=3, timeout_s=LONG_S)

    assert asyncio.run(scenario())


def test_wake_ups_are_spread_and_reach_everyone():
    async def scenario():
        watch = ChannelWatch(dict, recheck_ms=NEVER_MS, spread_ms=200)
        waiting = [asyncio.create_task(watch.wait(KEY, serial=3, timeout_s=LONG_S)) for _ in range(1000)]
        await asyncio.sleep(0)
        watch.announce(KEY, serial=4)
        for _ in range(5):
            await asyncio.sleep(0)
        woken_at_once = sum(task.done() for task in waiting)
        return woken_at_once, await asyncio.gather(*waiting)

    assert asyncio.run(scenario()) == (100, [True] * 1000)


def test_a_poll_whose_client_has_gone_stops_waiting():
    async def scenario():
        watch = ChannelWatch(dict, recheck_ms=NEVER_MS)
        return await watch.wait(KEY, serial=3, timeout_s=LONG_S, on_start=lambda poll: poll.leave())

    assert not asyncio.run(scenario())
