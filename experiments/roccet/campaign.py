# SPDX-License-Identifier: MIT
"""The parts of `python -m experiments roccet`: the cases of each part, and the function that judges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from emulation.traces import Recording
from experiments.roccet.cases import made_cases, recorded_cases
from experiments.roccet.made import judge_frozen, judge_halved
from experiments.roccet.recorded import judge_recorded
from experiments.roccet.runs import Case, Results, run_cases
from experiments.roccet.settings import RoccetSettings
from experiments.roccet.share import judge_share
from training.study.journal import Journal

__all__ = ["PARTS", "Campaign", "plan"]

PARTS: dict[str, tuple[str, Callable[[RoccetSettings, Results], list[dict[str, Any]]]]] = {
    "frozen": ("the frozen window, section III", judge_frozen),
    "halved": ("capacity halved, section IX", judge_halved),
    "recorded": ("recorded links, sections VI and VII", judge_recorded),
    "share": ("bandwidth share and harm, section VIII", judge_share),
}


@dataclass(frozen=True)
class Campaign:
    """The cases of each part, in the order of PARTS."""

    settings: RoccetSettings
    cases: dict[str, list[Case]]

    @property
    def every(self) -> list[Case]:
        """All cases."""
        return [case for cases in self.cases.values() for case in cases]

    def seconds(self, part: str) -> float:
        """The simulated time of a part, in seconds."""
        return sum(scenario.duration_s for case in self.cases[part] for scenario in case.scenarios)

    def run(
        self, part: str, *, journal: Journal | None = None, threads: int | None = None,
        advance: Callable[[float], None] = lambda _seconds: None,
    ) -> Results:  # fmt: skip
        """Run a part's cases; see run_cases."""
        return run_cases(self.cases[part], journal=journal, threads=threads, advance=advance)

    def judge(self, part: str, results: Results) -> list[dict[str, Any]]:
        """A row for each statement of a part, at each place where the statement is judged."""
        title, judge = PARTS[part]
        return [{"part": part, "title": title, **row} for row in judge(self.settings, results)]


def plan(settings: RoccetSettings, *, parts: Sequence[str], recordings: Sequence[Recording]) -> Campaign:
    """The cases of these parts, in the order of PARTS. recordings: for the part `recorded`."""
    return Campaign(
        settings,
        {
            part: list(recorded_cases(settings, recordings)) if part == "recorded" else made_cases(settings, part)
            for part in PARTS
            if part in parts
        },
    )
