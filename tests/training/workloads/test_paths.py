# SPDX-License-Identifier: MIT
"""Paths that are drawn from a distribution, and epochs over them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from links import epochs_of_links, recording, study

from emulation.scenario.model import LinkSpec
from emulation.scenario.path import AckPath
from training.errors import TrainingError
from training.study import StudySettings
from training.workloads import Sample
from training.workloads.paths import FOLDER, PathsSettings, read_paths

NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_distribution_gives_the_links_that_it_states(name: str) -> None:
    paths = read_paths(name)
    drawn = [LinkSpec(rate_mbps=5, **paths.draw(str(n), seed=1, duration_s=60)) for n in range(1000)]
    assert drawn[:50] == [LinkSpec(rate_mbps=5, **paths.draw(str(n), seed=1, duration_s=60)) for n in range(50)]
    assert drawn[0] != LinkSpec(rate_mbps=5, **paths.draw("0", seed=2, duration_s=60))
    low, high = paths.rtt_ms
    assert (
        low <= min(link.rtt_ms for link in drawn) < 1.2 * low < 0.8 * high < max(link.rtt_ms for link in drawn) <= high
    )
    kinds = Counter(element.kind for link in drawn for element in link.behind)
    pauses = [one.share for one in (paths.stall_ms, paths.outage_s) if one]
    shares = {
        "clock": paths.hold_ms.share if paths.hold_ms else 0,
        "jitter": paths.jitter_ms.share if paths.jitter_ms else 0,
        "access": sum(pauses),
    }
    for kind, share in shares.items():
        assert kinds[kind] / len(drawn) == pytest.approx(share, abs=0.05)
    bunched = sum(some.share for some in paths.ack_interval_ms)
    assert sum(link.acks.interval_ms is not None for link in drawn) / len(drawn) == pytest.approx(bunched, abs=0.05)


def test_an_element_does_not_change_the_draws_of_the_others() -> None:
    paths = read_paths("cellular")
    without = paths.model_copy(update={"hold_ms": None, "stall_ms": None})
    fewer = paths.model_copy(update={"ack_interval_ms": paths.ack_interval_ms[:1]})
    for n in range(50):
        one, other, third = (each.draw(str(n), seed=1, duration_s=60) for each in (paths, without, fewer))
        assert {k: v for k, v in one.items() if k != "behind"} == {k: v for k, v in other.items() if k != "behind"}
        assert set(other["behind"]) <= set(one["behind"])
        assert {k: v for k, v in one.items() if k != "acks"} == {k: v for k, v in third.items() if k != "acks"}
        assert third["acks"] in (one["acks"], AckPath())


def test_a_part_of_a_run_has_the_pauses_of_the_run() -> None:
    always = {"share": 1, "between": [1, 1], "every_s": [5, 20]}
    paths = PathsSettings.model_validate({"name": "x", "rtt_ms": [50, 50], "buffer_pkts": [9, 9], "outage_s": always})

    def pauses(from_s: float) -> list[float]:
        (element,) = paths.draw("run", seed=1, duration_s=120, from_s=from_s)["behind"]
        return [round(step.at_s + from_s, 6) for step in element.steps if step.rate_mbps == 0]

    whole = pauses(0)
    assert len(whole) >= 6
    assert pauses(60) == [at_s for at_s in whole if at_s > 60]


def test_each_piece_of_a_recording_has_a_path_of_its_own_for_all_its_epochs() -> None:
    workload = {"kind": "epochs", "minimum": 1, "maximum": 50, "piece_s": 60, "warmup_s": 1, "shortest_s": 5}
    settings = study(workload={**workload, "paths": "cellular"}, clock={"epoch_s": 10})
    epochs = epochs_of_links(settings, [recording("a", seed=1, seconds=300)])
    cases = [case for state in settings.states for case in epochs.cases([state], "training", Sample())]
    by_piece: dict[str, set[float]] = {}
    for case in cases:
        by_piece.setdefault(case.scenario.name.split("[")[1], set()).add(case.scenario.link.rtt_ms)
    assert len(by_piece) >= 4
    assert all(len(rtts) == 1 for rtts in by_piece.values())
    assert len(set.union(*by_piece.values())) == len(by_piece)
    # The digest has the content of the distribution, and the study can be read from its provenance.
    kept = settings.model_dump(mode="json", by_alias=True)
    assert kept["workload"]["paths"]["rtt_ms"] == [20, 300]
    assert StudySettings.model_validate(kept).digest == settings.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"expected a file, or a name in configs/paths \(cellular, satellite, wifi, wired\)"),
        ("rtt_ms: [20, 10]\nbuffer_pkts: [1, 2]", "rtt_ms: .*expected two ends above 0, the lower one first"),
        ("rtt_ms: [20, 30]\nbuffer_pkts: [1, 2]\nwind: 3", "wind"),
        (
            "rtt_ms: [20, 30]\nbuffer_pkts: [1, 2]\nack_interval_ms: [{share: 0.6, between: [1, 2]}, "
            "{share: 0.6, between: [3, 4]}]",
            "ack_interval_ms: .*add up to at most 1",
        ),
    ],
)
def test_a_wrong_distribution_is_refused_with_its_place(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(TrainingError, match=message):
        read_paths(file)
