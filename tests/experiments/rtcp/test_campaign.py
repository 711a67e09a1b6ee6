# SPDX-License-Identifier: MIT
"""The campaign on a small scale, and its settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from emulation import EmulationError
from emulation.run.simulator import simulate
from emulation.scenario.model import LinkSpec, Scenario
from emulation.scenario.path import GilbertElliott, Policer, SteppedPolicer
from emulation.traces import Recording, Trace
from experiments.campaign import Case, Links, Results, Store, judge
from experiments.command import run_parts
from experiments.rtcp import RTCP, estimates, sensitivity
from experiments.rtcp.cells import PAIRS, Cell, RtcpResults
from experiments.rtcp.detection import map_table
from experiments.rtcp.disturbed import paths_table
from experiments.rtcp.fairness import EVERY_S, shared, two_files
from experiments.rtcp.files import files_table
from experiments.rtcp.probing import probing_table
from experiments.rtcp.settings import Baseline, Map, Policing, Probing, RtcpSettings, load_settings
from experiments.rtcp.several import concurrent_table, second_table
from tests.figures import is_inside

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "rtcp.yaml"
SMALL_PROBING = Probing(
    limited=("op3",), size_bytes=1_000_000, every_rounds=(15, 25), gains_permille=(100, 250), runs=5
)
SMALL_DISTURBED = load_settings(CONFIG).disturbed.model_copy(
    update={"runs": 2, "download_s": 8, "paths": {"plain": {}, "acks10": {"acks": {"interval_ms": 10}}}}
)
SMALL = {
    "disturbed": SMALL_DISTURBED,
    "probing": SMALL_PROBING,
    "baseline": Baseline(runs=4),
    "seeds": 5,
    "runs": 4,
    "sizes_bytes": (500_000, 1_000_000, 4_000_000),
    "download_s": 8,
    "policing": Policing(longer_rtts_ms=(40, 120), seeds=5),
}
# 3 x 3 algorithms x sizes; patterns and losses x 6 algorithms; operators x (3 ABRs and short videos) x 6 algorithms
CLIENT_PARTS = 9 * 7 + 2 * 6 + 2 * 6 + 3 * (3 + 1) * 6
PROBING = {"limited": ["op2"], "size_bytes": 10**6, "every_rounds": [15, 20], "gains_permille": [100, 200], "runs": 5}
SMALL_MAP = Map(rates_mbps=(2, 20), buckets_bytes=(16_000, 500_000), rtt_ms=40, runs=1)


def settings(**changes: object) -> RtcpSettings:
    return load_settings(CONFIG).model_copy(update={"map": SMALL_MAP, **SMALL, **changes})


def checked(**changes: object) -> RtcpSettings:
    return RtcpSettings.model_validate({**load_settings(CONFIG).model_dump(), **changes})


def cases_of(chosen: RtcpSettings, links: Links, *names: str) -> dict[Cell, Case]:
    """The cases of these parts by their cells; all without names."""
    return {Cell(*case.key): case for part in RTCP.chosen(names) for case in part.cases(chosen, links)}


def scenarios_of(chosen: RtcpSettings, cell: Cell, recordings: Sequence[Recording] = ()) -> list[Scenario]:
    links = Links(dict.fromkeys(chosen.traced, recordings))
    return [*cases_of(chosen, links, cell.kind)[cell].scenarios()]


def run_cell(chosen: RtcpSettings, cell: Cell) -> dict[str, NDArray[np.float64]]:
    return Store().run([cases_of(chosen, Links(), cell.kind)[cell]])[cell]


def results_of(chosen: RtcpSettings, *names: str) -> RtcpResults:
    return run_parts(RTCP, RTCP.chosen(names), chosen)


def even(name: str, *, seconds: int, every_ms: int = 1) -> Recording:
    """A link of 12 Mbit/s."""
    times = np.arange(1, seconds * 1000 // every_ms + 1, dtype=np.uint32) * every_ms
    return Recording(name, "made", Trace(name, times, seconds * 1000), (), (name,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 4}, "expected at least 5, .*; got 4"),
        ({"sizes_bytes": [2_000_000, 1_000_000]}, "expected sizes_bytes ascending"),
        (
            {"patterns": {"pages": {"limited": "op9", "transfers": [{"size_bytes": 9}]}}},
            r"patterns.pages.limited among op1, op2, op3, got op9",
        ),
        ({"second": {"limited": "op4", "idle_s": 5}}, "second.limited among op1, op2, op3, got op4"),
        (
            {"concurrent": {"two": {"limited": "op9", "flows": [{"transfers": [{"size_bytes": 9}]}] * 2}}},
            r"concurrent.two.limited among op1, op2, op3, got op9",
        ),
        ({"concurrent": {"two": {"limited": "op1", "flows": [{"transfers": [{"size_bytes": 9}]}]}}}, "at least 2"),
        ({"limited": {}}, "at least 1 item"),
        ({"probing": {**PROBING, "limited": ["op4"]}}, "probing.limited among op1, op2, op3, got op4"),
        ({"probing": {**PROBING, "every_rounds": [20, 15]}}, "expected probing.every_rounds ascending"),
        ({"fairness": {"limited": "op1", "size_bytes": 4_000_000, "joins_s": 2}}, "greater than 5"),
        ({"unknown": 1}, "Extra inputs"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        checked(**changes)


def test_a_file_of_settings_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    text = CONFIG.read_text(encoding="utf-8")
    (tmp_path / "odd.yaml").write_text(text + "wide: 1\n", encoding="utf-8")
    with pytest.raises(EmulationError, match=r"odd\.yaml: wide: expected one of seeds, .*, video, got 1"):
        load_settings(tmp_path / "odd.yaml")
    (tmp_path / "deep.yaml").write_text(text.replace("to_bad", "to_worse"), encoding="utf-8")
    with pytest.raises(EmulationError, match=r"deep\.yaml: burst\.to_bad: expected it, got nothing"):
        load_settings(tmp_path / "deep.yaml")


def test_the_documents_table_is_of_this_engine() -> None:
    """The columns of small files. `python -m experiments rtcp --only files --seeds 20 --markdown` prints it anew."""
    document = (CONFIG.parents[2] / "docs" / "rtcp.md").read_text(encoding="utf-8")
    small = load_settings(CONFIG).model_copy(update={"seeds": 20, "sizes_bytes": (500_000, 1_000_000)})
    rows = files_table(results_of(small, "files"))[2:]
    written = [line for line in document.splitlines() if line.startswith("| op") and " > " in line]
    assert [cells(line)[:4] for line in written] == [cells(row) for row in rows]


def test_the_documents_table_of_probes_is_of_this_engine() -> None:
    """The paper's own setting. `python -m experiments rtcp --only probing --markdown` prints it anew."""
    document = (CONFIG.parents[2] / "docs" / "rtcp.md").read_text(encoding="utf-8")
    chosen = load_settings(CONFIG)
    probing = chosen.probing.model_copy(update={"every_rounds": (20,), "gains_permille": (200,)})
    one = chosen.model_copy(update={"probing": probing})
    row = probing_table(results_of(one, "probing"))[2]
    assert row.startswith("| 20 | 20 % | ")
    assert row in document.splitlines()


