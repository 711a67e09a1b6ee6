# SPDX-License-Identifier: MIT
"""The report of SIRA on a small scale: its links, its cases, its command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from emulation import EmulationError, simulate
from experiments import sira
from experiments.campaign import Links, Results, Store
from experiments.sira import command, describe, draw
from experiments.sira.cases import FLOWS, flow_cases
from experiments.sira.settings import load_settings
from experiments.sira.statements import share_below
from tests.figures import is_inside

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "reports" / "sira.yaml"


@pytest.fixture(scope="module")
def links() -> Links:
    """Made links of both kinds, without recordings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sira.cases, "default_traces", lambda: None)
        return sira.links_of(load_settings(CONFIG), ())


@pytest.fixture
def small(tmp_path: Path, links: Links, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration with few runs, over links that are made once for all tests."""
    monkeypatch.setattr(sira.cases, "default_traces", lambda: None)
    monkeypatch.setattr(sira.cases, "made_like", lambda _model: links.recordings["recorded"])
    document = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    values = {name: [its[1], its[-1]] for name, its in document["varied"]["values"].items()}
    document |= {"runs": 5, "segment_s": 300, "varied": {"runs": 5, "values": values}}
    document |= {"model": str(CONFIG.parent / document["model"])}
    document["places"] = {at: document["places"][at] for at in ("made", "disturbed")}
    (tmp_path / "sira.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return tmp_path / "sira.yaml"


@pytest.mark.parametrize(("old", "new", "message"), [
    ("runs: 100", "runs: 4", "runs: expected at least 5"),
    ("least_mbps: 2.85", "least_mbps: 7", "expected least_mbps < mean_mbps < most_mbps"),
    ("[2, 6, 12, 24, 48]", "[6, 2]", "expected ascending values of queue_threshold_pkts"),
    ("[0, 1, 2, 4, 8]", "[0, 9]", "expected residuals from 0 to 8"),
    ("interval_ms: 20", "interval_s: 20", "interval_s"),
])  # fmt: skip
def test_settings_out_of_range_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = CONFIG.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "sira.yaml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(EmulationError, match=message):
        load_settings(tmp_path / "sira.yaml")


def test_made_links_have_the_rates_and_the_variation_of_the_papers(links: Links) -> None:
    """Sections IV.A, V.A and V.B: 94.5 and 56.3 % below 1 Mbit/s, 2.85 to 9.98 Mbit/s, a mean of 6.92 Mbit/s."""
    assert links.made
    traces = [recording.trace for recording in links.recordings["made"]]
    assert np.mean([trace.mean_rate_mbps for trace in traces]) == pytest.approx(6.92, rel=0.01)
    for period_ms, share in ((1000, 0.945), (100, 0.563)):
        found = np.mean([share_below(recording, period_ms) for recording in links.recordings["made"]])
        assert found == pytest.approx(share, abs=0.01)
    five_s_mbps = np.concatenate([trace.bin_counts(5000) * 12_000 / 5e6 for trace in traces])
    assert five_s_mbps.min() > 2.85
    assert five_s_mbps.max() < 9.98


def test_sira_never_probes_on_these_links(links: Links) -> None:
    """Its queue is never short, so that SIRA is the same by all rules and stands once in the tables."""
    (case,) = flow_cases(load_settings(CONFIG).model_copy(
        update={"places": {"made": load_settings(CONFIG).places["made"]}}), links, names=["SIRA"])  # fmt: skip
    for scenario in case.scenarios()[:5]:
        probing = scenario.model_copy(
            update={"flows": (FLOWS["SIRA"].model_copy(update={"params": {"compensation": 0}}),)}
        )
        assert simulate(probing).mean_queueing_delay_ms == simulate(scenario).mean_queueing_delay_ms


def test_all_algorithms_have_the_same_pieces_a_run_apart(links: Links) -> None:
    settings = load_settings(CONFIG)
    settings = settings.model_copy(update={"places": {"made": settings.places["made"]}})
    names = [[scenario.name for scenario in case.scenarios()] for case in flow_cases(settings, links, names=FLOWS)]
    assert len(names) == 7
    assert names == [names[0]] * 7
    assert len(set(names[0])) == 100
    assert names[0][0] == "paper-0[0:25000]"  # 20 s of a run, and 5 s before the next one


def test_the_whole_campaign_on_a_small_scale(small: Path, tmp_path: Path) -> None:
    options = ["--config", str(small), "--work", str(tmp_path / "w")]
    done = CliRunner().invoke(command, [*options, "--json", "--enforce"], catch_exceptions=False)
    assert done.exit_code == 1
    figures = json.loads(done.stdout)
    assert figures["made_links"]
    assert len(figures["rows"]) == 6 * 2 + 6 * 6 + 4 * 6 + 2 * 2
    agrees = {(row["statement"], row["at"]): row["agrees"] for row in figures["rows"]}
    assert all(agrees[at] for at in (("III-2", "made"), ("V-2", "made, ours"), ("V.D-1", "made, ours")))
    flows = {row["case"][2]: row for row in figures["cases"] if row["case"][:2] == ["flow", "made"]}
    assert flows["SIRA-H, ours"]["mean_ms"] < 0.2 * flows["SIRA"]["mean_ms"] < 0.2 * flows["CUBIC"]["mean_ms"]
    written = CliRunner().invoke(command, [*options, "--markdown"], catch_exceptions=False).stdout.splitlines()
    one = flows["SIRA"]
    assert any(f"| made | SIRA | {one['mean_ms']:.1f} ± {one['mean_ms_interval']:.1f} |" in line for line in written)
    assert len([line for line in written if line.startswith("| ")]) == 2 + 5 + 2 * 7 + 2 + 2 * 3 * 4


def test_the_picture_shows_what_was_run(small: Path, links: Links) -> None:
    settings = load_settings(small)
    for names in (list(FLOWS)[:4], list(FLOWS)):
        results = Results(settings, Store().run(flow_cases(settings, links, names=names)), links)
        figure = draw(results)
        assert is_inside(figure)
        assert [one.get_label() for one in figure.axes[0].containers] == names
    assert describe(results) == "5 runs of a case at most; recordings of 3G links (made: there are none)"


def test_the_documents_table_is_of_this_engine(links: Links) -> None:
    """Of the links with the paper's rates. `python -m experiments sira --only sira_h --markdown` prints it anew."""
    document = (ROOT / "docs" / "sira.md").read_text(encoding="utf-8").splitlines()
    settings = load_settings(CONFIG)
    settings = settings.model_copy(update={"places": {"made": settings.places["made"]}})
    results = Results(settings, Store().run(flow_cases(settings, links, names=FLOWS)))
    assert [line for line in sira.flow_table(results) if line not in document] == []
