# SPDX-License-Identifier: MIT
"""Scenarios: what is taken, what is refused, and how files become scenarios."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from emulation.errors import EmulationError
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.files import build_scenario, first_fault, load_scenario
from emulation.scenario.model import FlowSpec, LinkSpec, ProxySpec, ReceiverSpec, Scenario, Transfer, canonical_text
from emulation.scenario.path import ELEMENTS, AccessLink, AckPath, Codel, Policer, RateStep, SteppedPolicer
from emulation.traces import Recording, Trace
from emulation.traces.synthetic import fit, make
from kmod.abi import ALGORITHMS
from kmod.ensemble import Deployment, Ensemble, table_text
from tests.emulation.tables import ensemble_of

LINK = LinkSpec(rate_mbps=20)


def trace() -> Trace:
    return Trace("t", np.array([0, 1, 2], dtype=np.uint32), 3)


@pytest.fixture
def ensemble() -> Ensemble:
    """One level, three classes: 50, 100 and 200 ms."""
    return ensemble_of(((20_000,), (40_000,), (80_000,)), classes_ms=(50, 100, 200), epoch_ms=30_000, epsilon_pct=25)


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
    with pytest.raises(ValidationError, match="only for gr, cubic, roccet, bbr"):
        FlowSpec(cca="reno", ensemble_text=text)


def test_scenario_must_measure_something() -> None:
    for fields in ({"duration_s": 0}, {"duration_s": 5, "warmup_s": 5}, {"duration_s": 90_000}, {"flows": ()}):
        with pytest.raises(ValidationError):
            Scenario.model_validate({"link": LINK, **fields})
    with pytest.raises(ValidationError, match="stop_s after start_s"):
        FlowSpec(start_s=3, stop_s=3)


def test_the_canonical_text_has_the_fields_that_differ_from_their_defaults() -> None:
    elements = (Policer(rate_mbps=1, bucket_bytes=1500), AccessLink(trace=trace()))
    scenario = Scenario(name="s", link=LinkSpec(rate_mbps=2, behind=elements), flows=(FlowSpec(), FlowSpec(start_s=1)))
    assert json.loads(canonical_text(scenario)) == {
        "name": "s",
        "link": {
            "rate_mbps": 2,
            "behind": [
                {"kind": "policer", "rate_mbps": 1, "bucket_bytes": 1500},
                {"kind": "access", "trace": trace().digest},
            ],
        },
        "flows": [{}, {"start_s": 1}],
    }


def test_the_defaults_that_recorded_runs_rely_on_stay() -> None:
    """A recorded run counts for every scenario with its canonical text, from which defaults are left out."""
    relied_on = {
        LinkSpec: {"rtt_ms": 100, "buffer_pkts": 1000, "opportunity_bytes": 1500, "loss": 0, "start_ms": 0},
        FlowSpec: {"cca": "gr", "params": {}, "delay_class": 0, "start_s": 0, "receiver": ReceiverSpec()},
        ReceiverSpec: {"autotune": False, "ack_every": 2, "ack_delay_ms": 40, "quick_acks": 16, "stretch_pkts": 1},
        Scenario: {"duration_s": 30, "warmup_s": 0, "client_keep_s": 600, "seed": 0},
        Policer: {"per": "client"},
    }
    for model, defaults in relied_on.items():
        assert {name: model.model_fields[name].default for name in defaults} == defaults


def test_a_fault_is_told_without_the_names_that_may_stand_there() -> None:
    with pytest.raises(ValidationError) as caught:
        LinkSpec.model_validate({"rate_mbps": 20, "rtt": 5})
    assert first_fault(caught.value) == "rtt: expected no such field, got 5"
    assert first_fault(caught.value, known=lambda _: ["rtt_ms"]) == "rtt: expected one of rtt_ms, got 5"


def test_scenarios_are_frozen_and_equal_by_content() -> None:
    one, other = Scenario(link=LINK), Scenario(link=LinkSpec(rate_mbps=20))
    assert one == other
    with pytest.raises(ValidationError, match="frozen"):
        one.seed = 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("behind: [{kind: policer, rate_mbps: 2}]", r"behind\.0\.policer\.bucket_bytes: expected it, got nothing"),
        ("behind: [{kind: police}]", r"link\.behind\.0\.kind: expected one of access, policer, .*, got 'police'"),
        ("behind: [{rate_mbps: 2}]", r"link\.behind\.0\.kind: expected one of access, policer, .*, got None"),
        ("behind: [3]", r"link\.behind\.0: expected a mapping, got 3"),
        ("before: 3", r"link\.before: .*, got 3"),
        (
            "before: [{kind: policer, rate_mbps: 2, bucket_bytes: 1499}]",
            r"before\.0\.policer\.bucket_bytes: expected greater than or equal to 1500, got 1499",
        ),
        (
            "before: [{kind: shaper, rate_mbps: 2, bucket_bytes: 3000, queue_bytes: 3000, queue: 3}]",
            r"before\.0\.shaper\.queue: expected one of kind, rate_mbps, bucket_bytes, queue_bytes, per",
        ),
        ("behind: [{kind: access}]", r"behind\.0\.access: expected either a trace or rate_mbps or steps, got none"),
        ("behind: [{kind: access, trace: none.down}]", r"none\.down: expected a trace file"),
        ("behind: [{kind: access, rate_mbps: 3, recording: x}]", r"behind\.0\.recording: expected a trace beside it"),
        ("behind: [{kind: loss, share: 1}]", r"behind\.0\.loss\.share: expected less than 1, got 1"),
        ("behind: [{kind: gilbert_elliott, to_bad: 0, to_good: 1}]", r"to_bad: expected greater than 0, got 0"),
        ("behind: [{kind: jitter, max_ms: 0}]", r"jitter\.max_ms: expected greater than 0, got 0"),
        ("codel: {target: 5}", r"link\.codel\.target: expected one of target_ms, interval_ms, got 5"),
        ("acks: {every_ms: 5}", r"link\.acks\.every_ms: expected one of interval_ms, uplink, got 5"),
        ("acks: {uplink: {rate: 5}}", r"link\.acks\.uplink\.rate: expected one of trace, rate_mbps, steps"),
        ("acks: {uplink: {}}", r"acks\.uplink: expected either a trace or rate_mbps or steps, got none"),
        ("steps: [{at_s: 0, rate_mbps: 1}]", r"rate_mbps or steps, got rate_mbps and steps"),
    ],
)
def test_bad_path_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20, " + text + "}\n")
    with pytest.raises(EmulationError, match=message) as caught:
        load_scenario(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(1, 5)], "expected steps at 0 and then ascending"),
        ([(0, 5), (3, 1), (3, 2)], "expected steps at 0 and then ascending"),
        ([(0, 5), (3, 0)], "expected a rate above 0 in the last"),
    ],
)
def test_steps_ascend_from_0_and_do_not_end_in_an_outage(steps: list[tuple[float, float]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LinkSpec(steps=tuple(RateStep(at_s=at_s, rate_mbps=rate) for at_s, rate in steps))


def test_an_unknown_field_of_a_receiver_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20}\nflows: [{cca: cubic, receiver: {window: 5}}]\n")
    with pytest.raises(EmulationError, match=r"receiver\.window: expected one of window_bytes, autotune, .*, got 5"):
        load_scenario(file)


def test_application_is_a_size_or_transfers() -> None:
    transfer = Transfer(size_bytes=1449, gap_s=1, count=2)
    assert transfer.size_pkts == 2
    assert FlowSpec().plan == ()
    assert FlowSpec(size_bytes=5).plan == (Transfer(size_bytes=5),)
    assert list(FlowSpec(transfers=(transfer, Transfer(size_bytes=7))).transfer_sizes()) == [1449, 1449, 7]
    with pytest.raises(ValidationError, match="either size_bytes or transfers, got both"):
        FlowSpec(size_bytes=5, transfers=(transfer,))
    with pytest.raises(ValidationError, match="at most 1000000 transfers, got 1000001"):
        FlowSpec(transfers=(Transfer(size_bytes=1, count=1_000_000), Transfer(size_bytes=1)))
    with pytest.raises(ValidationError, match="less than 2"):
        FlowSpec(transfers=(Transfer(size_bytes=1448 * 2**20, count=2**12),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[{size_bytes: 9}, {after: 1}]",
            r"expected flows\.1\.after of a flow before it \(flows count from 0\), got 1",
        ),
        ("[{after: 0}]", r"expected flows\.0\.after of a flow before it"),
        (
            "[{}, {after: 0}]",
            r"expected flows\.0 with size_bytes, transfers or a video, which flows\.1 waits for, got data",
        ),
        ("[{size_bytes: 9}, {after: 0, stop_s: 5}]", r"flows\.1: expected no stop_s beside after"),
        ("[{size_bytes: 9}, {after: -1}]", r"flows\.1\.after: expected greater than or equal to 0, got -1"),
    ],
)
def test_a_flow_waits_for_one_before_it_that_ends(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20}\nflows: " + text + "\n")
    with pytest.raises(EmulationError, match=message):
        load_scenario(file)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([(1, 5)], "expected steps at 0 and then ascending"),
        ([(0, 5), (3, 0)], r"expected steps to a rate_mbps of at least 0\.001 each"),
        ([], "at least 1 item"),
    ],
)
def test_a_stepped_policer_has_tokens_at_all_times(steps: list[tuple[float, float]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SteppedPolicer(steps=tuple(RateStep(at_s=at_s, rate_mbps=rate) for at_s, rate in steps), bucket_bytes=15_000)


def test_traces_of_elements_count_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.down").write_text("1\n2\n40\n")
    text = "link: {rate_mbps: 20, before: [{kind: access, trace: a.down}], acks: {uplink: {trace: a.down}}}\n"
    (tmp_path / "s.yaml").write_text(text)
    link = load_scenario(tmp_path / "s.yaml").link
    assert isinstance(link.before[0], AccessLink)
    assert link.acks.uplink is not None
    for found in (link.before[0].trace, link.acks.uplink.trace):
        assert found is not None
        assert found.opportunities_ms.tolist() == [1, 2, 40]


def test_page_on_scenarios_names_every_field(repository: Path) -> None:
    page = (repository / "docs" / "scenarios.md").read_text()
    models = [
        Scenario,
        LinkSpec,
        BaseDelay,
        DelayStep,
        FlowSpec,
        ProxySpec,
        Transfer,
        AckPath,
        Codel,
        RateStep,
        *ELEMENTS.values(),
    ]
    missing = {f"{model.__name__}.{name}" for model in models for name in model.model_fields if f"`{name}`" not in page}
    assert not missing


def test_examples_on_the_page_are_scenarios(repository: Path) -> None:
    page = (repository / "docs" / "scenarios.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        build_scenario(yaml.safe_load(example), source="docs/scenarios.md", folder=repository)


def test_operators_have_the_rates_and_buckets_of_the_paper(repository: Path) -> None:
    # R-TCP 2026, Table 1: median R in Mbit/s, median B in kB, mean RTT in ms.
    for operator, row in {1: (2.07, 733_000, 36), 2: (1.3, 385_000, 18), 3: (1.04, 223_000, 21)}.items():
        link = load_scenario(repository / "configs" / "scenarios" / f"policer-op{operator}.yaml").link
        policer = link.behind[0]
        assert isinstance(policer, Policer)
        assert (policer.rate_mbps, policer.bucket_bytes, link.rtt_ms) == row


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
        with pytest.raises(EmulationError, match=rf"got {n_found}; name one with `recording` among .*alpha.*beta"):
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
            "link: {rate_mbps: 20}\nflows: [{cca: tahoe}]",
            r"flows\.0\.cca: expected 'gr', 'reno', 'cubic', 'roccet', 'bbr', 'bbr3', 'rtcp_cubic', 'rtcp_bbr', "
            r"'rtcp_bbr3', 'vegas', 'sira' or 'fixed', got 'tahoe'",
        ),
        ("link: {rate_mbps: 20}\nflows: {cca: gr}", r"flows: expected a list, got dict"),
        ("link: {rate_mbps: 20}\nflows: [3]", r"flows\.0: expected a mapping, got 3"),
        ("link: {rate_mbps: 20}\nflows: [{delay_class: 50ms}]", r"delay_class: expected an ensemble beside it"),
        ("link: {rate_mbps: 20}\nflows: [{ensemble: gr.json, delay_class: 70ms}]", r"one of 95:50ms, .*, got 70ms"),
        ("link: {rate_mbps: 20}\nflows: [{ensemble: gr.json, cca: reno}]", r"ensemble of reno, got one of gr"),
        ("link: {rate_mbps: 20, recording: x}", r"recording: expected a trace beside it"),
        ("link: {made: {model: m.json}}", r"link\.made: duration_s: expected it, got nothing"),
        ("link: {made: {model: m.json, duration_s: 9, colour: 1}}", r"made: colour: expected one of model, poisson"),
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