def cells(row: str) -> list[str]:
    return row.strip("| ").split(" | ")


def test_each_case_has_a_name_of_its_own() -> None:
    whole = load_settings(CONFIG)
    links = Links(dict.fromkeys(whole.traced, ()))
    names = [case.name for part in RTCP.parts for case in part.cases(whole, links)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in names)
    # 3 access rates x 4 RTTs x 3 algorithms x 7 sizes, and moments of BBRv1 at each RTT and of BBRv3 at one
    # 3 operators x 6 algorithms x 7 sizes; 2 detectors at 6 places, and without guards at one; 8 x 8; 2 x 3
    # 2 rules, 2 algorithms behind 2 operators, 3 eta x 4 gamma; 3 meetings; 2 algorithms at 6 places and 2 patterns
    # 6 algorithms over 2 losses x 6 rates x 5 round trips, and twice over 5 rates x 5 round trips
    # 3 algorithms on 27 paths over 3 links; 20 settings of 2 detectors at 5 places; 2 parts of 2 flows on 2 paths
    grids = 6 * 2 * 30 + 2 * 6 * 25 + 3 * 27 * 3 + 20 * 2 * 5 + 2 * 2 * 2 * 3
    assert len(names) == 3 * (84 + 5) + 126 + 2 * 7 + 64 + 6 + CLIENT_PARTS + grids + 2 * 2 * 2 * 12 + 3 + 14


