# SPDX-License-Identifier: MIT
"""A campaign keeps its cases, and a case runs again only if something that its figures depend on has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ccatune
from emulation.run.qos import QoS
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import Trace
from experiments import campaign
from experiments.__main__ import EXPERIMENTS, cli
from experiments.campaign import Case, Store, settings_text
from experiments.rtcp.settings import load_settings
from training.errors import TrainingError

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "reports"
TRACE = Trace("one", np.arange(1, 5000, dtype=np.uint32), 5000)


def made(name: str = "a", *, runs: int = 2, trace: Trace = TRACE) -> Case:
    link = LinkSpec(trace=trace, rtt_ms=20, buffer_pkts=50)
    scenarios = [Scenario(link=link, flows=(FlowSpec(),), duration_s=1, seed=seed) for seed in range(runs)]
    return Case((name,), lambda: scenarios, measured)


def measured(scenario: Scenario, qos: QoS) -> dict[str, float | None]:
    return {"goodput_mbps": qos.goodput_mbps, "seed": scenario.seed, "never": None}


def never(_scenario: Scenario, _qos: QoS) -> dict[str, float]:
    raise AssertionError("expected a case that is kept")


def test_a_finished_case_is_not_run_again_and_is_the_same_on_any_number_of_threads(tmp_path: Path) -> None:
    first = Store(tmp_path, threads=1).run([made()])["a",]
    done: list[float] = []
    kept = Store(tmp_path).run([replace(made(), measure=never)], advance=done.append)["a",]
    again = Store(threads=2).run([made()])["a",]
    assert done == [1]
    for name, values in first.items():
        assert np.array_equal(values, kept[name], equal_nan=True)
        assert np.array_equal(values, again[name], equal_nan=True)
    assert first["seed"].tolist() == [0, 1]
    assert np.isnan(first["never"]).all()


@pytest.mark.parametrize(
    ("store", "case", "is_same"),
    [
        (Store(), made(trace=replace(TRACE, name="two")), True),
        (Store(), made(trace=replace(TRACE, period_ms=5001)), False),
        (Store(), made(runs=3), False),
        (Store(), replace(made(), every_s=0.1), False),
        (Store(depends="other settings"), made(), False),
    ],
)
def test_the_key_is_of_settings_scenarios_and_contents_of_traces(store: Store, case: Case, is_same: bool) -> None:
    assert (store.key_of(case, case.scenarios()) == Store().key_of(made(), made().scenarios())) == is_same


def test_the_key_is_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Store().key_of(made(), [])
    monkeypatch.setattr(campaign, "core_version", lambda: "another")
    assert Store().key_of(made(), []) != before


def test_paths_in_settings_count_by_their_names_only() -> None:
    settings = load_settings(CONFIGS / "rtcp.yaml")
    moved = {
        name: place.model_copy(update={"model": Path("/elsewhere") / place.model.name})
        for name, place in settings.unlimited.items()
    }
    assert settings_text(settings.model_copy(update={"unlimited": moved})) == settings_text(settings)
    assert settings_text(settings.model_copy(update={"seeds": 41})) != settings_text(settings)


def test_a_file_that_is_no_case_is_named(tmp_path: Path) -> None:
    Store(tmp_path).run([made()])
    (file,) = tmp_path.iterdir()
    file.write_text("[]", encoding="ascii")
    with pytest.raises(
        TrainingError, match=r"a-[0-9a-f]{16}\.json: expected the figures of a case, .*; remove the file"
    ):
        Store(tmp_path).run([made()])


def test_cases_that_are_kept_alone_are_returned_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.run([made("a")])
    assert list(store.run([made("a"), made("b")], only_kept=True)) == [("a",)]


def test_every_experiment_is_listed_and_has_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run([], group=cli) == 0 or capsys.readouterr()
    for name in EXPERIMENTS:
        assert ccatune.run([name, "--help"], group=cli) == 0
        assert f"python -m experiments {name}" in capsys.readouterr().out
