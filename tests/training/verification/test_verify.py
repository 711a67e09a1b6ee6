# SPDX-License-Identifier: MIT
from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from links import recording, study
from small import policed, small

from emulation.mahimahi.translate import Runner
from emulation.run.measures import Trial
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation.tasks import Part
from training.progress import Progress
from training.reports.cli import report
from training.reports.verify import compared_delays, comparisons
from training.study import Journal, Study
from training.verification import verify
from training.verification.cases import kernel_cases
from training.verification.runs import VerifyTask

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
FAST_STATE = [4]
VERIFY = {"runner": "simulator", "states": 2, "finalists": 2, "runs": 3, "duration_s": 3}
LINK = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=200)
SCENARIO = Scenario(name="it", link=LINK, flows=(FlowSpec(cca="gr"),), duration_s=4, warmup_s=1)


def verified(**changes: object) -> Study:
    return Study(study(verify={**VERIFY, **changes}), RECORDINGS, threads=2)


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return verified().run()


def test_the_provenance_says_what_ran_and_only_replaced_rows_differ(trained: Ensemble) -> None:
    found = trained.provenance["verified"]
    assert found["runner"] == "simulator"
    assert found["deterministic"]
    assert len(found["rows"]) == 2 * 2
    searched = Study(study(), RECORDINGS, threads=2).run()
    replaced = {(tuple(row["state"]), row["class"]): row["finalists"][row["chosen"]]["values"] for row in found["rows"]}
    for entry in trained.provenance["states"]:
        state, delay_class = tuple(entry["state"]), entry["class"]
        source = tuple(entry["copied_from"] or state)
        expected = replaced.get((source, delay_class), searched.row(state, delay_class))
        assert trained.row(state, delay_class) == expected


def test_all_finalists_run_the_same_cases_on_both_sides(trained: Ensemble) -> None:
    ratios = []
    for row in trained.provenance["verified"]["rows"]:
        assert row["finalists"][0]["from"][0] == "state"
        for one in row["finalists"]:
            assert len(one["runs"]) == 3
            # In the slow state, where a packet takes some ms, chance decides how GR's slow start ends.
            if row["state"] != FAST_STATE:
                continue
            ratios += [run["kernel"]["throughput_mbps"] / run["simulator"]["throughput_mbps"] for run in one["runs"]]
    # A clock of whole ms is all that the sides differ in. Runs of 3 s on other cases would be far apart.
    assert np.quantile(np.abs(np.log(ratios)), 0.75) < 0.1


def test_an_interrupted_verification_goes_on_from_its_runs(
    tmp_path: Path, trained: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, key="ab" * 32)
    made: list[str] = []

    def counted(self: VerifyTask, numbers: list[int], errors: dict[int, str]) -> dict[int, Any]:
        made.extend(f"{self.name}-{number}" for number in numbers)
        return original(self, numbers, errors)

    original = VerifyTask._side_by_side
    monkeypatch.setattr(VerifyTask, "_side_by_side", counted)

    class Stops(Progress):
        verifying = False

        def phase(self, text: str, *, total: float) -> None:  # noqa: ARG002
            self.verifying = text.startswith("verifying")

        def advance(self, amount: float) -> None:  # noqa: ARG002
            if self.verifying and len([name for name in journal.parts() if name.startswith(verify.PREFIX)]) == 4:
                raise KeyboardInterrupt

    interrupted = verified()
    interrupted.progress = Stops()
    with pytest.raises(KeyboardInterrupt):
        interrupted.run(journal)
    kept = {name for name in journal.parts() if name.startswith(verify.PREFIX)}
    assert len(kept) == 4
    made.clear()
    assert verified().run(journal).digest == trained.digest
    assert made
    assert kept.isdisjoint(made)
    # Runs of another kernel, or of another version of the algorithm, are made again.
    monkeypatch.setattr(verify, "made_with", lambda runner, cca: {"runner": runner, "kernel": "another", cca: ""})
    made.clear()
    assert verified().run(journal).provenance["verified"]["kernel"] == "another"
    assert kept <= set(made)