def test_one_parameter_of_detection_differs_at_a_time() -> None:
    whole = load_settings(CONFIG)
    links = Links(dict.fromkeys(whole.traced, (even("even", seconds=60),)))
    flows = {case.key: case.scenarios()[0].flows[0] for case in sensitivity.cases(whole, links)}
    assert {place for _, place, *_ in flows} == {"op1", "op2", "op3", "op4", "op5"}
    for part, params in (
        ("default", {}),
        ("beta-400", {"trigger_loss_permille": 400}),
        ("omega-17", {"candidates": 17}),
    ):
        for place in ("op1", "op4"):
            assert flows[Cell("sensitivity", place, "rtcp_cubic", part)].params == params
    results = Results(whole, {key: {"limited": np.full(5, float(key[1] < "op4"))} for key in flows})
    rows = sensitivity.sensitivity_table(results)[2:]
    assert len(rows) == 24
    assert rows[4:6] == ["| alpha | 8 | 0.0 | 0.0 |", "| beta | 0.1 | 0.0 | 0.0 |"]


@pytest.mark.parametrize(("path", "share"), [("clean", 1.0), ("lossy", 0.9)])
def test_only_a_rate_of_bbrs_detector_counts_as_one(path: str, share: float) -> None:
    """The limiter passes R, of which the link loses a tenth. BBRv1 without its detector uses no such rate."""
    whole = settings()
    watching = scenarios_of(whole, Cell("detector", "op3", "rtcp_bbr", f"{path}-watching"))[0]
    rates = []
    for cca, params in (("rtcp_bbr", watching.flows[0].params), ("bbr", {}), ("bbr", {"long_term": 0})):
        flow = watching.flows[0].model_copy(update={"cca": cca, "params": params})
        run = simulate(watching.model_copy(update={"flows": (flow,)}), series_every_s=estimates.EVERY_S)
        rates.append(estimates.of_detector(whole.limited["op3"], run))
    assert rates[0].tolist() == rates[1].tolist()  # a flow that observes sends the packets of BBRv1
    assert np.median(rates[1]) == pytest.approx(share, abs=0.05)
    assert len(rates[2]) == 0


def test_an_estimate_counts_from_its_time_on_while_the_client_is_limited() -> None:
    whole = settings()
    acting = scenarios_of(whole, Cell("detector", "op3", "rtcp_bbr", "clean-acting"))[0]
    assert acting.flows[0].params == {"act": 1, "probing": 1}
    run = simulate(acting, series_every_s=estimates.EVERY_S)
    found_mbps = estimates.of_rtcp(whole.limited["op3"], run) * whole.limited["op3"].rate_mbps
    limits = [limit for limit in run.flows[0].limits if limit.kind == "limited"]
    ends_s = run.flows[0].complete_s
    assert ends_s is not None
    assert len(found_mbps) == pytest.approx((ends_s - limits[0].at_ms / 1000) / estimates.EVERY_S, abs=2)
    wire_mbps = [limits[n].bytes_per_s * 8e-6 * 1500 / 1448 for n in (0, -1)]
    assert found_mbps[[0, -1]] == pytest.approx(wire_mbps)


