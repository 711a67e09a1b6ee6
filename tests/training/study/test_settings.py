# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from links import STAGES, STUDY, epochs_of_links, study
from small import SMALL, small

from kmod.abi import ALGORITHMS
from training.errors import TrainingError
from training.study import StudySettings, load_study

SHIPPED = Path(__file__).resolve().parents[3] / "configs" / "studies"
NAMES = sorted(path.name for path in SHIPPED.glob("*.yaml"))


def written(tmp_path: Path, data: object) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_study_that_is_shipped_loads_with_its_last_stage_for_each_state(name: str) -> None:
    loaded = load_study(SHIPPED / name)
    assert loaded.all_stages[-1].group_by == tuple(loaded.levels)
    assert loaded.single.group_by == ()


@pytest.mark.parametrize("base", ["cubic", "bbr", "bbr3"])
def test_the_study_of_rtcp_runs_with_each_base_and_holds_the_papers_setting(base: str) -> None:
    loaded = load_study(SHIPPED / "rtcp.yaml", family="rtcp", cca=f"rtcp_{base}")
    defaults = tuple(ALGORITHMS[loaded.cca].param(name).default for name in loaded.names)
    assert loaded.space(0).nearest(defaults) == defaults == (600, 20, 200)
    [objective] = loaded.objective.objectives(loaded.cca, "training")
    assert list(objective.references) == [f"rtcp_{base}", "paper", base]


def test_the_paths_of_an_rtt_axis_are_in_the_middle_of_each_level() -> None:
    loaded = load_study(SHIPPED / "roccet.yaml")
    paths_ms = epochs_of_links(loaded).paths_ms
    assert paths_ms == pytest.approx([20 * 2**0.5, 40 * 2**0.5, 80 * 2**0.5, 160 * 2**0.5])
    assert [loaded.levels["min_rtt"].level(round(ms * 1000)) for ms in paths_ms] == [0, 1, 2, 3]


def test_axes_are_octaves_of_round_trip_and_payload_rate() -> None:
    rtt, limit = small(axes={"min_rtt": {"shortest_ms": 10, "count": 5}, "limit": {"lowest_kbps": 250}}).levels.values()
    assert [rtt.level(us) for us in (5000, 19_999, 20_000, 100_000, 500_000)] == [0, 0, 1, 3, 4]
    assert [limit.level(kbps * 125) for kbps in (0, 499, 500, 2000, 50_000)] == [0, 0, 1, 3, 4]
    assert (rtt.name, limit.name) == ("min_rtt_us", "limit_bytes_per_s")


def test_the_shipped_study_of_gr_spends_at_most_58_evaluations_on_a_state() -> None:
    loaded = load_study(SHIPPED / "gr-levels.yaml")
    assert loaded.search.make(loaded.space(0), [], samples=(1,), steps=(1,)).budget <= 58


def test_without_stages_a_single_set_and_each_state_are_searched() -> None:
    assert [(stage.name, stage.group_by) for stage in study().all_stages] == [
        ("single", ()),
        ("state", ("throughput",)),
    ]