def test_late_and_failed_runs_are_repeated_and_the_least_late_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    task = pickle.loads(pickle.dumps(VerifyTask("verify-it", "mahimahi", Trial("gr"), (SCENARIO,) * 3, (0, 1, 2))))  # noqa: S301
    shares: dict[int, list[float | None]] = {0: [0.0], 1: [0.5, 0.2, 0.3, 0.4], 2: [None, 0.001]}
    beside: list[list[int]] = []

    def side_by_side(_task: VerifyTask, numbers: list[int], errors: dict[int, str]) -> dict[int, Any]:
        beside.append(numbers)
        found = {number: share for number in numbers if (share := shares[number].pop(0)) is not None}
        errors.update({number: "lost" for number in numbers if number not in found})
        return {number: {"late_share": share} for number, share in found.items()}

    monkeypatch.setattr(VerifyTask, "_side_by_side", side_by_side)
    kept: dict[str, Any] = {}
    assert not task.run(kept.__setitem__, width=3)
    assert beside == [[0, 1, 2], [1, 2], [1], [1]]
    assert [kept[f"verify-it-{n}"]["late_share"] for n in range(3)] == [0.0, 0.2, 0.001]
    shares.update({0: [None] * 4})
    with pytest.raises(TrainingError, match=r"got none in 4 tries: lost; run the same command with --resume"):
        VerifyTask("verify-it", "mahimahi", Trial("gr"), (SCENARIO,), (0,)).run(kept.__setitem__, width=1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"states": [[99]]}, r"verify\.states: expected states of the study, got \(99,\)"),
        ({"classes": [2]}, r"verify\.classes: expected classes below 2, got 2"),
        ({"runner": "ns3"}, "runner"),
        ({"runs": 1}, "greater than or equal to 2"),
    ],
)
def test_a_verification_that_does_not_fit_the_study_is_refused(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        verified(**changes)


def test_policed_files_are_not_verified_over_pantheon() -> None:
    with pytest.raises(ValueError, match=r"verify.runner: expected mahimahi, vm or simulator .* got pantheon"):
        small(verify={**VERIFY, "runner": "pantheon"})


def test_a_file_behind_a_policer_becomes_one_that_mahimahi_runs() -> None:
    [short, other] = kernel_cases(policed(), (0, 1), runs=2, duration_s=4)
    assert short.key != other.key
    scenario = short.scenario
    [flow], [policer] = scenario.flows, scenario.link.before
    assert flow.size_bytes == short.capacity_bytes == round(policer.bucket_bytes + 4 * short.limit_mbps * 125_000)
    assert scenario.link.delays is not None
    assert not scenario.link.behind
    assert scenario.link.delays.most_rtt_ms - scenario.link.rtt_ms == pytest.approx(2, abs=0.02)
    assert scenario.duration_s == pytest.approx(1.6 * 4 + 3)


def test_policed_rows_are_compared_with_the_single_set_and_the_defaults(tmp_path: Path) -> None:
    settings = small(verify={**VERIFY, "states": 1, "runs": 2, "duration_s": 4})
    ensemble = Study(settings, RECORDINGS, threads=2).run()
    [row] = ensemble.provenance["verified"]["rows"]
    chosen = row["finalists"][row["chosen"]]
    assert any("single" in one["from"] for one in row["finalists"])
    for run in [run for one in row["finalists"] for run in one["runs"]]:
        assert set(run["kernel"]["references"]) == {"bbr", "rtcp_bbr", "paper"}
    file = tmp_path / "rtcp.json"
    ensemble.save(file)
    shown = CliRunner().invoke(report, ["verify", str(file)], env={"COLUMNS": "80"}).output
    pkts = [{name: its["retransmitted_pkts"] for name, its in run["kernel"]["references"].items()}
            for run in chosen["runs"]]  # fmt: skip
    shares = [its["rtcp_bbr"] / max(its["bbr"], 10) for its in pkts]
    assert f"the defaults {np.mean(shares):.3f}" in shown
    assert "the table over the paper's setting: " in shown


def test_delays_are_compared_with_the_single_set_and_the_rival() -> None:
    def runs(delay_ms: float, goodput_mbps: float) -> list[dict[str, Any]]:
        rival = {"roccet": {"delay_ms": 40.0, "goodput_mbps": 5.0}}
        return [{"kernel": {"delay_ms": delay_ms, "goodput_mbps": goodput_mbps, "references": rival}}] * 5

    finalists = [{"from": ["state"], "runs": runs(10, 4)}, {"from": ["single"], "runs": runs(30, 8)}]
    row = {"class": 0, "chosen": 0, "finalists": finalists}
    shown = compared_delays([row], "p95 50 ms")
    assert shown[0] == "p95 50 ms, on the kernel (5 runs of each):"
    assert "    the single set 30.0 ms, 8.00 Mbit/s" in shown
    assert "    the table over the single set: delay 0.333 (0.333-0.333), goodput 0.500 (0.500-0.500)" in shown
    assert shown[-1].startswith("    the table over roccet with its defaults: delay 0.250 (")
    without = compared_delays([row, {**row, "finalists": finalists[:1]}], "p95 50 ms")
    assert "single" not in " ".join(without), "it did not run in all states"


@pytest.mark.parametrize(("references", "count"), [(None, 0), ({}, 0), ({"bbr": 3, "rtcp_bbr": 2}, 1)])
@pytest.mark.parametrize("score", ["delay_ms", "retransmitted_share"])
def test_rows_that_an_older_version_verified_are_shown_without_a_comparison(
    references: dict[str, int] | None, count: int, score: str
) -> None:
    run = {"kernel": {} if references is None else {"references": references}}
    row = {"class": 0, "chosen": 0, "finalists": [{"from": ["single"], "runs": [run], "kernel": {score: 1.0}}]}
    shown = list(comparisons([row], ["all"], cca="rtcp_bbr"))
    assert len(shown) == count
    assert all("older version; train it again" in line for line in shown)


def test_a_runner_that_lacks_the_algorithm_is_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "training.verification.runs.host.host_runner", lambda: Runner(name="mahimahi", algorithms={"reno": "reno"})
    )
    monkeypatch.setattr(Part, "from_json", lambda _: pytest.fail("a search began"))
    with pytest.raises(TrainingError, match=r"expected an algorithm that the runner mahimahi has .*got gr"):
        verified(runner="mahimahi").run()
