# SPDX-License-Identifier: MIT
"""What the sender does about losses, late segments and silence, in times that can be worked out.

Without a rate a flight leaves and arrives in one instant, a round trip is 100 ms exactly, and quick ACKs answer each
segment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import pytest

from emulation import FlowSpec
from tests.emulation.engine.links import fixed
from tests.emulation.engine.path import MS, Path

RENO = FlowSpec(cca="reno")
Meets = Callable[[Any, int], float | None]


def losing(*lost: int, times: int = 1, more: Mapping[int, int] = MappingProxyType({})) -> Meets:
    """Loses the first transmissions of these numbers. more: how many, by number."""
    left = {**dict.fromkeys(lost, times), **more}

    def meets(packet: Any, _now_ns: int) -> float | None:
        if not left.get(packet.seq):
            return 0.0
        left[packet.seq] -= 1
        return None

    return meets


def late(by_ms: float, *numbers: int) -> Meets:
    """Originals of these numbers are late."""
    waiting = set(numbers)

    def meets(packet: Any, _now_ns: int) -> float | None:
        if packet.seq not in waiting:
            return 0.0
        waiting.remove(packet.seq)
        return by_ms

    return meets


def outage(from_ms: float, to_ms: float, *, lost_tx: int = -1) -> Meets:
    """What is sent meanwhile arrives at its end, in order, but for one transmission."""

    def meets(packet: Any, now_ns: int) -> float | None:
        if packet.tx == lost_tx:
            return None
        now_ms = now_ns / MS
        return to_ms - now_ms if from_ms <= now_ms < to_ms else 0.0

    return meets


# --- RACK ------------------------------------------------------------------------------------------------------------


def test_a_loss_is_repaired_one_round_trip_later_when_three_segments_follow() -> None:
    path = Path(fixed(10), 100, rate_mbps=None, meets=losing(42)).start().run(3000)
    # The flight of 40 to 49 leaves at 400 ms; 43, 44 and 45 are reported at 500 ms.
    assert path.retransmitted() == [(500.0, 42)]
    assert path.sender.is_complete
    assert [kind for _, kind, _ in path.reports("recovery_entered", "recovery_left", "timeout", "undo")] == [
        "recovery_entered",
        "recovery_left",
    ]


def test_a_loss_within_a_recovery_begins_the_next_one_where_that_ends() -> None:
    path = Path(fixed(10), 100, rate_mbps=None, meets=losing(55, more={42: 2})).start().run(3000)
    # 55 leaves behind the first recovery's end, 53, and is lost by 600 ms, when 42 is sent for the third time.
    assert path.retransmitted() == [(500.0, 42), (600.0, 42), (600.0, 55)]
    reports = [(at_ms, kind) for at_ms, kind, _ in path.reports("recovery_entered", "recovery_left")]
    assert reports[:3] == [(500.0, "recovery_entered"), (700.0, "recovery_left"), (700.0, "recovery_entered")]
    assert [kind for _, kind in reports[3:]] == ["recovery_left"]
    assert path.sender.is_complete


def test_bbr_takes_such_recoveries_for_one() -> None:
    """It looks at the state with each ACK, and does not see what changed twice within one."""

    def at_once(cca: Literal["bbr", "reno"]) -> int:
        lost = losing(*range(45, 300, 9), more={42: 3})
        reports = Path(FlowSpec(cca=cca), meets=lost).start().run(20_000).reports("recovery_entered", "recovery_left")
        assert [kind for _, kind, _ in reports[:2]] == ["recovery_entered", "recovery_left"]
        return sum(before[0] == after[0] for before, after in pairwise(reports))

    assert at_once("reno") > 0
    assert at_once("bbr") == 0


def test_a_number_and_a_block_in_one_ack_are_no_reordering() -> None:
    # 42 came alone and its ACK was held: that of 44 brings both, the block before the number.
    path = Path(fixed(10), 100, rate_mbps=None, meets=losing(43, 44, 63)).start().run(3000)
    # Taken for reordering, it would leave a quarter of the round trip to each loss in a recovery, and to the next one.
    assert path.retransmitted() == [(500.0, 43), (500.0, 44), (700.0, 63)]


@pytest.mark.parametrize("following", [1, 2])
def test_fewer_followers_wait_for_a_quarter_of_the_least_round_trip(following: int) -> None:
    path = Path(fixed(10), 50, rate_mbps=None, meets=losing(49 - following)).start().run(3000)
    assert path.retransmitted() == [(525.0, 49 - following)]


def test_a_lost_retransmission_is_found_by_what_was_sent_behind_it() -> None:
    path = Path(fixed(10), 400, rate_mbps=None, meets=losing(42, times=3)).start().run(8000)
    again_ms = [at_ms for at_ms, _ in path.retransmitted()]
    assert len(again_ms) == 3
    # What left together with the retransmission comes back a round trip later, and so on.
    assert again_ms[1] - again_ms[0] == pytest.approx(100.0, abs=1)
    assert again_ms[2] - again_ms[1] == pytest.approx(100.0, abs=1)
    assert path.sender.counters["timeouts"] == 0


def test_reordering_within_the_window_is_no_loss_once_it_was_seen() -> None:
    # Each 20th segment is late by 20 ms, 33 segments' time: below a quarter of 100 ms.
    numbers = range(200, 4000, 20)
    path = Path(fixed(150), 4000, meets=late(20.0, *numbers)).start().run(10_000)
    # The second is overtaken before the first arrives and shows what happened.
    assert [seq for _, seq in path.retransmitted()] == [200, 220]
    assert path.sender.counters["timeouts"] == 0
    assert path.sender.is_complete


def test_duplicates_widen_the_window_until_late_segments_are_waited_for() -> None:
    # Late by 60 ms: beyond a quarter and a half of the round trip, within three quarters and SRTT.
    numbers = list(range(300, 12_000, 300))
    path = Path(fixed(150), 12_000, meets=late(60.0, *numbers)).start().run(30_000)
    again = [seq for _, seq in path.retransmitted()]
    assert 1 <= len(again) <= 4
    assert max(again) < numbers[len(numbers) // 2]
    assert path.sender.counters["undone"] >= 1


# --- proportional rate reduction -------------------------------------------------------------------------------------


def test_prr_takes_the_flight_to_ssthresh_within_the_round_trip() -> None:
    path = Path(RENO, meets=losing(1000))
    path.start().run(60_000)
    (entered_ms, _, (_, before_pkts)), *_ = path.reports("recovery_entered")
    left_ms = path.reports("recovery_left")[0][0]
    flights = [pkts for at_ms, _, pkts in path.sent if entered_ms < at_ms <= left_ms]
    # One goes for each two that come; none goes beyond half of what was in flight.
    assert min(flights) >= before_pkts // 2 - 1
    assert flights[-1] == pytest.approx(before_pkts / 2, abs=2)
    sent = sum(entered_ms <= at_ms < left_ms for at_ms, _, _ in path.sent)
    delivered = sum(figures[0] for at_ms, _, figures in path.reports("ack") if entered_ms <= at_ms < left_ms)
    assert sent == pytest.approx(delivered / 2, rel=0.05)


# --- tail-loss probe -------------------------------------------------------------------------------------------------


def test_a_lost_tail_is_probed_after_two_round_trips() -> None:
    path = Path(fixed(10), 10, rate_mbps=None, meets=losing(8, 9)).start().run(5000)
    # ACKs come at 100 ms; the last segment goes again 2 SRTT later, and its SACK shows the one before it.
    assert path.retransmitted() == [(300.0, 9), (400.0, 8)]
    assert path.sender.counters["timeouts"] == 0
    assert path.sender.counters["probes"] == 1


def test_a_lone_segment_waits_for_the_delayed_ack_too_but_no_longer_than_the_timeout() -> None:
    path = Path(fixed(10), 10, rate_mbps=None, meets=losing(9)).start().run(5000)
    # 2 SRTT + 200 ms would be 500 ms; the timeout of SRTT + 200 ms from 100 ms on is sooner.
    assert path.retransmitted() == [(400.0, 9)]
    assert path.sender.counters == {"sent": 11, "retransmitted": 1, "timeouts": 0, "undone": 0, "probes": 1}


def test_a_probe_of_new_data_is_no_retransmission() -> None:
    path = Path(fixed(10), 11, rate_mbps=None, meets=lambda p, _now: None if p.tx < 10 else 0.0).start().run(5000)
    # All ten are lost: 2 SRTT after they left, the eleventh goes.
    assert [(at_ms, seq) for at_ms, seq, _ in path.sent[10:11]] == [(200.0, 10)]
    assert path.sender.is_complete


def test_a_loss_that_the_probe_repaired_shrinks_the_window() -> None:
    path = Path(RENO, 10, rate_mbps=None, meets=losing(9)).start().run(1000)
    path.more(3).run(2000)
    assert [kind for _, kind, _ in path.reports("recovery_entered", "recovery_left")] == [
        "recovery_entered",
        "recovery_left",
    ]


# --- timeouts --------------------------------------------------------------------------------------------------------


def test_timeouts_double_until_something_comes_back() -> None:
    path = Path(fixed(1), 2, rate_mbps=None, meets=losing(1, times=6)).start().run(60_000)
    # RTO = 100 + 200 ms from 100 ms on: the probe takes the first, then 300, 600, 1200 ...
    expected_ms = [400.0, 700.0, 1300.0, 2500.0, 4900.0, 9700.0]
    assert path.retransmitted() == [(at_ms, 1) for at_ms in expected_ms]
    assert path.sender.counters["timeouts"] == 5
    assert path.sender.is_complete


def test_a_timeout_for_originals_that_are_late_is_taken_back() -> None:
    path = Path(RENO, 600, rate_mbps=None, meets=outage(450, 1300)).start().run(20_000)
    counters = path.sender.counters
    assert counters["timeouts"] >= 1
    assert counters["undone"] == 1
    # What the probe and the timeouts sent, and nothing that they took for lost.
    assert counters["retransmitted"] <= counters["timeouts"] + counters["probes"]
    assert path.sender.is_complete


def test_f_rto_takes_back_a_timeout_whose_first_segment_was_lost() -> None:
    # 30 is lost, 31 to 58 arrive behind the timeout and were never sent again.
    path = Path(RENO, 60, rate_mbps=None, meets=outage(150, 900, lost_tx=30)).start().run(10_000)
    kinds = [(at_ms, kind) for at_ms, kind, _ in path.reports("timeout", "undo")]
    assert [kind for _, kind in kinds] == ["timeout", "undo"]
    assert kinds[1][0] == 1000.0
    assert path.sender.is_complete


def test_a_late_segment_undoes_the_recovery_it_caused() -> None:
    path = Path(RENO, 3000, meets=late(30.0, 1500)).start().run(20_000)
    kinds = [kind for _, kind, _ in path.reports("recovery_entered", "recovery_left", "undo")]
    assert kinds == ["recovery_entered", "undo"]
    assert path.retransmitted()[0][1] == 1500


def test_a_retransmission_of_the_last_recovery_undoes_nothing() -> None:
    # The second recovery begins while a segment sent again in the first is on its way.
    path = Path(fixed(60), 400, meets=losing(100, 150, 170, 200)).start().run(10_000)
    assert path.sender.counters["undone"] == 0
    assert path.sender.counters["retransmitted"] == 4


def test_a_retransmission_lost_behind_a_timeout_begins_a_recovery() -> None:
    seen: list[int] = []

    def meets(packet: Any, now_ns: int) -> float | None:
        if 300 <= now_ns / 1e6 < 700:  # the flight of 70 to 149, and what would repair it
            return None
        seen.append(packet.seq)
        return None if packet.seq == 80 and seen.count(80) == 1 else 0.0

    path = Path(RENO, 400, rate_mbps=None, meets=meets).start().run(20_000)
    reports = path.reports("timeout", "recovery_entered", "recovery_left", "undo")
    kinds = [kind for _, kind, _ in reports]
    assert kinds[0] == "timeout"
    assert kinds[-2:] == ["recovery_entered", "recovery_left"]
    assert kinds.count("recovery_entered") == 1
    entered_ms = reports[-2][0]
    # Slow start is over: the window that followed the timeout is halved, and not doubled once more.
    before_pkts = reports[-2][2][1]
    assert path.reports("recovery_left")[0][0] > entered_ms
    assert max(pkts for at_ms, _, pkts in path.sent if entered_ms <= at_ms < entered_ms + 150) <= before_pkts
    assert path.sender.is_complete
