# SPDX-License-Identifier: MIT
"""How often the agent asks, and what it does when nobody answers."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from serving.agent import threads as threads_module
from serving.agent.state import IN_FORCE, CcaReport, PollResult, State
from serving.agent.threads import ABSENT_PAUSE_S, Backoff, Poller, Reporter, stop_all
from tests.serving.agent.fakes import FakeRegistry, answer, client_to, etag, log_to, settings_of, table
from tests.serving.agent.test_client import REPORT

ONE, TWO = table(1), table(2)
NO_FOLDER = Path("/nonexistent")
Box = queue.SimpleQueue[PollResult]


def poller_of(registry: FakeRegistry, box: Box, *, backoff_max_s: float = 0.1, wait_s: float = 30) -> Poller:
    return Poller(
        "gr",
        settings=settings_of(NO_FOLDER, registry.url, wait_s=wait_s, backoff_max_s=backoff_max_s),
        client=client_to(registry.url),
        deliver=box.put,
        rng=random.Random(1),
        clock=time.monotonic,
    )


@pytest.fixture
def results(registry: FakeRegistry) -> Iterator[Box]:
    """What a running poller tells."""
    box: Box = queue.SimpleQueue()
    poller = poller_of(registry, box)
    poller.start()
    yield box
    stop_all([poller])


def wait_for(box: Box, wanted: PollResult) -> None:
    """Take results until this one comes."""
    while box.get(timeout=20) != wanted:
        pass


OFFERED_ONE, OFFERED_TWO = PollResult(State.IN_SYNC, ONE), PollResult(State.IN_SYNC, TWO)


def test_delays_double_up_to_the_largest_with_half_of_it_as_jitter() -> None:
    backoff = Backoff(maximum_s=8, rng=random.Random(5))
    delays_s = [backoff.next_s() for _ in range(100)]
    for delay_s, ceiling_s in zip(delays_s, [1, 2, 4, 8, 8, 8], strict=False):
        assert ceiling_s / 2 <= delay_s <= ceiling_s
    assert all(4 <= delay_s <= 8 for delay_s in delays_s[3:])
    backoff.reset()
    assert backoff.next_s() <= 1


def test_poller_tells_offer_after_offer(registry: FakeRegistry, results: Box) -> None:
    registry.offer(ONE)
    wait_for(results, OFFERED_ONE)
    registry.offer(TWO)
    assert results.get(timeout=20) == OFFERED_TWO


def test_a_registry_that_moves_a_channel_without_end_does_not_set_the_pace_of_the_agent(
    registry: FakeRegistry, results: Box
) -> None:
    began_s = time.monotonic()
    for serial in range(1, 5):
        registry.offer(table(serial))
        wait_for(results, PollResult(State.IN_SYNC, table(serial)))
    # A pause of at least half a second follows each offer but the last.
    assert time.monotonic() - began_s >= 3 * 0.5


def test_poller_asks_again_without_etag_after_a_damaged_offer(registry: FakeRegistry, results: Box) -> None:
    registry.answer_with(200, answer(ONE, serial=0), ETag='"good"')
    while results.get(timeout=20).state is not State.REJECTED:
        pass
    registry.offer(TWO)
    wait_for(results, OFFERED_TWO)
    assert registry.asked[-1][1] in {None, etag(TWO)}
    assert '"good"' not in {known for _, known in registry.asked}


def reporter_of(
    registry: FakeRegistry,
    *,
    every_s: float,
    spread_s: float = 0.0,
    seed: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> Reporter:
    return Reporter(
        settings_of(NO_FOLDER, registry.url, report_every_s=every_s, report_spread_s=spread_s),
        find_agent_id=lambda: "host",
        client=client_to(registry.url),
        log=log_to(),
        rng=random.Random(seed),
        clock=clock,
    )


def test_report_is_sent_at_once_and_again_as_a_sign_of_life(registry: FakeRegistry) -> None:
    reporter = reporter_of(registry, every_s=1.0)
    reporter.start()
    reporter.submit(REPORT)
    with registry.changed:
        assert registry.changed.wait_for(lambda: len(registry.reports) >= 3, timeout=20)
    stop_all([reporter])


def test_unchanged_report_waits_for_its_time(registry: FakeRegistry) -> None:
    reporter = reporter_of(registry, every_s=3600)
    reporter.start()
    for _ in range(5):
        reporter.submit(REPORT)
    registry.wait_for_report(lambda report: report["cca"] == "gr")
    reporter.submit(REPORT)
    stop_all([reporter])
    assert len(registry.reports) == 1


def in_sync(serial: int, *, state: State = State.IN_SYNC, error: str | None = None) -> CcaReport:
    return replace(REPORT, state=state, effective_serial=serial, effective_digest=f"sha256:{serial:064x}", error=error)


def due_in_s(registry: FakeRegistry, *reports: CcaReport, sent: CcaReport | None = None, seed: int = 1) -> float:
    """How long a reporter that spreads over 5 s waits with the last of these reports; its clock stands still."""
    reporter = reporter_of(registry, every_s=3600, spread_s=5.0, seed=seed, clock=lambda: 100.0)
    if sent is not None:
        reporter.submit(sent)
        reporter._sent_one(sent)
    for report in reports:
        reporter.submit(report)
    return reporter._due_s["gr"] - 100.0


@pytest.mark.parametrize("state", sorted(IN_FORCE))
def test_reports_of_a_new_table_spread_over_their_time(registry: FakeRegistry, state: State) -> None:
    new = in_sync(2, state=state)
    waits_s = [due_in_s(registry, new, sent=in_sync(1, state=state), seed=seed) for seed in range(200)]
    assert all(0 <= wait_s <= 5 for wait_s in waits_s)
    assert min(waits_s) < 0.5
    assert max(waits_s) > 4.5
    assert sum(waits_s) / len(waits_s) == pytest.approx(2.5, abs=0.4)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        replace(in_sync(1), state=State.OFFLINE, error="gone"),
        replace(in_sync(2), state=State.REJECTED, error="EINVAL"),
        in_sync(2, state=State.STALE),
        in_sync(2, error="not saved"),
        replace(in_sync(1), offered_serial=7),
    ],
    ids=["starting", "offline", "rejected", "stale", "new table with an error", "same table"],
)
def test_any_other_report_is_due_at_once(registry: FakeRegistry, report: CcaReport) -> None:
    assert due_in_s(registry, report, sent=in_sync(1)) == 0


def test_error_does_not_wait_for_the_report_that_it_replaces(registry: FakeRegistry) -> None:
    lost = replace(in_sync(2), state=State.DEGRADED, error="changed by hand")
    assert due_in_s(registry, in_sync(2), lost, sent=in_sync(1)) == 0


def test_table_after_table_does_not_put_the_report_off(registry: FakeRegistry) -> None:
    first_s = due_in_s(registry, in_sync(2), sent=in_sync(1))
    assert due_in_s(registry, *map(in_sync, range(2, 50)), sent=in_sync(1)) <= first_s


def test_all_threads_together_are_waited_for_as_long_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_JOIN_S", 0.3)
    stopped, end = [], threading.Event()
    threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.stop = lambda: stopped.append(len(stopped))  # type: ignore[attr-defined]
        thread.start()
    began_s = time.monotonic()
    stop_all(threads)  # type: ignore[arg-type]
    assert 0.3 <= time.monotonic() - began_s < 1.0
    assert stopped == [0, 1, 2, 3, 4]
    end.set()


def test_channel_without_a_deployment_is_asked_for_at_an_even_pace_however_long_it_takes(
    registry: FakeRegistry,
) -> None:
    pause = poller_of(registry, queue.SimpleQueue(), backoff_max_s=60)._pause_s
    absent, gone = PollResult(State.NO_CHANNEL), PollResult(State.OFFLINE)
    assert 0.5 <= pause(absent, was_held=False, was_absent=False) <= 1.0
    pauses_s = [pause(absent, was_held=False, was_absent=True) for _ in range(20)]
    assert all(ABSENT_PAUSE_S / 2 <= pause_s <= ABSENT_PAUSE_S for pause_s in pauses_s)
    assert pause(absent, was_held=True, was_absent=True) == 0.0
    assert max(pause(gone, was_held=False, was_absent=False) for _ in range(20)) > 2 * ABSENT_PAUSE_S


def test_registry_that_holds_the_request_for_a_new_channel_delivers_it_at_once(registry: FakeRegistry) -> None:
    registry.holds_absent = True
    box: Box = queue.SimpleQueue()
    poller = poller_of(registry, box)
    poller.start()
    assert box.get(timeout=20).state is State.NO_CHANNEL
    deadline_s = time.monotonic() + 20
    while len(registry.asked) < 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    registry.offer(ONE)
    assert box.get(timeout=20) == OFFERED_ONE
    stop_all([poller])
    assert registry.asked[1][0].startswith("/v1/channels/gr/champion?wait=")


@pytest.mark.parametrize("wait_s", [30, 0])
def test_registry_that_does_not_hold_requests_is_not_asked_without_end(registry: FakeRegistry, wait_s: float) -> None:
    # Without an ETag, or, where no wait is set, with one.
    if wait_s:
        registry.answer_with(200, answer(ONE))
    else:
        registry.offer(ONE)
    box: Box = queue.SimpleQueue()
    poller = poller_of(registry, box, wait_s=wait_s)
    began_s = time.monotonic()
    poller.start()
    for _ in range(4):
        assert box.get(timeout=20).state is State.IN_SYNC
    stop_all([poller])
    # Three pauses of at least half a second.
    assert time.monotonic() - began_s >= 1.5


def test_other_404_is_no_channel_to_wait_for(registry: FakeRegistry) -> None:
    registry.answer_with(404, b'{"type": "about:blank"}')
    with client_to(registry.url) as client:
        assert client.poll("gr", "champion").state is State.OFFLINE
