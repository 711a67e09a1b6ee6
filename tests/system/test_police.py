# SPDX-License-Identifier: MIT
"""What files behind a police action are held against (tests/prove/police.py); the guest itself runs in `claims 24`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from experiments.fidelity.plan import Case, Pieces, Plan, cases_of, load_plan
from tests.prove import police
from tests.prove.police import (
    Sent,
    Sides,
    booted,
    is_over,
    path_of_guest,
    reductions,
    run_of,
    simulated,
    with_another_limiter,
)


@pytest.fixture
def plan() -> Plan:
    return load_plan(police.PLAN)


@pytest.fixture
def cases(plan: Plan) -> list[Case]:
    return cases_of(plan, source=police.PLAN, pieces=Pieces(None))


def test_the_guest_is_told_each_case_of_the_plan(cases: list[Case]) -> None:
    runs = {run["case"]: run for run in map(run_of, cases)}
    assert len(runs) == 30
    assert runs["op2-8mb/bbr"] == {
        "case": "op2-8mb/bbr",
        "kernel_cca": "bbr",
        "rate_mbps": 50,
        "rtt_ms": 18,
        "buffer_pkts": 1000,
        "limit_mbps": 1.3,
        "bucket_bytes": 385_000,
        "size_bytes": 8_000_000,
    }


def test_seeds_of_an_algorithm_without_chance_differ_by_the_guests_jitter(cases: list[Case]) -> None:
    (case,) = (case for case in cases if case.key == "op3-4mb/cubic")
    assert case.scenario is not None
    kinds = [element.kind for element in path_of_guest(case.scenario).link.behind]
    assert kinds == ["shaper", "policer", "jitter"]
    sent = simulated(case.scenario, seeds=4)
    assert len({each.resent for each in sent}) > 1
    assert all(0.1 < each.resent < 0.4 for each in sent)
    # (2763 packets of 1500 bytes - 223,000 bytes) / 1.04 Mbit/s
    assert all(each.seconds == pytest.approx(30.17, abs=0.15) for each in sent)


@pytest.mark.parametrize(("kernel_s", "simulator_s", "said"), [(30.2, 30.2, 0), (29.9, 29.9, 1), (30.2, 30.5, 1)])
def test_a_file_that_beats_the_limiter_or_the_other_side_has_met_another_one(
    cases: list[Case], kernel_s: float, simulator_s: float, said: int
) -> None:
    (case,) = (case for case in cases if case.key == "op3-4mb/cubic")
    sides = {case.key: Sides([Sent(0.2, kernel_s)], [Sent(0.2, simulator_s)])}
    assert len(with_another_limiter([case], sides)) == said


@pytest.mark.parametrize(("kernel", "agrees"), [((0.10, 0.11, 0.30), True), ((0.03, 0.04, 0.11), False)])
def test_a_reduction_agrees_where_the_kernels_median_lies_among_the_seeds(
    plan: Plan, cases: list[Case], kernel: tuple[float, ...], agrees: bool
) -> None:
    sides = {case.key: Sides([Sent(0.2, 1.0)] * 3, [Sent(0.2, 1.0)] * 2) for case in cases}
    sides["op1-4mb/rtcp_bbr"] = Sides([Sent(rate, 1.0) for rate in kernel], [Sent(0.10, 1.0), Sent(0.12, 1.0)])
    found = {(each.scenario, each.cca): each for each in reductions(plan, cases, sides)}
    assert len(found) == 12
    its = found["op1-4mb", "rtcp_bbr"]
    assert its.base == "bbr"
    assert its.agrees is agrees
    assert its.real.median == pytest.approx(1 - kernel[1] / 0.2)


def test_a_boot_is_taken_for_over_when_it_was_told_the_same_and_ended(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text("told")
    assert not is_over(tmp_path, "told")
    (tmp_path / police.LOG).write_text("[]")
    assert is_over(tmp_path, "told")
    assert not is_over(tmp_path, "something else")


@pytest.mark.parametrize(
    ("acked_bytes", "said", "told"),
    [
        (4_000_001, "clocksource: of no interest", ""),
        (3_999_999, "clocksource: of no interest", "expected 4000000 bytes acknowledged"),
        (4_000_001, "WARNING: at net/ipv4/tcp.c", "nothing in its log"),
    ],
)
def test_a_boot_counts_where_its_file_arrived_and_its_log_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acked_bytes: int, said: str, told: str
) -> None:
    run = {"case": "op1-4mb/cubic", "size_bytes": 4_000_000}
    result = {"case": run["case"], "acked_bytes": acked_bytes, "resent_pkts": 5, "sent_pkts": 100, "seconds": 3.0}

    def pretend(line: str, folder: Path, *, cases: int) -> None:
        del line, cases
        (folder / police.RESULTS).write_text(json.dumps(result) + "\n")
        (folder / police.LOG).write_text(json.dumps([said]))

    monkeypatch.setattr(police, "boot_guest", pretend)
    monkeypatch.setattr(police, "build_modules", lambda _line: SimpleNamespace(paths={}))
    if told:
        with pytest.raises(click.ClickException, match=told):
            booted("6.12", [run], folder=tmp_path / "boot")
    else:
        assert booted("6.12", [run], folder=tmp_path / "boot") == {run["case"]: Sent(0.05, 3.0)}
    # What is not taken runs anew.
    assert (tmp_path / "boot" / police.LOG).exists() is not bool(told)


@pytest.mark.parametrize(
    ("only", "said"),
    [("op1-4mb/rtcp_cubic", "with the one it stands on"), ("op9", "expected scenarios or cases of fidelity-rtcp.yaml")],
)
def test_what_leaves_nothing_to_compare_is_refused_before_a_boot(only: str, said: str) -> None:
    result = CliRunner().invoke(police.main, ["--only", only])
    assert result.exit_code == 2
    assert said in result.output
