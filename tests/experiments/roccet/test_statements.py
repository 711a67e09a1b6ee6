# SPDX-License-Identifier: MIT
"""Statements on ROCCET judged on made figures, whose outcome is known."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from emulation.traces import Recording, Trace
from experiments.campaign import Key, Links, Results, Values, judge
from experiments.figures import sums_over
from experiments.roccet import ROCCET
from experiments.roccet.cases import KINDS, QUANTILES
from experiments.roccet.recorded import quantile_below, quantile_near
from experiments.roccet.settings import RoccetSettings, load_settings
from experiments.roccet.share import all_within

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "reports" / "roccet.yaml"
SEEDS, RUNS = 5, 6
SETTLED_WINDOW = {"roccet": (2.0, 0.4), "cubic": (9.6, 0.0), "cubic-hystart": (9.6, 0.0)}
RTT_AFTER = {"roccet": 50.0, "cubic": 400.0, "bbr": 90.0, "bbr3": 120.0, "held": 120.0}
RECORDED_RTT = {"roccet": 50.0, "cubic": 400.0, "bbr": 60.0, "bbr3": 62.0}
GOODPUT = {"roccet": 10.0, "cubic": 11.0, "bbr": 10.0, "bbr3": 10.5}


def settings() -> RoccetSettings:
    found = load_settings(CONFIG)
    links = {kind: {**getattr(found.recorded, kind).model_dump(), "runs": RUNS} for kind in ("stationary", "mobile")}
    return RoccetSettings.model_validate({
        **found.model_dump(), "seeds": SEEDS, "recorded": links,
        "halved": {**found.halved.model_dump(), "buffers_bdp": [8]},
        "share": {**found.share.model_dump(), "buffers_bdp": [1, 8, 16, 64], "roccet_flows": [1, 8]},
    })  # fmt: skip


@cache
def keys() -> list[Key]:
    """The keys of all cases."""
    trace = Trace("made", np.arange(1, 300_001, dtype=np.uint32), 300_000)
    links = Links({kind: [Recording(kind, kind, trace, (), ())] for kind in KINDS})
    return [case.key for part in ROCCET.parts for case in part.cases(settings(), links)]


def of_each(value: float) -> np.ndarray:
    return np.full(SEEDS, float(value))


def frozen(scheme: str) -> dict[str, np.ndarray]:
    window, change = SETTLED_WINDOW[scheme]
    return {"window_bdp": of_each(window), "window_change": of_each(change), "rtt_ms": of_each(30 * window),
            "goodput_mbps": of_each(49)}  # fmt: skip


def halved(scheme: str) -> dict[str, np.ndarray]:
    stays = scheme in {"cubic", "bbr3", "held"}
    return {
        "rtt_before_ms": of_each(RTT_AFTER[scheme] / (2 if stays else 1)),
        "rtt_after_ms": of_each(RTT_AFTER[scheme]),
        "goodput_before_mbps": of_each(48), "goodput_after_mbps": of_each(24),
        "window_before_pkts": of_each(230), "window_last_pkts": of_each(230 if stays else 120),
        "events_at_once": of_each(4), "events_later": of_each(3),
    }  # fmt: skip


def recorded(scheme: str) -> dict[str, np.ndarray]:
    spread = np.tile(RECORDED_RTT[scheme] * (0.9 + 0.2 * QUANTILES), (RUNS, 1))
    return {"goodput_mbps": np.full(RUNS, GOODPUT[scheme]), "rtts_ms": spread,
            "rtt_max_ms": np.full(RUNS, 1.1 * RECORDED_RTT[scheme])}  # fmt: skip


def shared(link: str, buffer_bdp: float, cca: str, crowd: str) -> dict[str, np.ndarray]:
    """Equal shares; beyond one BDP CUBIC takes most beside ROCCET, BBRv3 less, and both less of the slower link."""
    if crowd == "alone":
        share = 1.0
    elif crowd == "beside-itself":
        share = 0.5
    else:
        count = int(crowd.removeprefix("beside-"))
        ratio = {"roccet": 1.0, "cubic": 1.9, "bbr": 1.5, "bbr3": 1.6}[cca]
        ratio -= 0.05 * (link.endswith("10mbps") and cca != "roccet")
        ratio += {1: -0.1, 64: -0.02}.get(buffer_bdp, 0.0) * (cca != "roccet")
        ratio = 1.0 if cca == "cubic" and buffer_bdp == 1 else ratio
        share = ratio / (count + 1)
    rtt_ms = {"alone": 50.0, "beside-itself": 90.0}.get(crowd, 80.0)
    return {"goodput_mbps": of_each(48 * share), "share": of_each(share),
            "rtt_p95_ms": of_each(rtt_ms)}  # fmt: skip


def as_published() -> Results[RoccetSettings]:
    """Figures that are all as stated."""
    cases: dict[Key, dict[str, Values]] = {}
    for key in keys():
        part, *at = key
        if part == "share":
            link, buffer, cca, crowd = at
            cases[key] = shared(link, float(buffer), cca, crowd)
        elif part != "buffers":  # it has no statements
            cases[key] = {"frozen": frozen, "halved": halved, "recorded": recorded}[part](at[-1])
    return Results(settings(), cases)


def differing(results: Results[RoccetSettings]) -> set[str]:
    return {row["statement"] for row in judge(ROCCET, ROCCET.parts, results) if not row["agrees"]}


def changed(cases: str, figure: str, factor: float = 1.0, plus: float = 0.0) -> Results[RoccetSettings]:
    """The published figures but for one, of every case whose key holds that text."""
    results = as_published()
    met = [key for key in results.cases if cases in "-".join(key)]
    assert met, cases
    for key in met:
        results.cases[key][figure] = results.cases[key][figure] * factor + plus
    return results


def test_figures_as_published_agree_with_every_statement() -> None:
    assert differing(as_published()) == set()


OFF: list[tuple[str, str, float, float, set[str]]] = [
    ("frozen-cubic", "window_change", 1, 0.02, {"III-1"}),
    ("frozen-roccet", "window_bdp", 2, 0, {"III-2"}),
    ("frozen-roccet", "rtt_ms", 3, 0, {"III-2"}),
    ("frozen-roccet", "goodput_mbps", 0.9, 0, {"III-2"}),
    ("30ms-8-cubic", "rtt_before_ms", 2, 0, {"IX-1"}),
    ("30ms-8-roccet", "events_at_once", 0, 1, {"IX-2"}),
    ("30ms-8-roccet", "events_later", 0, 0, {"IX-3"}),
    ("30ms-8-bbr3", "window_before_pkts", 1.3, 0, {"IX-4", "IX-6"}),
    ("30ms-8-bbr3", "rtt_after_ms", 0.3, 0, {"IX-5", "target-2a"}),
    ("30ms-8-bbr3", "window_last_pkts", 0.5, 0, {"IX-6"}),
    ("30ms-8-held", "rtt_after_ms", 0.3, 0, {"IX-7"}),
    ("30ms-8-bbr", "rtt_after_ms", 0.3, 0, {"IX-5", "target-2a"}),
    ("30ms-8-roccet", "goodput_after_mbps", 0.8, 0, {"target-2b"}),
    ("stationary-cubic", "rtts_ms", 0.1, 0, {"VI-1", "target-3a"}),
    ("stationary-bbr3", "rtts_ms", 0.8, 0, {"VI-2"}),
    ("stationary-cubic", "goodput_mbps", 0.8, 0, {"VI-3"}),
    ("stationary-bbr3", "goodput_mbps", 1.3, 0, {"VI-4", "target-3b"}),
    ("mobile-cubic", "rtts_ms", 0.1, 0, {"VII-1", "target-3c"}),
    ("mobile-cubic", "goodput_mbps", 0.8, 0, {"VII-2"}),
    ("mobile-bbr3", "rtts_ms", 0.7, 0, {"VII-3"}),
    ("mobile-bbr3", "rtts_ms", 1.3, 0, {"VII-4"}),
    ("mobile-bbr3", "goodput_mbps", 0.8, 0, {"VII-5"}),
    ("mobile-bbr3", "goodput_mbps", 1.3, 0, {"VII-5", "target-3d"}),
    ("stationary-roccet", "rtt_max_ms", 8, 0, {"VI-1"}),
    ("mobile-roccet", "rtt_max_ms", 8, 0, {"VII-3"}),
    ("10mbps-16-cubic-beside-8", "share", 0.25, 0, {"VIII-2", "VIII-6", "VIII-11"}),
    ("50mbps-16-roccet-beside-8", "share", 0.7, 0, {"VIII-1"}),
    ("50mbps-16-cubic-beside-8", "share", 0.5, 0, {"VIII-2", "VIII-6", "VIII-7", "VIII-11"}),
    ("50mbps-64-cubic-beside-8", "share", 1.03, 0, {"VIII-7"}),
    ("50mbps-8-cubic-beside-8", "share", 0.5, 0, {"VIII-2", "VIII-4", "VIII-6", "VIII-11"}),
    ("50mbps-16-bbr3-beside-8", "share", 0.6, 0, {"VIII-3", "VIII-11"}),
    ("10mbps-8-bbr3-beside-8", "share", 0.9, 0, {"VIII-5"}),
    ("10mbps-16-bbr3-beside-1", "share", 1.22, 0, {"VIII-6", "VIII-10", "VIII-11"}),
    ("10mbps-1-cubic-beside-1", "share", 1.3, 0, {"VIII-8"}),
    ("50mbps-16-bbr3-beside-1", "share", 0.8, 0, {"VIII-9", "VIII-11"}),
]


@pytest.mark.parametrize(("cases", "figure", "factor", "plus", "expected"), OFF)
def test_a_figure_that_is_off_differs_where_it_is_stated_and_nowhere_else(
    cases: str, figure: str, factor: float, plus: float, expected: set[str]
) -> None:
    assert differing(changed(cases, figure, factor, plus)) == expected


@pytest.mark.parametrize(("cca", "statement"), [("cubic", "target-4a"), ("bbr", "target-4b"), ("bbr3", "target-4c")])
@pytest.mark.parametrize(("figure", "factor"), [("goodput_mbps", 0.4), ("rtt_p95_ms", 2.0)])
def test_harm_beyond_what_an_algorithm_does_to_itself_differs(
    cca: str, statement: str, figure: str, factor: float
) -> None:
    assert differing(changed(f"16-{cca}-beside-1", figure, factor)) == {statement}


def test_every_statement_is_shown_to_differ_and_has_a_name_of_its_own() -> None:
    names = [statement.name for part in ROCCET.parts for statement in part.statements]
    assert len(names) == len(set(names))
    shown = set().union(*(expected for *_, expected in OFF)) | {"target-4a", "target-4b", "target-4c"}
    assert shown == set(names)


def test_of_many_cells_the_farthest_is_shown() -> None:
    cells = {"near": np.full(5, 1.1), "far": np.full(5, 1.4), "below": np.full(5, 0.9)}
    figure = all_within("share", cells, least=0.8, most=1.25, unit="x")
    assert not figure.agrees
    assert figure.text() == "share in 2 of 3, farthest at far: 1.40 ± 0.00 x !"
    assert all_within("share", cells, least=0.8, most=1.5, unit="x").agrees


def test_cells_that_spread_beyond_both_bounds_agree_with_neither() -> None:
    spread = {"far apart": np.array([0.1, 1.9, 0.2, 1.8, 1.0])}
    assert not all_within("share", spread, least=0.8, most=1.25, unit="x").agrees
    assert all_within("share", spread, least=0.8, unit="x").agrees


def test_quantiles_are_of_all_runs_together_and_bounded_up_to_their_interval() -> None:
    values = np.tile(np.arange(1.0, 101.0), (8, 1))
    figure = quantile_below("p75, other", values, 0.75, values + 10, 0.75)
    assert figure.agrees
    assert figure.mean == pytest.approx(75.25)
    assert figure.interval == 0
    assert not quantile_below("p75, other", values + 10, 0.75, values, 0.75).agrees
    assert quantile_near("median", values * 1.1, 0.5, values, within_share=0.11).agrees
    assert not quantile_near("median", values * 1.1, 0.5, values, within_share=0.09).agrees


def test_sums_are_compared_run_by_run() -> None:
    values = np.arange(1.0, 11.0)
    figure = sums_over("goodput", values, values * 2, least=0.5, most=0.5)
    assert (figure.mean, figure.agrees) == (0.5, True)
    assert figure.interval == pytest.approx(0, abs=1e-12)
    assert not sums_over("goodput", values, values * 2, least=0.51).agrees
