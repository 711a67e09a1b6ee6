# SPDX-License-Identifier: MIT
"""What is made has the rates and time scales of what it was fitted on, and is the same for the same seed."""

import json
from pathlib import Path

import numpy as np
import pytest

from emulation.traces import Recording, Trace, TraceError
from emulation.traces.synthetic import TraceModel, fit, make, make_recordings


def recording(times_ms: np.ndarray, name: str = "set/walk.down") -> Recording:
    trace = Trace(name, times_ms.astype(np.uint32), int(times_ms[-1]))
    return Recording(name, "set", trace, gaps=(), files=(name,))


def steps() -> Recording:
    """Ten minutes, even within each second; rates of 100 to 900 opportunities a second, in steps of some seconds."""
    rng = np.random.default_rng(1)
    rates = np.repeat(rng.integers(100, 900, 120), 5)
    times = [1000 * second + (np.arange(rate) * 1000) // rate for second, rate in enumerate(rates)]
    return recording(np.append(np.concatenate(times), 600_000))


def bursts() -> Recording:
    """Two minutes, ten opportunities in one millisecond of each twenty."""
    return recording(np.append(np.repeat(np.arange(0, 120_000, 20), 10), 120_000))


def test_a_link_even_within_a_second_gets_one_stage_and_stays_even() -> None:
    model = fit([steps()])
    assert [stage.tick_ms for stage in model.links[0].stages] == [1000]
    tenths = make(model, duration_s=600, seed=1).bin_counts(100).reshape(-1, 10)
    assert (tenths.max(axis=1) - tenths.min(axis=1)).max() <= 2


def test_a_bursty_link_gets_stages_down_to_a_millisecond_and_keeps_its_bursts() -> None:
    model = fit([bursts()])
    assert [stage.tick_ms for stage in model.links[0].stages] == [100, 10, 1]
    counts = make(model, duration_s=60, seed=1).bin_counts(1)
    assert counts[counts > 0].mean() > 5


def test_made_links_have_the_recorded_rates() -> None:
    recorded = steps()
    made = make(fit([recorded]), duration_s=1800, seed=3)
    assert made.mean_rate_mbps == pytest.approx(recorded.trace.mean_rate_mbps, rel=0.05)
    at = np.linspace(0.05, 0.95, 10)
    expected = np.quantile(recorded.trace.bin_counts(1000), at)
    assert np.quantile(made.bin_counts(1000), at) == pytest.approx(expected, abs=120)


def test_equal_seeds_give_equal_traces_and_others_do_not() -> None:
    model = fit([steps()])
    assert make(model, duration_s=60, seed=1) == make(model, duration_s=60, seed=1)
    assert make(model, duration_s=60, seed=1) != make(model, duration_s=60, seed=2)
    first, second = make_recordings(model, duration_s=30, count=2, seed=1)
    assert first.trace != second.trace


def test_a_model_read_back_makes_the_same(tmp_path: Path) -> None:
    model = fit([steps()])
    model.save(tmp_path / "model.json")
    assert make(TraceModel.load(tmp_path / "model.json"), duration_s=30, seed=1) == make(model, duration_s=30, seed=1)


def test_too_short_a_link_is_refused() -> None:
    with pytest.raises(TraceError, match="expected at least 60 s"):
        fit([recording(np.arange(1, 30_000))])


def test_an_unknown_link_and_a_broken_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="expected one of"):
        make(fit([steps()]), duration_s=1, seed=1, link="other")
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(TraceError, match="expected a model of traces"):
        TraceModel.load(tmp_path / "model.json")


@pytest.mark.parametrize("name", ["cellular-3g", "cellular-4g", "cellular-driving"])
def test_the_models_that_come_along_make_traces(repository: Path, name: str) -> None:
    made = make(TraceModel.load(repository / "configs" / "traces" / f"{name}.json"), duration_s=30, seed=1)
    assert made.period_ms == 30_000


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("recorded_s", float("inf"), "links.0.recorded_s: Input should be a finite number"),
        ("window_ticks", 10**9, "links.0.slow.window_ticks: Input should be less than"),
    ],
)
def test_a_model_of_no_link_is_refused(tmp_path: Path, place: str, value: float, message: str) -> None:
    fields = fit([steps()]).model_dump(mode="json", by_alias=True)
    link = fields["links"][0]
    (link if place in link else link["slow"])[place] = value
    (tmp_path / "model.json").write_text(json.dumps(fields))
    with pytest.raises(TraceError, match=message):
        TraceModel.load(tmp_path / "model.json")


@pytest.mark.parametrize("rate", [1e9, 1e300])
def test_a_trace_that_no_file_would_hold_is_not_made(rate: float) -> None:
    model = fit([steps()])
    link = model.links[0]
    slow = link.slow.model_copy(update={"quantiles": (rate, rate)})
    fast = model.model_copy(update={"links": (link.model_copy(update={"slow": slow}),)})
    with pytest.raises(TraceError, match="expected at most 100000000 opportunities, got"):
        make(fast, duration_s=60, seed=1)