def test_a_limited_flow_meets_its_operators_policer_first() -> None:
    for part in (Cell("files", "op2", "bbr", "1000000"), Cell("patterns", "chunks", "rtcp_bbr", "objects")):
        scenarios = scenarios_of(settings(), part)
        assert [scenario.seed for scenario in scenarios] == [0, 1, 2, 3, 4]
        assert {scenario.link.rate_mbps for scenario in scenarios} == {50}
        assert all(isinstance(scenario.link.before[0], Policer) for scenario in scenarios)
    downloads = scenarios_of(settings(), Cell("detection", "op1", "rtcp_bbr", "limited"))
    assert [scenario.link.rate_mbps for scenario in downloads] == [50, 20, 100, 50]


def test_a_second_connection_follows_the_first_and_may_know_nothing_of_it() -> None:
    known, apart = (scenarios_of(settings(), Cell("second", "op1", "rtcp_bbr", value))[1]
                    for value in ("4000000", "4000000-apart"))  # fmt: skip
    assert [(flow.size_bytes, flow.after, flow.start_s) for flow in known.flows] == [
        (4_000_000, None, 0), (4_000_000, 0, 5),
    ]  # fmt: skip
    assert (known.client_keep_s, apart.client_keep_s) == (600, 0)
    assert known.flows == apart.flows


def test_concurrent_connections_are_of_one_client_and_a_limit_is_lifted_while_data_flow() -> None:
    scenario = scenarios_of(settings(), Cell("concurrent", "joined", "rtcp_cubic", "objects"))[0]
    assert {flow.client for flow in scenario.flows} == {"client"}
    assert [len(flow.transfers) for flow in scenario.flows] == [1, 1, 1]
    assert scenario.link.rtt_ms == 18
    lift = scenarios_of(settings(), Cell("lifted", "limit", "bbr", "2"))[0]
    assert isinstance(lift.link.before[0], SteppedPolicer)
    assert (lift.link.loss, lift.warmup_s, lift.duration_s) == (0.02, 20, 30)


def test_a_limit_is_lifted_over_a_grid_and_ends_between_two_connections() -> None:
    lifts = scenarios_of(settings(), Cell("lifted", "0.512-20", "rtcp_bbr", "0"))
    policer = lifts[0].link.before[0]
    assert isinstance(policer, SteppedPolicer)
    assert [(step.at_s, step.rate_mbps) for step in policer.steps] == [(0, 0.512), (60, 40)]
    assert (len(lifts), lifts[0].link.rtt_ms, lifts[0].duration_s) == (10, 20, 120)
    freed = scenarios_of(settings(), Cell("freed", "1", "rtcp_bbr", "80"))[0]
    ends = freed.link.before[0]
    assert isinstance(ends, SteppedPolicer)
    assert (freed.flows[1].start_s, freed.flows[1].size_bytes) == (ends.steps[1].at_s, 8_000_000)
    assert ends.steps[1].rate_mbps > freed.link.rate_mbps
    assert freed.flows[0].client == freed.flows[1].client
    kept = scenarios_of(settings(), Cell("kept", "1", "rtcp_bbr", "80"))[0]
    assert isinstance(kept.link.before[0], Policer)
    assert kept.flows[1].size_bytes == kept.flows[0].size_bytes == freed.flows[0].size_bytes
    assert (kept.flows[1].after, kept.flows[1].start_s) == (0, 5)


def test_a_paced_flow_leaves_a_limit_of_512_kbps_at_20_ms_and_the_next_connection_is_free() -> None:
    """At R x RTT of a packet a probe has to last until it shows more than noise."""
    part = Cell("lifted", "0.512-20", "rtcp_bbr", "0")
    assert (run_cell(settings(), part)["regained_s"] < 12).all()
    freed = run_cell(settings(), Cell("freed", "0.128", "rtcp_bbr", "40"))
    assert (freed["goodput_mbps"] > 8 * 8 / (1.5 * 0.9 + 2)).all()


