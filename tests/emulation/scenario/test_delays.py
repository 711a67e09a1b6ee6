# SPDX-License-Identifier: MIT
"""Delays over time: their files, what they refuse, and how they stand in a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from emulation import BaseDelay, DelayStep, EmulationError, LinkSpec
from emulation.scenario.delays import read_delay_trace
from emulation.scenario.files import load_scenario

TWO = BaseDelay(steps=(DelayStep(at_s=0, rtt_ms=25), DelayStep(at_s=15, rtt_ms=60)), period_s=30)


def test_a_file_has_the_delay_of_one_direction_and_its_period_last(tmp_path: Path) -> None:
    file = tmp_path / "a.delays"
    file.write_text("# a hand-over\n0 12.5\n\n15000 30  # longer\n30000\n")
    assert read_delay_trace(file) == TWO


@pytest.mark.parametrize("period_s", [30, None])
def test_delays_are_read_back_as_they_are_written(tmp_path: Path, period_s: float | None) -> None:
    file = tmp_path / "a.delays"
    delays = TWO.model_copy(update={"period_s": period_s})
    file.write_text("\ufeff" + delays.as_file())
    assert read_delay_trace(file) == delays


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n5 x\n", "line 2: expected `time_ms delay_ms`, got '5 x'"),
        ("0 1 2\n", "line 1: expected `time_ms delay_ms`"),
        ("0 nan\n", "line 1: expected `time_ms delay_ms`"),
        ("0 0\n", "line 1: expected a time of 0 to 86400000 ms and a delay above 0, of at most 30000 ms, got '0 0'"),
        ("0 30001\n", "line 1: expected a time"),
        ("0 1\n5\n6 1\n", "line 3: expected no line after the end of the trace"),
        ("1 1\n", "expected steps at 0"),
        ("0 1\n5 1\n5 2\n", "expected steps at 0 and then ascending at_s, got 0.005 after 0.005"),
        ("0 1\n5 1\n5\n", "expected period_s after the last step at 0.005 s, got 0.005"),
        ("24\n25\n", "line 1: expected `time_ms delay_ms`, got '24'; convert LeoReplayer's files with `ccatune traces"),
        ("# nothing\n", "expected lines of `time_ms delay_ms`, got none"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.delays"
    file.write_text(text)
    with pytest.raises(EmulationError) as caught:
        read_delay_trace(file)
    assert f"{file}: {message}" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"none\.delays: cannot be read"):
        read_delay_trace(tmp_path / "none.delays")


def test_rtt_ms_beside_delays_is_the_shortest_one() -> None:
    link = LinkSpec(rate_mbps=1, delays=TWO)
    assert link.rtt_ms == 25
    assert LinkSpec.model_validate(link.model_dump()) == link
    with pytest.raises(ValidationError, match="expected either rtt_ms or delays, got both"):
        LinkSpec(rate_mbps=1, rtt_ms=60, delays=TWO)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{trace: a.delays, period_s: 3}", r"link\.delays: expected either trace or steps, got trace beside period_s"),
        ("{trace: none.delays}", r"none\.delays: cannot be read"),
        ("{steps: [{at_s: 0, delay_ms: 3}]}", r"link\.delays\.steps\.0\.rtt_ms: expected it"),
        ("{steps: [{at_s: 0, rtt_ms: 3, x: 1}]}", r"link\.delays\.steps\.0\.x: expected one of at_s, rtt_ms"),
        ("{steps: [{at_s: 0, rtt_ms: 3}], every_s: 1}", r"link\.delays\.every_s: expected one of steps, .*trace"),
        ("3", r"link\.delays: "),
    ],
)
def test_bad_delays_of_a_scenario_are_refused_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.delays").write_text("0 12.5\n")
    file = tmp_path / "s.yaml"
    file.write_text(f"link: {{rate_mbps: 3, delays: {text}}}\n")
    with pytest.raises(EmulationError, match=message):
        load_scenario(file)


def test_the_ramp_rises_by_35_ms_and_falls_again(repository: Path) -> None:
    delays = load_scenario(repository / "configs" / "scenarios" / "delay-ramp.yaml").link.delays
    assert delays is not None
    assert (delays.least_rtt_ms, delays.most_rtt_ms, delays.period_s) == (25, 60, 60)
    assert delays.steps[100].rtt_ms == 60
