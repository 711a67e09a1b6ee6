# SPDX-License-Identifier: MIT
"""The part `verify` of a study."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field

from emulation.mahimahi.machine import LATE_MOST
from training.fields import StudyPart
from training.workloads import State

RunnerName = Literal["simulator", "mahimahi", "pantheon", "vm"]


class VerifySettings(StudyPart):
    """The best points of some states run on a real kernel, which chooses among them."""

    runner: RunnerName = Field(
        "mahimahi",
        description="mahimahi: this machine's kernel. vm: the virtual machine's, up to ten times slower than real "
        "time. pantheon: mahimahi, with packets measured at both ends of the path. simulator: a trial without a "
        "kernel, over a path with Mahimahi's clock of whole ms",
    )
    finalists: int = Field(2, ge=1, le=8, description="points of each state and delay class, the simulator's choice "
                           "among them")  # fmt: skip
    runs: int = Field(3, ge=2, le=100, description="of each point; every run has a case of its own while there are any")
    duration_s: float = Field(30.0, gt=0, le=3600, description="measured time of a run, at most, where warm-up comes "
                              "on top; or the time for which a policer's rate carries the file")  # fmt: skip
    most_late: float = Field(LATE_MOST, gt=0, le=1, description="share of late timers above which a run is repeated")
    states: Annotated[int, Field(ge=1)] | tuple[State, ...] | None = Field(
        None, description="at most so many, spread over the states that train; or these; none: all that train"
    )
    classes: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, description="delay classes; none: all")
    confidence: float = Field(
        0.95, ge=0.5, lt=1, description="one-sided, of Student's t: a difference that is less certain is chance"
    )

    def check(self, *, workload: str, states: Collection[State], n_classes: int) -> None:
        """Refuse what the study does not have.

        Raises:
            ValueError: with the field's name.
        """
        if workload == "policed" and self.runner == "pantheon":
            raise ValueError(
                "verify.runner: expected mahimahi, vm or simulator with the workload policed, got pantheon"
            )
        unknown = [state for state in self.states if state not in states] if isinstance(self.states, tuple) else []
        if unknown:
            raise ValueError(f"verify.states: expected states of the study, got {', '.join(map(str, unknown))}")
        if self.classes is not None and max(self.classes, default=0) >= n_classes:
            raise ValueError(f"verify.classes: expected classes below {n_classes}, got {max(self.classes)}")
