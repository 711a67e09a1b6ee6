# SPDX-License-Identifier: MIT
"""Random scenarios with the engine's accounts checked at every event: the short form of `make prove
ARGS=fuzz-scenarios`."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from emulation import EmulationError, simulate
from emulation.scenario.files import load_scenario
from tests.emulation.engine.links import assert_balanced
from tests.emulation.engine.test_determinism import fingerprint
from tests.prove.fuzz_scenarios import check, fault_of, minimise
from tests.prove.scenarios import CCAS, Drawn, draw, load, save

NUMBERS = range(1_000_000, 1_000_300)


@pytest.mark.parametrize("first", NUMBERS[::50])
def test_drawn_scenarios_add_up_and_complete(first: int) -> None:
    for number in range(first, first + 50):
        assert_balanced(check(load(draw(number))))


def test_drawn_scenarios_cover_every_algorithm_element_and_kind_of_link() -> None:
    documents = [draw(number).document for number in NUMBERS]
    links = [document["link"] for document in documents]
    kinds = {element["kind"] for link in links for side in ("before", "behind") for element in link.get(side, ())}
    assert kinds == {"access", "policer", "shaper", "loss", "gilbert_elliott", "jitter", "clock", "reorder"}
    assert {flow["cca"] for document in documents for flow in document["flows"]} == set(CCAS)
    assert {name for link in links for name in link} >= {"trace", "rate_mbps", "steps", "codel", "loss", "acks"}
    names = {name for document in documents for flow in document["flows"] for name in flow}
    assert names >= {"stop_s", "size_bytes", "transfers"}


def test_an_audited_run_gives_the_same_result() -> None:
    for number in NUMBERS[:30]:
        scenario = load(draw(number))
        assert fingerprint(simulate(scenario, audit=True)) == fingerprint(simulate(scenario))


def test_a_number_draws_the_same_scenario_and_a_file_of_it_loads_the_same(tmp_path: Path) -> None:
    for number in NUMBERS[:30]:
        drawn = draw(number)
        assert drawn == draw(number)
        assert load_scenario(save(drawn, tmp_path / str(number))) == load(drawn)


def test_a_file_that_does_not_complete_is_a_fault() -> None:
    drawn = Drawn(
        {
            "name": "dead",
            "link": {
                "rate_mbps": 10.0,
                "behind": [{"kind": "gilbert_elliott", "to_bad": 1.0, "to_good": 1e-9}],
            },
            "flows": [{"cca": "reno", "params": {}, "start_s": 0.0, "size_bytes": 10_000}],
            "duration_s": 3600.0,
        }
    )
    with pytest.raises(EmulationError, match="flow 0: 0 of 1 transfers are complete"):
        check(load(drawn))


def test_what_fails_is_made_smaller_for_as_long_as_it_fails() -> None:
    drawn = next(drawn for drawn in map(draw, NUMBERS) if len(drawn.document["flows"]) == 6)
    drawn.document["flows"][3] = {"cca": "bbr", "params": {}, "start_s": 0.5, "size_bytes": 100_000}
    before = copy.deepcopy(drawn.document)

    def fails(candidate: Drawn) -> bool:
        return any(flow["cca"] == "bbr" and flow.get("size_bytes", 0) > 20_000 for flow in candidate.document["flows"])

    least = minimise(drawn, fails).document
    assert drawn.document == before
    assert [flow["cca"] for flow in least["flows"]] == ["bbr"]
    assert 20_000 < least["flows"][0]["size_bytes"] <= 40_000
    assert not {"before", "behind", "acks", "loss", "codel"} & {name for name, value in least["link"].items() if value}


def test_a_sound_scenario_has_no_fault() -> None:
    assert fault_of(draw(NUMBERS[0])) is None