DDS = STUDY["search"]


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (STUDY, {"cca": "none"}, "expected an algorithm among gr, "),
        (STUDY, {"ranges": {"delay_threshold_us": [1, 9]}}, "range of delay_threshold_us: expected within"),
        (STUDY, {"axes": {"throughput": {}, "min_rtt": {}}}, r"the axes of gr \(throughput\) .* got throughput, min"),
        (SMALL, {"axes": {"limit": {}}}, r"expected the axes of rtcp_bbr \(min_rtt, limit\) .* got limit"),
        (SMALL, {"workload": STUDY["workload"]}, "with the workload epochs, got min_rtt, limit"),
        (STUDY, {"clock": {"epoch_s": 5, "estimate_ms": 5001}}, "estimate_ms of at most an epoch"),
        (SMALL, {"search": {**DDS, "aim": 0.5}}, "stage single: expected a search without aim|Extra"),  # type: ignore[dict-item]
        (STUDY, {"stages": STAGES[1:2]}, "expected a stage without group_by"),
        (STUDY, {"stages": STAGES[:1]}, "expected a last stage grouped by throughput"),
        (STUDY, {"stages": [STAGES[0], STAGES[2]]}, r"expected an earlier stage .* \(single\), got 'level'"),
        (STUDY, {"stages": [STAGES[0], {**STAGES[2], "candidates_from": []}]}, "candidates_from with a local search"),
        (STUDY, {"stages": [STAGES[0], STAGES[0]]}, "stage single: expected a name of its own"),
        (SMALL, {"ranges": {"probe_every_rounds": [30, 200]}}, "with its default 20, got 30 to 200"),
        (SMALL, {"ranges": {"candidates": [5, 9]}}, "got 'candidates'"),
        (SMALL, {"fixed": {"probing": 2}}, "fixed: expected probing from 0 to 1, got 2"),
        (SMALL, {"fixed": {"act": 0}}, r"fixed: expected parameters of rtcp_bbr .* \(probing\), got 'act'"),
        (SMALL, {"workload": {"kind": "policed", "bucket_bytes": [2, 1]}}, "the lower one first"),
    ],
)  # fmt: skip
def test_a_study_that_contradicts_itself_is_refused(
    base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        StudySettings.model_validate({**base, **changes})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a: [", "expected a study as YAML"),
        ("42", "expected a mapping with schema"),
        (f"{yaml.safe_dump(STUDY)}seed: 1:30", "seed: expected a valid integer, .* got '1:30'$"),
        ("x: " + "9" * 5000, "expected a study as YAML"),
        ("[" * 3000, "expected a study as YAML"),
        ({**STUDY, "schema": "ccatune-study/1"}, "schema: expected 'ccatune-study/2', got 'ccatune-study/1'"),
        ({**STUDY, "epoch": 30}, "epoch: expected one of schema, cca, .* got 30"),
        ({**STUDY, "seed": 2**64}, "seed: expected less than"),
        ({key: STUDY[key] for key in ("schema", "cca", "axes", "workload")}, "objective: expected it, got nothing$"),
        ({**STUDY, "search": {"kind": "grid", "count": 0}}, "search.grid.count: expected"),
        ({**STUDY, "search": {"kind": "tpe"}}, "search.kind: expected one of 'dds', 'local', .*, got 'tpe'$"),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, data: object, message: str) -> None:
    with pytest.raises(TrainingError, match=f"study.yaml[a-z0-9, ]*: {message}"):
        load_study(written(tmp_path, data))


def test_a_leading_zero_does_not_make_a_number_octal(tmp_path: Path) -> None:
    assert load_study(written(tmp_path, f"{yaml.safe_dump(STUDY)}seed: 0100")).seed == 100


def test_a_study_of_another_algorithm_is_refused_by_name() -> None:
    with pytest.raises(TrainingError, match=r"rtcp.yaml: expected a study of gr, got one of 'rtcp_bbr'$"):
        load_study(SHIPPED / "rtcp.yaml", family="gr")


def test_a_fixed_parameter_is_part_of_each_point_and_of_the_digest() -> None:
    fixed = small(fixed={"probing": 1})
    assert fixed.names == (*small().names, "probing")
    space = fixed.space(0)
    assert space.names == small().names
    assert space.point([0, 0, 0]) == (*small().space(0).point([0, 0, 0]), 1)
    held = space.holding({"reduction_permille": 500})
    assert held.point([0, 0]) == (500, *space.point([0, 0, 0])[1:])
    assert held.nearest((600, 20, 200)) == (500, 20, 200, 1)
    assert fixed.digest != small().digest
    assert "fixed" not in small().model_dump()


def test_the_digest_changes_with_any_choice() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {}, {"seed": 2}, {"axes": {"throughput": {"count": 9}}}, {"stages": STAGES}, {"rounds": [1.0]},
    )  # fmt: skip
    assert len({study(**change).digest for change in changes}) == 5
    assert study().digest == study().digest