def test_the_papers_rules_are_those_of_each_flow_of_r_tcp() -> None:
    for rules, params in (("own", {}), ("paper", {"probing": 1})):
        chosen = settings(rules=rules)
        assert scenarios_of(chosen, Cell("files", "op1", "rtcp_bbr", "4000000"))[0].flows[0].params == params
        assert scenarios_of(chosen, Cell("files", "op1", "bbr", "4000000"))[0].flows[0].params == {}
    own = scenarios_of(settings(rules="paper"), Cell("probing", "op3", "rtcp_cubic", "15-250-own"))
    assert own[0].flows[0].params["probing"] == 0


def test_a_file_is_probed_as_its_cell_says_and_two_meet_behind_the_limit() -> None:
    scenarios = scenarios_of(settings(), Cell("probing", "op3", "rtcp_cubic", "15-250"))
    assert len(scenarios) == 5
    assert scenarios[0].flows[0].params == {"probe_every_rounds": 15, "probe_gain_permille": 250, "probing": 1}
    meeting = scenarios_of(settings(), Cell("fairness", "op1", "bbr", "rtcp_bbr"))[0]
    assert [(flow.cca, flow.start_s, flow.size_bytes) for flow in meeting.flows] == [
        ("bbr", 0, 4_000_000), ("rtcp_bbr", 10, 4_000_000),
    ]  # fmt: skip
    assert len({flow.client for flow in meeting.flows}) == 1


def test_another_detector_is_shown_the_unmodified_algorithms_in_the_same_scenarios() -> None:
    recordings = [even("a", seconds=30), even("b", seconds=10)]
    baseline = load_settings(CONFIG).baseline.model_copy(update={"runs": 16})
    for value, place, cca in (("limited", "op2", "cubic"), ("unlimited", "op4", "bbr")):
        ours = scenarios_of(settings(runs=16), Cell("detection", place, PAIRS[cca], value), recordings)
        theirs = scenarios_of(settings(baseline=baseline), Cell("baseline", place, cca, value), recordings)
        assert [s.link for s in theirs] == [s.link for s in ours]
        assert {flow.cca for s in theirs for flow in s.flows} == {cca}
    patterns = scenarios_of(settings(), Cell("baseline", "pages", "bbr", "objects"))
    assert patterns[0].flows[0].transfers == settings().patterns["pages"].transfers


def test_two_flows_of_known_rates_are_measured_alone_together_and_after() -> None:
    """Fixed windows of the bandwidth-delay product: the first flow has all of the link, then a half of it."""
    small = settings(fairness=load_settings(CONFIG).fairness.model_copy(update={"size_bytes": 20_000_000}))
    link = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=1000)
    scenario = two_files(small, "bbr", "bbr", 0).model_copy(update={"link": link})
    fixed = tuple(flow.model_copy(update={"cca": "fixed", "params": {"cwnd_pkts": 60}}) for flow in scenario.flows)
    scenario = scenario.model_copy(update={"flows": fixed})
    found = shared(small, scenario, simulate(scenario, series_every_s=EVERY_S))
    assert found["alone_mbps"] == pytest.approx(12, rel=0.01)
    assert found["first_mbps"] == pytest.approx(6, rel=0.02)
    assert found["second_mbps"] == pytest.approx(6, rel=0.02)
    assert found["after_mbps"] == pytest.approx(12, rel=0.01)
    # 20 MB of payload are 20.7 MB: 15 MB in the first 10 s, the rest at half the link
    assert found["both_s"] == pytest.approx((20.72e6 - 15e6) * 8 / 6e6, rel=0.05)
    assert found["found_s"] is None


