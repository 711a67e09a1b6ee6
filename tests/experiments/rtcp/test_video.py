# SPDX-License-Identifier: MIT
"""Videos of the campaign: what is run, and how it is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from emulation.run.simulator import simulate
from emulation.scenario.model import Scenario
from emulation.scenario.path import Policer
from experiments.campaign import Results, Store
from experiments.command import run_parts
from experiments.rtcp import RTCP
from experiments.rtcp.cells import Cell, RtcpResults
from experiments.rtcp.settings import RtcpSettings, load_settings
from experiments.rtcp.video import cases, cell, kept_qoe, reduced_by, video_table, watched

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "rtcp.yaml"
PART = Cell("video", "op2", "rtcp_bbr", "robust-mpc")


def settings(**changes: object) -> RtcpSettings:
    found = load_settings(CONFIG)
    return found.model_copy(update={"seeds": 5, "video": found.video.model_copy(update=changes)})


def scenarios_of(chosen: RtcpSettings, cell: Cell) -> list[Scenario]:
    return [*next(case for case in cases(chosen) if case.key == cell).scenarios()]


def test_sessions_follow_each_other_on_connections_of_their_own() -> None:
    scenarios = scenarios_of(settings(), PART)
    assert [scenario.seed for scenario in scenarios] == [0, 1, 2, 3, 4]
    for scenario in scenarios:
        assert isinstance(scenario.link.before[0], Policer)
        assert [(flow.after, flow.start_s) for flow in scenario.flows] == [(None, 0), (0, 5)]
        assert {flow.video.abr for flow in scenario.flows if flow.video} == {"robust-mpc"}
        assert scenario.client_keep_s == 600


def test_bola_plays_over_three_connections_in_turn() -> None:
    (scenario, *_) = scenarios_of(settings(), Cell("video", "op2", "rtcp_bbr", "bola"))
    assert [(flow.after, flow.start_s, flow.video_of) for flow in scenario.flows] == [
        (None, 0, None), (None, 0, 0), (None, 0, 0), (0, 5, None), (None, 0, 3), (None, 0, 3),
    ]  # fmt: skip
    row = watched(simulate(scenario))
    sent = {n: [flow.retransmission_rate for flow in simulate(scenario).flows[n : n + 3]] for n in (0, 3)}
    for name, first in (("first", 0), ("later", 3)):
        rate = row[f"{name}_retransmission_rate"]
        assert rate is not None
        assert min(sent[first]) < rate < max(sent[first])


def test_sizes_are_spread_by_seed_and_the_same_for_every_algorithm_and_abr() -> None:
    def sizes(part: Cell) -> list[tuple[tuple[int, ...], ...]]:
        return [f.video.sizes_bytes for s in scenarios_of(settings(), part) for f in s.flows if f.video is not None]

    found = sizes(PART)
    assert len(set(found)) == 10
    assert sizes(Cell("video", "op2", "cubic", "bola")) == found
    nominal = np.reshape(load_settings(CONFIG).video.video.sizes, (12, 6))
    quotients = np.array(found) / nominal
    assert 0.8 <= quotients.min() < 0.85
    assert 1.15 < quotients.max() <= 1.2
    assert np.allclose(quotients, quotients[:, :, :1], atol=1e-5)
    assert set(scenarios_of(settings(spread=0.0), PART)[0].flows[0].video.sizes_bytes) == {tuple(nominal[0])}  # type: ignore[union-attr]


def test_settings_that_cannot_be_played_are_refused() -> None:
    whole = load_settings(CONFIG).model_dump()
    for change, message in (
        ({"sessions": 1}, "greater than or equal to 2"),
        ({"abrs": []}, "at least 1 item"),
        ({"video": {"bitrates_kbps": list(range(1, 11))}}, "at most 8 bitrates_kbps with abr robust-mpc"),
    ):
        with pytest.raises(ValidationError, match=message):
            RtcpSettings.model_validate({**whole, "video": {**whole["video"], **change}})


def test_a_cell_has_what_the_viewer_got() -> None:
    (case,) = (case for case in cases(settings()) if case.key == PART)
    found, again = (Store(threads=threads).run([case])[PART] for threads in (2, 1))
    assert all(np.array_equal(found[name], again[name], equal_nan=True) for name in found)
    assert found["complete"].tolist() == [1.0] * 5
    assert found["qoe"] == pytest.approx((found["first_qoe"] + found["later_qoe"]) / 2)
    first, middle, later = (found[f"{which}retransmission_rate"] for which in ("first_", "", "later_"))
    assert (np.minimum(first, later) <= middle).all()
    assert (middle <= np.maximum(first, later)).all()


COLUMNS = ("retransmission_rate", "first_retransmission_rate", "later_retransmission_rate", "qoe", "startup_s",
           "rebuffer_s", "mean_kbps")  # fmt: skip


def made(**cells: float) -> RtcpResults:
    """Every cell as given by "cca column", or 0.1."""
    small = settings()
    found = {
        case.key: {name: np.full(5, cells.get(f"{case.key[2]} {name}", 0.1)) for name in COLUMNS}
        for case in cases(small)
    }
    return Results(small, found)


def test_reductions_and_qoe_are_means_over_operators_and_abrs() -> None:
    results = made(**{"rtcp_cubic retransmission_rate": 0.06, "rtcp_cubic qoe": 0.098})
    mean, *cells = reduced_by(("cubic", "rtcp_cubic"), 0.28)(results)
    assert (mean.mean, mean.agrees) == (pytest.approx(0.4), True)
    assert [figure.label for figure in cells] == [f"{op} {abr}" for op in ("op1", "op2", "op3")
                                                  for abr in ("bola", "robust-mpc", "fast-mpc")]  # fmt: skip
    assert not reduced_by(("cubic", "rtcp_cubic"), 0.41)(results)[0].agrees
    assert kept_qoe(("cubic", "rtcp_cubic"), 0.97)(results)[0].mean == pytest.approx(0.98)
    assert not kept_qoe(("cubic", "rtcp_cubic"), 0.99)(results)[0].agrees
    assert cell(results, "op1", "bola", "rtcp_cubic", "qoe").tolist() == [0.098] * 5
    files = Results(results.settings, {})
    assert reduced_by(("cubic", "rtcp_cubic"), 0.28)(files) == kept_qoe(("cubic", "rtcp_cubic"), 0.97)(files) == []


def test_a_qoe_below_nothing_is_still_compared() -> None:
    results = made(**{"bbr qoe": -1.0, "rtcp_bbr qoe": -0.5})
    assert [figure.mean for figure in kept_qoe(("bbr", "rtcp_bbr"), 0.97)(results)] == [pytest.approx(1.5)] * 13
    none = made(**{"bbr qoe": 0.0})
    assert not any(figure.agrees for figure in kept_qoe(("bbr", "rtcp_bbr"), 0.97)(none)[:4])


def test_qoe_is_asked_of_each_operator() -> None:
    results = made()
    part = Cell("video", "op3", "rtcp_bbr", "bola")
    results.cases[part]["qoe"] = np.full(5, 0.085)
    every, *operators = kept_qoe(("bbr", "rtcp_bbr"), 0.97)(results)[:4]
    assert (every.mean, every.agrees) == (pytest.approx(177 / 180), True)
    assert [(figure.label, figure.agrees) for figure in operators] == [("op1", True), ("op2", True), ("op3", False)]
    assert operators[2].mean == pytest.approx(0.95)


def test_the_documents_table_is_of_this_engine() -> None:
    """Its rows of one operator and ABR. `python -m experiments rtcp --only video --markdown` prints it anew."""
    document = (CONFIG.parents[2] / "docs" / "rtcp.md").read_text(encoding="utf-8")
    whole = load_settings(CONFIG)
    watched = whole.video.model_copy(update={"abrs": ("bola",)})
    small = whole.model_copy(update={"limited": {"op3": whole.limited["op3"]}, "video": watched})
    rows = video_table(run_parts(RTCP, RTCP.chosen(["video"]), small))[2:]
    assert len(rows) == 3
    assert [line for line in document.splitlines() if line.startswith("| bola | op3 |")] == rows
