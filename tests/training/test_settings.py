# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from links import STUDY, study

from training.dds import DdsSearch
from training.errors import TrainingError
from training.flows import axes_of
from training.grid import GridSearch
from training.settings import load_study, make_search

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "studies"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["gr.yaml", "gr-demo.yaml"])
def test_every_study_that_is_shipped_loads(name: str) -> None:
    loaded = load_study(SHIPPED / name)
    assert loaded.levels.count == 40
    assert [c.queueing_delay_ms for c in loaded.classes] == [50, 100, 200]


def test_the_study_of_roccet_has_a_path_in_the_middle_of_each_level_of_rtt() -> None:
    loaded = load_study(SHIPPED / "roccet.yaml")
    assert [loaded.rival_of(one) for one in loaded.classes] == ["bbr", "roccet", None]
    assert load_study(SHIPPED / "roccet-demo.yaml").classes == loaded.classes
    assert loaded.paths_ms == pytest.approx([20 * 2**0.5, 40 * 2**0.5, 80 * 2**0.5, 160 * 2**0.5])
    throughput, rtt = axes_of(loaded)
    assert [rtt.level(round(ms * 1000)) for ms in loaded.paths_ms] == [0, 1, 2, 3]
    assert (throughput.name, rtt.name) == ("throughput_bytes_per_s", "min_rtt_us")
    assert len({make_search(loaded, state=n, delay_class=0).budget for n in (0, 64)}) == 1


def test_a_second_axis_is_of_algorithms_that_have_two() -> None:
    with pytest.raises(ValueError, match="expected rtts of an algorithm with two axes, got them for gr"):
        study(rtts={"count": 2})


def test_steps_aimed_at_a_delay_need_a_target() -> None:
    with pytest.raises(ValueError, match="expected a search without aim where the goal is delay"):
        study(classes=[{"goal": "delay", "queueing_delay_ms": 50}], search={"kind": "dds", "aim": 0.5})


def test_the_shipped_study_spends_at_most_58_evaluations_on_a_state() -> None:
    assert make_search(load_study(SHIPPED / "gr.yaml"), state=3, delay_class=0).budget <= 58


def test_the_single_sets_may_have_steps_of_their_own() -> None:
    shipped = load_study(SHIPPED / "gr.yaml")
    both = [make_search(shipped, state=1_000, delay_class=0, steps=steps) for steps in (None, shipped.single.steps)]
    assert [search.budget for search in both] == [58, 40]


def test_an_unknown_field_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "schema: ccatune-study/1\ncca: gr\nclasses: [{queueing_delay_ms: 50}]\nepoch: 30\n")
    with pytest.raises(TrainingError, match=r"study.yaml: epoch: expected one of schema, cca, .* got 30"):
        load_study(path)


def test_a_range_outside_the_contract_is_refused(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "schema: ccatune-study/1\ncca: gr\nclasses: [{queueing_delay_ms: 50}]\nranges: {delay_threshold_us: [1, 9]}\n",
    )
    with pytest.raises(TrainingError, match="range of delay_threshold_us: expected within"):
        load_study(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "expected a study as YAML"),
        ("42", "expected a mapping with schema"),
        ("x: 2020-13-45", "expected a study as YAML"),
        ("x: " + "9" * 5000, "expected a study as YAML"),
        ("[" * 3000, "expected a study as YAML"),
        ("schema: ccatune-study/1\ncca: gr\n", "classes: expected it, got nothing$"),
        ("schema: ccatune-study/1\ncca: gr\nseed: 18446744073709551616\n", "seed: expected less than"),
        (
            "schema: ccatune-study/1\ncca: gr\nclasses: [{queueing_delay_ms: 50}]\n"
            "search: {kind: grid, counts: [0, 2, 2]}\n",
            "search.grid.counts.0: expected",
        ),
    ],
)
def test_what_is_no_study_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrainingError, match=f"study.yaml: {message}"):
        load_study(written(tmp_path, text))


def test_a_study_of_another_algorithm_is_told_by_its_name() -> None:
    with pytest.raises(TrainingError, match=r"rtcp.yaml: expected a study of gr, got one of 'rtcp_bbr'$"):
        load_study(SHIPPED / "rtcp.yaml", cca="gr")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(TrainingError, match=r"nowhere.yaml: cannot be read"):
        load_study(Path("nowhere.yaml"))


def test_the_digest_changes_with_any_choice() -> None:
    digests = {
        study(**change).digest for change in ({}, {"seed": 2}, {"levels": {"count": 9}}, {"link": {"loss": 0.01}})
    }
    assert len(digests) == 4
    assert study().digest == study().digest


def test_the_search_is_the_one_that_was_chosen() -> None:
    assert isinstance(make_search(study(), state=0, delay_class=0), DdsSearch)
    assert isinstance(
        make_search(study(search={"kind": "grid", "counts": [2, 2, 2]}), state=0, delay_class=0), GridSearch
    )


def test_states_and_seeds_search_apart_and_classes_share_their_samples() -> None:
    def first(state: int, delay_class: int, seed: int | None = None) -> object:
        return make_search(study(), state=state, delay_class=delay_class, seed=seed).ask(4)

    assert first(1, 0) == first(1, 1)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, 0, seed=9)


def test_an_estimate_longer_than_an_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="estimate_ms of at most an epoch"):
        study(epochs={**STUDY["epochs"], "estimate_ms": 5001})  # type: ignore[dict-item]
