# SPDX-License-Identifier: MIT
"""GET /v1/channels/{cca}/{name}?wait=, over real sockets

No test here measures time: a poll that should end by a move is given a wait far
longer than the test, and one that should end by time is answered 304.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from serving.channels.offers import Offers
from serving.channels.watch import ChannelWatch
from serving.errors import ChannelNotFoundError
from tests.serving.running import CHAMPION, LONG_S, Poll, Running

pytestmark = pytest.mark.service


@pytest.fixture
def registry(api) -> Iterator[Running]:
    """A running registry whose champion stands at serial 1."""
    api.move(0)
    with Running(api.database) as running:
        yield running


def test_a_poll_is_held_until_the_channel_moves(registry):
    first = registry.get(etag=None, wait=0)
    poll = Poll(registry, etag=first.headers["etag"])
    assert poll.is_held
    moved = httpx.put(f"{registry.url}{CHAMPION}", json={"digest": first.json()["digest"]})
    answer = poll.answer()
    assert (answer.status_code, answer.json()["serial"]) == (200, 2)
    assert answer.headers["etag"] == moved.headers["etag"]


def test_a_poll_is_answered_when_another_process_moves_the_channel(registry, api):
    poll = Poll(registry, etag=registry.get(etag=None, wait=0).headers["etag"])
    assert poll.is_held
    api.move(1)
    assert poll.answer().json()["serial"] == 2


def test_a_poll_whose_time_is_out_is_answered_304(registry):
    etag = registry.get(etag=None, wait=0).headers["etag"]
    answer = registry.get(etag=etag, wait=0.2)
    assert (answer.status_code, answer.headers["etag"]) == (304, etag)


def test_a_poll_that_holds_another_deployment_is_answered_at_once(registry):
    assert registry.get(etag='"lab:0:other"', wait=LONG_S).json()["serial"] == 1


def test_an_orderly_stop_sends_held_polls_home(api):
    api.move(0)
    with Running(api.database, recheck_ms=60_000) as registry:
        etag = registry.get(etag=None, wait=0).headers["etag"]
        poll = Poll(registry, etag=etag)
        assert poll.is_held
        registry.stop()
        assert poll.answer().status_code == 304


def test_the_registry_bounds_the_wait_and_refuses_nonsense(registry):
    assert registry.get(etag=None, wait=-1).status_code == 422
    assert registry.get(etag=None, wait=3601).status_code == 422


@pytest.fixture
def empty_registry(api) -> Iterator[Running]:
    """A running registry without any channel."""
    with Running(api.database) as running:
        yield running


def test_a_poll_of_an_absent_channel_is_held_until_its_first_deployment(empty_registry, api):
    digest = api.publish(0)
    poll = Poll(empty_registry, etag=None)
    assert poll.is_held
    api.move(0, channel="canary")
    assert poll.is_held
    httpx.put(f"{empty_registry.url}{CHAMPION}", json={"digest": digest}).raise_for_status()
    answer = poll.answer()
    assert (answer.status_code, answer.json()["serial"]) == (200, 1)


def test_a_deletion_by_another_process_ends_the_poll_and_a_new_channel_is_offered_again(registry, api):
    etag = registry.get(etag=None, wait=0).headers["etag"]
    poll = Poll(registry, etag=etag)
    assert poll.is_held
    assert api.request("DELETE", CHAMPION).status_code == 204
    assert poll.answer().status_code == 404
    assert registry.get(etag=etag, wait=LONG_S).status_code == 404
    poll = Poll(registry, etag=None)
    assert poll.is_held
    api.move(0)
    assert poll.answer().json()["serial"] == 3


def test_a_poll_of_an_absent_channel_is_answered_404_when_its_time_is_out_or_the_registry_stops(empty_registry):
    absent = empty_registry.get(etag=None, wait=0.2)
    assert (absent.status_code, absent.json()["type"]) == (404, "urn:ccatune:problem:channel-not-found")
    assert empty_registry.get(etag=None, wait=0).status_code == 404
    poll = Poll(empty_registry, etag=None)
    assert poll.is_held
    empty_registry.stop()
    assert poll.answer().status_code == 404


def test_invented_channels_occupy_nothing_after_their_polls(api):
    offers, watch = api.part(Offers), api.part(ChannelWatch)

    async def scenario() -> None:
        follows = (
            offers.follow(("gr", f"invented-{number}"), if_none_match=None, wait_s=0.2, connection=None)
            for number in range(100)
        )
        errors = await asyncio.gather(*follows, return_exceptions=True)
        assert {type(error) for error in errors} == {ChannelNotFoundError}
        # The tasks of the queries end one turn after their requests.
        await asyncio.sleep(0)

    asyncio.run(scenario())
    kept = [*vars(offers).values(), *vars(watch).values()]
    assert [part for part in kept if isinstance(part, dict) and part] == []
