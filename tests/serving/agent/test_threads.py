# SPDX-License-Identifier: MIT
"""How often the agent asks, and what it does when nobody answers."""

from __future__ import annotations

import functools
import queue
import random
import time
from collections.abc import Iterator

import pytest

from serving.agent import RegistryClient
from serving.agent.backoff import Backoff
from serving.agent.threads import ABSENT_PAUSE_S, Heard, Poller, Reporter, ask
from tests.serving.agent.fakes import FakeRegistry, answer, etag, fake_registry, log_to, table
from tests.serving.agent.test_registry import REPORT

ONE, TWO = table(1), table(2)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as fake:
        yield fake


@pytest.fixture
def heard(registry: FakeRegistry) -> Iterator[queue.SimpleQueue[Heard]]:
    box: queue.SimpleQueue[Heard] = queue.SimpleQueue()
    poller = Poller(
        "gr",
        channel="champion",
        client=RegistryClient(registry.url, timeout_s=20),
        tell=box.put,
        wait_s=30,
        backoff_max_s=0.1,
        rng=random.Random(1),
        clock=time.monotonic,
    )
    poller.start()
    yield box
    poller.stop()


def test_delays_double_up_to_the_largest_with_half_of_it_as_jitter() -> None:
    backoff = Backoff(maximum_s=8, rng=random.Random(5))
    delays_s = [backoff.next_s() for _ in range(100)]
    for delay_s, ceiling_s in zip(delays_s, [1, 2, 4, 8, 8, 8], strict=False):
        assert ceiling_s / 2 <= delay_s <= ceiling_s
    assert all(4 <= delay_s <= 8 for delay_s in delays_s[3:])
    backoff.reset()
    assert backoff.next_s() <= 1


def test_servers_that_lost_the_registry_together_do_not_return_together() -> None:
    firsts_s = {Backoff(maximum_s=60, rng=random.Random(seed)).next_s() for seed in range(20)}
    assert len(firsts_s) == 20


def test_poller_tells_offer_after_offer(registry: FakeRegistry, heard: queue.SimpleQueue[Heard]) -> None:
    registry.offer(ONE)
    while (first := heard.get(timeout=20)).kind != "offered":
        assert first.kind == "unavailable"
    registry.offer(TWO)
    assert heard.get(timeout=20) == Heard("gr", "offered", table=TWO)


def test_poller_asks_again_without_etag_after_a_damaged_offer(
    registry: FakeRegistry, heard: queue.SimpleQueue[Heard]
) -> None:
    registry.answer_with(200, answer(ONE, serial=0), ETag='"good"')
    while heard.get(timeout=20).kind != "refused":
        pass
    registry.offer(TWO)
    while heard.get(timeout=20).kind != "offered":
        pass
    assert registry.asked[-1][1] in {None, etag(TWO)}
    assert '"good"' not in {known for _, known in registry.asked}


def reporter_of(registry: FakeRegistry, *, every_s: float) -> Reporter:
    return Reporter(
        agent_id="host",
        client=RegistryClient(registry.url, timeout_s=20),
        log=log_to(),
        every_s=every_s,
        backoff_max_s=0.1,
        rng=random.Random(1),
    )


def test_report_is_sent_at_once_and_again_as_a_sign_of_life(registry: FakeRegistry) -> None:
    reporter = reporter_of(registry, every_s=0.05)
    reporter.start()
    reporter.submit(REPORT)
    with registry.changed:
        assert registry.changed.wait_for(lambda: len(registry.reports) >= 3, timeout=20)
    reporter.stop()


def test_unchanged_report_waits_for_its_time(registry: FakeRegistry) -> None:
    reporter = reporter_of(registry, every_s=3600)
    reporter.start()
    for _ in range(5):
        reporter.submit(REPORT)
    registry.wait_for_report(lambda report: report["cca"] == "gr")
    reporter.submit(REPORT)
    reporter.stop()
    assert len(registry.reports) == 1


def poller_of(registry: FakeRegistry, box: queue.SimpleQueue[Heard], *, backoff_max_s: float) -> Poller:
    return Poller(
        "gr",
        channel="champion",
        client=RegistryClient(registry.url, timeout_s=20),
        tell=box.put,
        wait_s=30,
        backoff_max_s=backoff_max_s,
        rng=random.Random(1),
        clock=time.monotonic,
    )


def test_channel_without_a_deployment_is_asked_for_at_an_even_pace_however_long_it_takes(
    registry: FakeRegistry,
) -> None:
    poller = poller_of(registry, queue.SimpleQueue(), backoff_max_s=60)
    absent, gone = Heard("gr", "unavailable", is_absent=True), Heard("gr", "unavailable")
    pause = functools.partial(poller._pause_s, wait_s=30.0)
    assert 0.5 <= pause(absent, took_s=0.0, was_absent=False) <= 1.0
    pauses_s = [pause(absent, took_s=0.0, was_absent=True) for _ in range(20)]
    assert all(ABSENT_PAUSE_S / 2 <= pause_s <= ABSENT_PAUSE_S for pause_s in pauses_s)
    assert pause(absent, took_s=30.0, was_absent=True) == 0.0
    assert max(pause(gone, took_s=0.0, was_absent=False) for _ in range(20)) > 2 * ABSENT_PAUSE_S


def test_registry_that_holds_the_request_for_a_new_channel_delivers_it_at_once(registry: FakeRegistry) -> None:
    registry.holds_absent = True
    box: queue.SimpleQueue[Heard] = queue.SimpleQueue()
    poller = poller_of(registry, box, backoff_max_s=0.1)
    poller.start()
    first = box.get(timeout=20)
    assert (first.kind, first.is_absent) == ("unavailable", True)
    deadline_s = time.monotonic() + 20
    while len(registry.asked) < 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    registry.offer(ONE)
    assert box.get(timeout=20) == Heard("gr", "offered", table=ONE)
    poller.stop()
    assert registry.asked[1][0].startswith("/v1/channels/gr/champion?wait=")


def test_other_404_is_no_channel_to_wait_for(registry: FakeRegistry) -> None:
    registry.answer_with(404, b'{"type": "about:blank"}')
    heard, _ = ask(RegistryClient(registry.url, timeout_s=20), "gr", "champion")
    assert (heard.kind, heard.is_absent) == ("unavailable", False)