def test_runs_without_a_limit_are_spread_over_recorded_time_and_take_all_buffers() -> None:
    recordings = [even("a", seconds=30), even("b", seconds=10)]
    part = Cell("detection", "op4", "rtcp_bbr", "unlimited")
    scenarios = scenarios_of(settings(runs=16), part, recordings)
    assert [(s.link.trace.name, s.link.start_ms) for s in scenarios if s.link.trace is not None][11:14] == [
        ("a", 27_500), ("b", 0), ("b", 2500),
    ]  # fmt: skip
    assert [scenario.link.buffer_pkts for scenario in scenarios[:4]] == [30, 100, 300, 1000]
    lossy = [any(isinstance(element, GilbertElliott) for element in s.link.behind) for s in scenarios]
    assert lossy == ([False] * 4 + [True] * 4) * 2
    assert scenarios_of(settings(), part, recordings)[0].flows[0].params == {}
    eager = scenarios_of(settings(), Cell("detection", "op4m", "rtcp_bbr", "eager"), recordings)
    assert eager[0].flows[0].params["trigger_rounds"] == 1
    disturbed = scenarios_of(settings(), Cell("disturbed", "3g", "rtcp_bbr3", "acks10"), recordings)
    assert [(s.link.start_ms, s.link.acks.interval_ms) for s in disturbed] == [(10_000, 10), (0, 10)]


def test_a_small_campaign_is_judged_drawn_and_tabled() -> None:
    whole = settings()
    few = {"rates_mbps": (0.512,), "rtts_ms": (20, 80), "runs": 5, "for_s": 30}
    grid = whole.lifted.grid.model_copy(update=few)
    freed = whole.freed.model_copy(update={"rates_mbps": (0.512,), "rtts_ms": (20, 80)})
    small = settings(lifted=whole.lifted.model_copy(update={"grid": grid}), freed=freed)
    recordings = [even("a", seconds=30)]
    campaign = replace(RTCP, links=lambda _settings, _paths: Links(dict.fromkeys(small.traced, recordings)))
    elsewhere = {"policing", "shorts", "sensitivity"}  # test_policing.py, test_shorts.py; and below
    chosen = [part for part in campaign.parts if part.name not in elsewhere]
    results = run_parts(campaign, chosen, small)
    rows = {row["statement"]: row for row in judge(campaign, chosen, results)}
    # A bucket that holds the file loses nothing; a limit is found; an even link is none.
    assert all(rows[name]["agrees"] for name in ("6.1-6", "6.1-9", "6.1-10", "6.1-11", "K-7", "P-4", "P-6"))
    assert all(figure["mean"] == 0 for name in ("K-1", "K-2", "K-3", "issue-3") for figure in rows[name]["figures"])
    for plain, capped in PAIRS.items():
        rates = [results.get(Cell("files", "op1", cca, "4000000"), "retransmission_rate") for cca in (plain, capped)]
        assert rates[1].mean() < rates[0].mean()
    baseline = Cell("baseline", "op2", "cubic", "limited")
    policed = results.get(baseline, "policed") == 1
    assert policed.any()
    assert results.get(baseline, "policer_mbps")[policed] == pytest.approx(1.3, rel=0.01)
    assert second_table(results)[2].startswith("| CUBIC | 0.0 > 0.0 > 0.0 | ")
    assert estimates.estimates_table(results)[7].startswith("| held | op3 | ")
    assert concurrent_table(results)[0] == "| algorithm | parallel | joined |"
    assert [row.split(" | ")[:2] for row in probing_table(results)[2:4]] == [["| 15", "10 %"], ["| 15", "25 %"]]
    head, rule, *lines = files_table(results)
    assert head == "| operator | algorithm | 0.5 MB | 1 | 4 |"
    assert rule == "| --- | --- | --- | --- | --- |"
    assert lines[0].startswith("| op1 | CUBIC | 0.0 > 0.0 | ")
    assert len(lines) == 9
    assert paths_table(results)[2:] == [f"| {path} |" + 3 * " 0, 0 of 6 |" for path in ("plain", "acks10")]
    found = map_table(results)
    assert found[0] == "| R, Mbit/s | B 16 kB | 500 |"
    assert [line.split(" | ")[0] for line in found[2:]] == ["| 2", "| 20"]
    assert campaign.draw is not None
    assert is_inside(campaign.draw(results))
