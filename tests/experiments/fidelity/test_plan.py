# SPDX-License-Identifier: MIT
"""What a campaign is made of: scenarios, algorithms, buffers in bandwidth-delay products, pieces of recordings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from emulation.errors import EmulationError
from emulation.scenario.path import Policer
from experiments.fidelity.plan import DEFAULT_PLAN, Case, Pieces, Plan, cases_of, load_plan

from .conftest import PLAN

Choose = Callable[..., list[Case]]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def keys(cases: list[Case]) -> list[str]:
    return [case.key for case in cases]


def test_a_case_is_a_scenario_with_an_algorithm_on_its_runner(choose: Choose) -> None:
    cases = choose()
    assert [(case.key, case.runner) for case in cases] == [
        ("slow/cubic", "mahimahi"),
        ("slow/reno", "mahimahi"),
        ("slow/gr", "vm"),
        ("fast/cubic", "mahimahi"),
    ]
    assert [case.scenario.flows[0].cca for case in cases if case.scenario] == ["cubic", "reno", "gr", "cubic"]


@pytest.mark.parametrize(("products", "pkts"), [("2", 17), ("0.01", 2)])
def test_a_buffer_is_told_in_bandwidth_delay_products_and_holds_two_packets_at_least(
    tmp_path: Path, products: str, pkts: int
) -> None:
    """2 x 2 Mbit/s x 50 ms = 25,000 bytes = 16.7 packets of 1500."""
    path = written(tmp_path, PLAN.replace("buffer_bdp: 2", f"buffer_bdp: {products}"))
    (case,) = cases_of(load_plan(path), source=path, pieces=Pieces(None), patterns=["slow/cubic"])
    assert case.scenario is not None
    assert case.scenario.link.buffer_pkts == pkts


def test_a_scenario_may_be_run_elsewhere_than_its_algorithms(tmp_path: Path) -> None:
    path = written(tmp_path, PLAN.replace("name: slow,", "name: slow, runner: mahimahi,"))
    cases = cases_of(load_plan(path), source=path, pieces=Pieces(None), runners=["mahimahi"])
    assert keys(cases) == ["slow/cubic", "slow/reno", "slow/gr", "fast/cubic"]


def test_reductions_name_algorithms_of_the_plan(tmp_path: Path) -> None:
    path = written(tmp_path, PLAN + "reductions: {reno: cubic}\n")
    assert load_plan(path).reductions == {"reno": "cubic"}
    path.write_text(PLAN + "reductions: {reno: cubic, gr: bbr}\n", encoding="utf-8")
    with pytest.raises(EmulationError, match=r"reductions: expected algorithms of the plan, got bbr"):
        load_plan(path)


@pytest.mark.parametrize("path", sorted(DEFAULT_PLAN.parent.glob("fidelity*.yaml")), ids=lambda path: path.stem)
def test_plans_of_the_repository_can_be_read(path: Path) -> None:
    plan = load_plan(path)
    assert set(plan.reductions) <= {cca for of in plan.algorithms.values() for cca in of}


def test_cases_are_chosen_by_a_part_of_their_name_or_a_pattern(choose: Choose) -> None:
    assert keys(choose("cubic")) == ["slow/cubic", "fast/cubic"]
    assert keys(choose("slow/*r?no")) == ["slow/reno"]
    assert keys(choose("fast", "reno")) == ["slow/reno", "fast/cubic"]
    assert keys(choose(runners=("vm",))) == ["slow/gr"]
    assert keys(choose("nothing")) == []


def test_a_whole_name_means_that_case_alone(tmp_path: Path) -> None:
    path = written(tmp_path, PLAN.replace("name: fast", "name: not-slow").replace("fast/", "not-slow/"))

    def chosen(pattern: str) -> list[str]:
        return keys(cases_of(load_plan(path), source=path, pieces=Pieces(None), patterns=[pattern]))

    assert chosen("slow/cubic") == ["slow/cubic"]
    assert chosen("low/cubic") == ["slow/cubic", "not-slow/cubic"]


def test_the_short_version_takes_less_time(tmp_path: Path) -> None:
    path = written(tmp_path, PLAN.replace("name: fast,", "name: fast, times: 4,"))
    (case,) = cases_of(load_plan(path), source=path, pieces=Pieces(None), short=True)
    assert case.key == "fast/cubic"
    assert case.scenario is not None
    assert case.scenario.duration_s == 1
    assert case.times == 1


def test_the_guest_has_shorter_and_fewer_runs_where_the_plan_says_so(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    often = PLAN.replace("buffer_bdp: 2}}", "buffer_bdp: 2}, duration_s: 60, times: 4}")
    path.write_text(often + "guest: {longest_s: 15, times: 2}\n", encoding="utf-8")
    cases = cases_of(load_plan(path), source=path, pieces=Pieces(None), patterns=["slow"])
    assert [(case.key, case.scenario.duration_s, case.times) for case in cases if case.scenario] == [
        ("slow/cubic", 60, 4),
        ("slow/reno", 60, 4),
        ("slow/gr", 15, 2),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("slow/reno: {m", "slow/bbr: {m", "explanations: expected SCENARIO/ALGORITHM of this plan, got slow/bbr"),
        ("[fast/cubic]", "[fast/reno]", "short.cases: expected SCENARIO/ALGORITHM of this plan, got fast/reno"),
        ("name: fast", "name: slow", "expected each scenario once, got slow several times"),
        ("at_fault: emulation", "at_fault: weather", "explanations.slow/reno.at_fault"),
        ("runs: 2", "run: 2", "run: expected no such field"),
        ("vm: [gr]", "vm: [gr, reno]", "algorithms: expected each on one runner, got reno on both"),
        ("algorithms: [cubic]}", "algorithms: [bbr3]}", "fast.algorithms: expected those of the plan, got bbr3"),
        ("bdp: 2}", "bdp: 2, buffer_pkts: 9}", "slow.link: expected one of buffer_bdp and buffer_pkts"),
        ("metrics: [throughput], ", "", "explanations.slow/reno.metrics: expected it, got nothing"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in PLAN
    path = written(tmp_path, PLAN.replace(old, new))
    with pytest.raises(EmulationError, match=words.replace("[", r"\[")) as refused:
        load_plan(path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("{rate_mbps: 2, rtt_ms: 50, buffer_bdp: 0}", "link.buffer_bdp: expected a number above 0"),
        ("{steps: [{at_s: 0, rate_mbps: 1}], buffer_bdp: 1}", "expected rate_mbps or a trace beside it"),
        ("{rate_mbps: 2, rtt: 50}", "link.rtt: expected one of"),
        ("{recorded: x}", "slow.link.recorded: "),
        ("{recorded: {dataset: x}}", "slow.link.recorded: recording: expected it, got nothing"),
    ],
)
def test_a_scenario_that_is_none_is_refused_by_name(tmp_path: Path, link: str, words: str) -> None:
    path = written(tmp_path, PLAN.replace("{rate_mbps: 2, rtt_ms: 50, buffer_bdp: 2}", link))
    with pytest.raises(EmulationError, match=words):
        cases_of(load_plan(path), source=path, pieces=Pieces(None))


def write_recording(folder: Path) -> None:
    """A packet each 4 ms (3 Mbit/s) for 60 s."""
    (folder / "links").mkdir(parents=True)
    times = "".join(f"{at_ms}\n" for at_ms in range(4, 60_001, 4))
    (folder / "links" / "drive.down").write_text(times, encoding="ascii")


def recorded_plan(tmp_path: Path, *, start_s: float) -> tuple[Plan, Path]:
    path = tmp_path / "plan.yaml"
    piece = f"{{recorded: {{dataset: links, recording: drive, start_s: {start_s}}}, rtt_ms: 40, buffer_bdp: 1}}"
    path.write_text(PLAN.replace("{rate_mbps: 2, rtt_ms: 50, buffer_bdp: 2}", piece), encoding="utf-8")
    return load_plan(path), path


def test_a_piece_of_a_recording_is_cut_and_its_dataset_read_once(tmp_path: Path) -> None:
    write_recording(tmp_path / "traces")
    plan, path = recorded_plan(tmp_path, start_s=10)
    read: list[str] = []
    pieces = Pieces(tmp_path / "traces", progress=read.append)
    for _ in range(2):
        (case,) = cases_of(plan, source=path, pieces=pieces, patterns=["slow/cubic"])
        assert case.scenario is not None
        assert case.scenario.link.trace is not None
        assert np.array_equal(case.scenario.link.trace.opportunities_ms, np.arange(0, 7000, 4))
        # 3 Mbit/s x 40 ms = 10 packets.
        assert case.scenario.link.buffer_pkts == 10
    assert read == ["links"]


def test_a_piece_beyond_the_end_is_refused(tmp_path: Path) -> None:
    write_recording(tmp_path / "traces")
    plan, path = recorded_plan(tmp_path, start_s=58)
    with pytest.raises(EmulationError, match="expected a piece within 0 to 60000 ms"):
        cases_of(plan, source=path, pieces=Pieces(tmp_path / "traces"))


@pytest.mark.parametrize(("folder", "words"), [(None, "no recorded traces"), ("traces", "no dataset links")])
def test_without_the_recording_a_case_lacks_it(tmp_path: Path, folder: str | None, words: str) -> None:
    (tmp_path / "traces" / "others").mkdir(parents=True)
    (tmp_path / "traces" / "others" / "a.down").write_text("1\n2\n", encoding="ascii")
    plan, path = recorded_plan(tmp_path, start_s=0)
    source = None if folder is None else tmp_path / folder
    (case,) = cases_of(plan, source=path, pieces=Pieces(source), patterns=["slow/cubic"])
    assert case.scenario is None
    assert words in case.lacks


def test_the_plan_that_comes_along_holds_what_the_papers_use() -> None:
    plan = load_plan(DEFAULT_PLAN)
    cases = cases_of(plan, source=DEFAULT_PLAN, pieces=Pieces(None))
    assert len(plan.scenarios) >= 24
    assert plan.runs >= 3
    assert {case.cca for case in cases} == {"cubic", "bbr", "reno", "gr"}
    links = [case.scenario.link for case in cases if case.scenario is not None]
    assert {link.rate_mbps for link in links} >= {1, 5, 20, 50}
    assert {link.rtt_ms for link in links} >= {20, 50, 100}
    assert {link.loss for link in links} == {0, 0.001, 0.01}
    assert 1000 in {link.buffer_pkts for link in links}
    buckets = {(e.rate_mbps, e.bucket_bytes) for link in links for e in link.behind if isinstance(e, Policer)}
    # R-TCP 2026, Table 1: estimated R and B, medians of operators 1 to 3.
    assert buckets == {(2.07, 733_000), (1.3, 385_000), (1.04, 223_000)}
    assert any(flow.transfers for case in cases if case.scenario for flow in case.scenario.flows)
    datasets = {s.link["recorded"]["dataset"].split("-")[1] for s in plan.scenarios if "recorded" in s.link}
    assert datasets == {"4g", "3g", "mobile"}


def test_the_short_version_fits_into_four_minutes_even_with_one_run_at_a_time() -> None:
    plan = load_plan(DEFAULT_PLAN)
    cases = cases_of(plan, source=DEFAULT_PLAN, pieces=Pieces(None), short=True)
    # Programs start before a run's time and end behind it.
    around_s = 5
    lasts_s = [case.scenario.duration_s + around_s for case in cases if case.scenario is not None]
    assert len(lasts_s) == len(plan.short.cases)
    assert plan.short.runs * sum(lasts_s) <= 240
