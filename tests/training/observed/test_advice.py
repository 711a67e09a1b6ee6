# SPDX-License-Identifier: MIT
"""The advice: links whose answer is known, the score, and when there is no advice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kmod.abi import ALGORITHMS
from training.observed.advice import LEAST_SECONDS, Advice, advise, chosen_of, contradicts, score_of
from training.observed.advice_text import answer, seen_sentences, steps
from training.observed.candidates import LEAST_TARGET_MS, MOST_TARGET_MS, candidates_of, row_of
from training.observed.seen import Limit, Measured, SeenLink, scenarios_of
from training.observed.simulator_error import UNVALIDATED_ERROR, gain_error

BLOATED = SeenLink("bloated", 30, 40, rate_mbps=3, buffer_pkts=250, algorithm="cubic")
POLICED = SeenLink("policed", 30, 40, rate_mbps=20, limit=Limit(2.0, 300_000, (1.9, 2.5)), algorithm="bbr")
BY_NAME = {one.name: one for one in candidates_of(100)}


def advice_on(*links: SeenLink, target_ms: float = 100, current: str | None = None) -> Advice:
    return advise(links, target_ms=target_ms, current=current, threads=2)


def test_a_link_with_a_long_buffer_gets_an_algorithm_that_keeps_the_target() -> None:
    pooled = advice_on(BLOATED).pooled
    assert pooled.advised is not None
    assert pooled.advised.name in ("bbr", "gr")
    assert pooled.today is not None
    assert pooled.change is not None
    assert pooled.today.delay_ms.value > 300  # 250 packets of 12 kbit at 3 Mbit/s take 1 s
    assert pooled.candidates[pooled.advised.name].delay_ms.value < 105
    assert pooled.change.score.low > pooled.required
    assert answer(pooled, target_ms=100)[0].startswith(f"Use {pooled.advised.with_settings} instead of CUBIC")
    assert pooled.beside is not None


def test_behind_a_policer_bbr_is_replaced_by_r_tcp_and_the_commands_enable_it() -> None:
    advice = advice_on(POLICED)
    pooled = advice.pooled
    assert pooled.limited == 1
    assert pooled.advised == BY_NAME["rtcp_bbr"]
    assert pooled.change is not None
    assert pooled.change.retransmitted.high < 0
    commands = [command for step in steps(pooled, advice.candidates, advice.links, serial=1)
                for command in step.commands]  # fmt: skip
    assert "ccatune-agent enable rtcp_bbr" in commands
    assert "tc qdisc replace dev DEVICE root fq maxrate 1900kbit" in commands
    assert any("from 1.9 to 2.5 Mbit/s" in one for one in seen_sentences(advice, advice.links))


def test_too_few_seconds_give_no_advice_and_say_how_many_are_required() -> None:
    advice = advice_on(replace(BLOATED, seconds=LEAST_SECONDS / 2))
    assert (advice.pooled.advised, advice.pooled.reason, advice.runs) == (None, "few", 0)
    assert "2.5 s in all, and at least 5 s" in answer(advice.pooled, target_ms=100)[0]
    assert not steps(advice.pooled, advice.candidates, advice.links, serial=1)


def test_no_advice_rests_on_a_simulation_that_the_flow_contradicts() -> None:
    today = advice_on(BLOATED).pooled.today
    assert today is not None
    own = Measured(today.throughput_mbps.value, today.delay_ms.value, today.retransmitted.value)
    others = [replace(own, throughput_mbps=own.throughput_mbps / 2), replace(own, delay_ms=10.0),
              replace(own, lost=0.2)]  # fmt: skip
    differs = [contradicts(one, today, target_ms=100) for one in (None, own, replace(own, delay_ms=5000.0), *others)]
    assert differs == [False, False, False, True, True, True]
    found = advice_on(replace(BLOATED, measured=others[0])).pooled
    assert (found.advised, found.reason) == (None, "measured")
    assert "does not agree with the flows" in answer(found, target_ms=100)[0]
    assert advice_on(replace(BLOATED, measured=others[0]), current="bbr").pooled.reason == "equal"


def test_an_algorithm_that_none_beats_is_kept() -> None:
    pooled = advice_on(BLOATED, current="bbr").pooled
    assert (pooled.advised, pooled.reason) == (None, "equal")
    assert answer(pooled, target_ms=100)[0] == "No advice to change: keep BBRv1."


def test_each_link_counts_by_its_seconds_and_with_the_algorithm_of_its_flow() -> None:
    links = (BLOATED, replace(BLOATED, name="other", algorithm="bbr", seconds=90))
    pooled = advice_on(*links).pooled
    assert pooled.algorithms == {"bbr": 0.75, "cubic": 0.25}
    cubic, bbr = (pooled.candidates[name].score.value for name in ("cubic", "bbr"))
    assert pooled.today is not None
    assert pooled.today.score.value == pytest.approx(0.25 * cubic + 0.75 * bbr, rel=0.05)


def test_states_with_few_links_are_left_out_and_the_others_have_their_own_advice() -> None:
    same = [replace(BLOATED, name=f"link {n}") for n in range(3)]
    advice = advice_on(*same, POLICED)
    assert [one.name for one in advice.states] == ["1 to 4 Mbit/s, 40 to 80 ms"]
    assert [one.name for one in advice.left_out] == ["policed to 1 to 4 Mbit/s, 40 to 80 ms"]
    assert advice.pooled.flows == 4


def test_the_score_is_the_used_share_less_for_late_and_for_retransmitted_packets() -> None:
    used, delay_ms, retransmitted = np.array([0.9, 0.9, 0.9]), np.array([50.0, 200.0, 100.0]), np.array([0, 0, 0.1])
    assert score_of(used, delay_ms, retransmitted, target_ms=100).tolist() == pytest.approx([0.9, 0.45, 0.72])


def test_what_was_never_compared_with_a_kernel_needs_a_margin() -> None:
    bbr, bbr3 = BY_NAME["bbr"], BY_NAME["bbr3"]
    assert chosen_of({bbr: 0.90, bbr3: 0.90 * (1 + UNVALIDATED_ERROR)}, limited=0) is bbr
    assert chosen_of({bbr: 0.80, bbr3: 0.95}, limited=0) is bbr3


def test_behind_a_policer_only_gains_that_kernels_confirm_are_believed() -> None:
    assert gain_error("roccet", "bbr", limited=1) > 0.2 > gain_error("roccet", "bbr", limited=0)
    assert gain_error("rtcp_bbr", "bbr", limited=1) == 0
    roccet, cubic = BY_NAME["roccet"], BY_NAME["cubic"]
    assert chosen_of({cubic: 0.90, roccet: 0.95}, limited=1) is cubic
    assert chosen_of({cubic: 0.90, roccet: 0.95}, limited=0) is roccet


def test_gr_s_table_has_the_target_and_stays_within_the_ranges_of_its_parameters() -> None:
    assert row_of(100)["delay_threshold_us"] == 80_000
    for target_ms in (LEAST_TARGET_MS, MOST_TARGET_MS):
        for name, value in row_of(target_ms).items():
            spec = ALGORITHMS["gr"].param(name)
            assert spec.minimum <= value <= spec.maximum
    assert "classes 95:70500" in candidates_of(70.5)[2].table_text(7).splitlines()


def test_variants_imitate_what_a_flow_does_not_show() -> None:
    link = replace(BLOATED, buffer_pkts=50, buffer_is_known=False, ack_interval_ms=20)
    [variants] = scenarios_of([link], seed=1)
    buffers = [scenario.link.buffer_pkts or 0 for scenario in variants]
    assert 50 <= min(buffers) < 100 < max(buffers) <= 250  # what 3 Mbit/s carry in a second
    assert {scenario.link.acks.interval_ms for scenario in variants} == {None, 20}
    assert scenarios_of([link], seed=1) == [variants]
    assert scenarios_of([link], seed=2) != [variants]
    [fast] = scenarios_of([replace(link, rate_mbps=1000)], seed=1, most_packets=1e6)
    assert {scenario.duration_s for scenario in fast} == {10.0}


def test_a_limit_bounds_what_a_link_can_carry() -> None:
    [variants] = scenarios_of([POLICED], seed=1)
    assert POLICED.capacity_bytes(variants[0]) == 300_000 + 2e6 / 8 * variants[0].duration_s
