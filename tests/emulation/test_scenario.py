# SPDX-License-Identifier: MIT
"""Scenarios: what is taken, what is refused, and how files become scenarios."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from emulation.errors import EmulationError
from emulation.files import build_scenario, load_scenario
from emulation.scenario import FlowSpec, LinkSpec, Scenario
from emulation.traces import Recording, Trace
from emulation.traces.synthetic import fit, make
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text

LINK = LinkSpec(rate_mbps=20)


def trace() -> Trace:
    return Trace("t", np.array([0, 1, 2], dtype=np.uint32), 3)


@pytest.fixture
def ensemble() -> Ensemble:
    """One level, three classes: 50, 100 and 200 ms."""
    return Ensemble(
        cca="gr",
        epoch_ms=30_000,
        estimate_ms=250,
        epsilon_pct=25,
        classes=tuple(DelayClass(95, delay_ms * 1000) for delay_ms in (50, 100, 200)),
        axes=(Axis("throughput_bytes_per_s", "linear", 125_000, 1),),
        columns=("delay_threshold_us",),
        rows=((20_000,), (40_000,), (80_000,)),
    )


def test_link_needs_a_trace_or_a_rate_and_not_both() -> None:
    for fields in ({}, {"rate_mbps": 20, "trace": trace()}):
        with pytest.raises(ValidationError, match="expected either a trace or rate_mbps"):
            LinkSpec.model_validate(fields)
    assert LinkSpec(trace=trace()).rate_mbps is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate_mbps", 0),
        ("rate_mbps", 1e-9),
        ("rate_mbps", math.inf),
        ("rate_mbps", math.nan),
        ("rtt_ms", 0),
        ("rtt_ms", 1e300),
        ("loss", 1.0),
        ("loss", -0.1),
        ("buffer_pkts", 0),
        ("buffer_bytes", 1499),
        ("start_ms", -1),
        ("opportunity_bytes", 0),
        ("colour", "red"),
    ],
)
def test_link_refuses_what_cannot_be_simulated(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        LinkSpec.model_validate({"rate_mbps": 20, field: value})


def test_flow_takes_each_parameter_from_its_minimum_to_its_maximum() -> None:
    specs = ALGORITHMS["gr"].params
    assert FlowSpec().values() == [spec.default for spec in specs]
    for position, spec in enumerate(specs):
        for value in (spec.minimum, spec.maximum):
            assert FlowSpec(params={spec.name: value}).values()[position] == value
        for value in (spec.minimum - 1, spec.maximum + 1):
            with pytest.raises(ValidationError, match=r"from \d+ to \d+|greater than or equal"):
                FlowSpec(params={spec.name: value})


def test_flow_refuses_a_parameter_of_another_algorithm() -> None:
    with pytest.raises(ValidationError, match=r"expected parameters of reno \(none\), got delay_threshold_us"):
        FlowSpec(cca="reno", params={"delay_threshold_us": 20_000})


def test_fixed_flow_needs_its_window() -> None:
    assert FlowSpec(cca="fixed", params={"cwnd_pkts": 7}).values() == [7, 0]
    for params in ({}, {"cwnd_pkts": 0}, {"cwnd_pkts": 1, "colour": 1}):
        with pytest.raises(ValidationError, match="expected cwnd_pkts"):
            FlowSpec(cca="fixed", params=params)


def test_flow_refuses_an_ensemble_of_an_algorithm_that_takes_none(ensemble: Ensemble) -> None:
    text = table_text(ensemble, Deployment("file", "test", 1))
    assert FlowSpec(ensemble_text=text).ensemble_text == text
    with pytest.raises(ValidationError, match="only for gr"):
        FlowSpec(cca="reno", ensemble_text=text)


def test_scenario_must_measure_something() -> None:
    for fields in ({"duration_s": 0}, {"duration_s": 5, "warmup_s": 5}, {"duration_s": 90_000}, {"flows": ()}):
        with pytest.raises(ValidationError):
            Scenario.model_validate({"link": LINK, **fields})
    with pytest.raises(ValidationError, match="stop_s behind start_s"):
        FlowSpec(start_s=3, stop_s=3)


def test_scenarios_are_frozen_and_equal_by_content() -> None:
    one, other = Scenario(link=LINK), Scenario(link=LinkSpec(rate_mbps=20))
    assert one == other
    with pytest.raises(ValidationError, match="frozen"):
        one.seed = 3


def test_shipped_scenarios_load(repository: Path) -> None:
    files = sorted((repository / "configs" / "scenarios").glob("*.yaml"))
    assert len(files) >= 4
    names = [load_scenario(file).name for file in files]
    assert names == [file.stem for file in files]


def test_file_paths_count_from_the_file(tmp_path: Path, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "links" / "a.down").write_text("1\n2\n40\n")
    ensemble.save(tmp_path / "gr.json")
    file = tmp_path / "scenarios" / "s.yaml"
    file.write_text("link: {trace: ../links/a.down}\nflows: [{ensemble: ../gr.json, delay_class: 200ms}]\n")
    monkeypatch.chdir(tmp_path / "links")
    scenario = load_scenario(file)
    assert scenario.link.trace is not None
    assert scenario.link.trace.opportunities_ms.tolist() == [1, 2, 40]
    assert scenario.name == scenario.link.trace.name
    assert scenario.flows[0].delay_class == 2
    assert scenario.flows[0].ensemble_text == table_text(ensemble, Deployment("file", "simulate", 1))


def test_recording_is_chosen_by_a_part_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "alpha.down").write_text("1\n")
    (tmp_path / "beta.down").write_text("1\n2\n")
    document = {"link": {"trace": str(tmp_path), "recording": "beta"}}
    scenario = build_scenario(document, source="s", folder=Path())
    assert scenario.link.trace is not None
    assert len(scenario.link.trace.opportunities_ms) == 2
    for recording, n_found in ((None, 2), ("gamma", 0), ("a", 2)):
        document = {"link": {"trace": str(tmp_path), "recording": recording}}
        with pytest.raises(EmulationError, match=rf"expected one recording.*, got {n_found}; .*alpha.*beta"):
            build_scenario(document, source="s", folder=Path())


def test_made_trace_comes_from_the_model_and_seed_named(tmp_path: Path) -> None:
    # Seconds of different rates, even within: what the model needs least time for.
    per_s = np.random.default_rng(1).integers(100, 900, size=120)
    times_ms = np.concatenate([1000 * s + np.arange(n) * 1000 // n for s, n in enumerate(per_s)]).astype(np.uint32)
    model = fit([Recording("noisy", "noisy", Trace("noisy", times_ms, 120_000), (), ("noisy.down",))])
    model.save(tmp_path / "model.json")
    made = {"model": "model.json", "duration_s": 60, "seed": 7}
    scenario = build_scenario({"link": {"made": made}}, source="s", folder=tmp_path)
    assert scenario.link.trace == make(model, duration_s=60, seed=7)
    assert scenario.name == make(model, duration_s=60, seed=7).name
    assert scenario.link.trace != make(model, duration_s=60, seed=8)


@pytest.mark.parametrize("wanted", ["100ms", "95:100ms", 1, "1"])
def test_delay_class_is_given_by_delay_or_index(tmp_path: Path, ensemble: Ensemble, wanted: object) -> None:
    ensemble.save(tmp_path / "gr.json")
    document = {"link": {"rate_mbps": 20}, "flows": [{"ensemble": "gr.json", "delay_class": wanted}]}
    assert build_scenario(document, source="s", folder=tmp_path).flows[0].delay_class == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("link: {rate_mbps: -1}", r"link\.rate_mbps: expected greater than or equal to 0\.001, got -1"),
        ("link: {rate_mbps: 20, colour: red}", r"link\.colour: expected one of trace, rate_mbps, .*, got 'red'"),
        ("link: {rate_mbps: 20}\ncolour: red", r"colour: expected one of name, link, flows"),
        (
            "link: {rate_mbps: 20}\nflows: [{cca: vegas}]",
            r"flows\.0\.cca: expected 'gr', 'reno', 'cubic', 'bbr1' or 'fixed', got 'vegas'",
        ),
        ("link: {rate_mbps: 20}\nflows: {cca: gr}", r"flows: expected a list, got dict"),
        ("link: {rate_mbps: 20}\nflows: [3]", r"flows\.0: expected a mapping, got 3"),
        ("link: {rate_mbps: 20}\nflows: [{delay_class: 50ms}]", r"delay_class: expected an ensemble beside it"),
        ("link: {rate_mbps: 20}\nflows: [{ensemble: gr.json, delay_class: 70ms}]", r"one of 95:50ms, .*, got 70ms"),
        ("link: {rate_mbps: 20}\nflows: [{ensemble: gr.json, cca: reno}]", r"ensemble of reno, got one of gr"),
        ("link: {rate_mbps: 20, recording: x}", r"recording: expected a trace beside it"),
        ("link: {made: {model: m.json}}", r"link\.made: duration_s: expected it, got nothing"),
        ("link: {made: {model: m.json, duration_s: 9, colour: 1}}", r"made: colour: expected one of model, duration_s"),
        ("link: {made: {model: m.json, duration_s: 9}}", r"m\.json: expected a model of traces"),
        ("link: {made: {}, trace: a.down}", r"link: expected one trace, got both trace and made"),
        ("link: {trace: 3}", r"link\.trace: expected a path, got 3"),
        ("link: 3", r"link: expected a mapping, got 3"),
        ("duration_s: 3", r"link: expected it, got nothing"),
        ("- 3", r"expected a mapping with link and flows, got list"),
        ("link: [", r"expected a scenario as YAML"),
        ("link: {rate_mbps: 20, rtt_ms: .nan}", r"link\.rtt_ms: expected a finite number, got nan"),
    ],
)
def test_bad_file_is_refused_in_one_line(tmp_path: Path, ensemble: Ensemble, text: str, message: str) -> None:
    ensemble.save(tmp_path / "gr.json")
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(EmulationError, match=message) as caught:
        load_scenario(file)
    assert str(caught.value).startswith(f"{tmp_path}/")
    assert "\n" not in str(caught.value)


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"none\.yaml: cannot be read \(No such file"):
        load_scenario(tmp_path / "none.yaml")
