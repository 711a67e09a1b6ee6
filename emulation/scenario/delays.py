# SPDX-License-Identifier: MIT
"""A propagation delay that changes over time (the base delay of a path), and its file format.

Each packet gets the delay that is in force when the packet enters. It never overtakes the packets before it:

    leaves_n = max(enters_n + delay(enters_n), leaves_(n-1))

Each direction has half of rtt_ms as its delay. The formula is the same for both.

A file has a line for each change of the delay. `#` begins a comment.

    0 12.5              from 0 ms on, a delay of 12.5 ms in each direction (an RTT of 25 ms)
    15000 30            from 15 s on, 30 ms
    30000               at 30 s the file repeats from its first line. Without such a line the last delay stays

This is also the format of the shell that delays the packets of real runs (emulation/mahimahi/shell).
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from emulation.errors import EmulationError
from emulation.scenario.path import Frozen

MOST_STEPS = 1_000_000
_LEAST_STEP_S = 1e-6


class DelayStep(Frozen):
    """A propagation delay, and the time at which it begins."""

    at_s: float = Field(ge=0, le=86400, description="time since the start of the run, or of the period")
    rtt_ms: float = Field(gt=0, le=60_000, description="propagation delay, both ways together")


class BaseDelay(Frozen):
    """Propagation delays over time. They repeat after period_s. Without period_s the last delay stays."""

    steps: tuple[DelayStep, ...] = Field(
        min_length=1, max_length=MOST_STEPS, description="in order of time, the first one at 0 s"
    )
    period_s: float | None = Field(
        None, gt=0, le=86400, description="time after which the steps repeat; None: they do not repeat"
    )

    @model_validator(mode="after")
    def _in_order(self) -> BaseDelay:
        times_s = [step.at_s for step in self.steps]
        if times_s[0] != 0:
            raise ValueError(f"expected steps at 0 and then ascending at_s, got the first step at {times_s[0]:g}")
        for before_s, at_s in pairwise(times_s):
            if at_s - before_s < _LEAST_STEP_S:
                raise ValueError(f"expected steps at 0 and then ascending at_s, got {at_s:g} after {before_s:g}")
        if self.period_s is not None and self.period_s - times_s[-1] < _LEAST_STEP_S:
            raise ValueError(f"expected period_s after the last step at {times_s[-1]:g} s, got {self.period_s:g}")
        return self

    @property
    def least_rtt_ms(self) -> float:
        """The shortest of the delays, both ways together."""
        return min(step.rtt_ms for step in self.steps)

    @property
    def most_rtt_ms(self) -> float:
        """The longest of the delays, both ways together."""
        return max(step.rtt_ms for step in self.steps)

    def longer(self, by_ms: float) -> BaseDelay:
        """Return these delays, each extended by by_ms, which is for both ways together."""
        steps = tuple(DelayStep(at_s=step.at_s, rtt_ms=step.rtt_ms + by_ms) for step in self.steps)
        return self.model_copy(update={"steps": steps})

    def as_file(self) -> str:
        """Return these delays in the format of a file."""
        lines = [f"{step.at_s * 1000:.6f} {step.rtt_ms / 2:.6f}\n" for step in self.steps]
        return "".join(lines) + ("" if self.period_s is None else f"{self.period_s * 1000:.6f}\n")


def read_delay_trace(path: Path) -> BaseDelay:
    """Read a file of delays.

    Raises EmulationError if the file cannot be read, or a line is invalid. The message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise EmulationError(f"{path}: cannot be read ({reason})") from error
    steps: list[DelayStep] = []
    period_s: float | None = None
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        values = _numbers(words)
        if not values or period_s is not None or (len(values) == 1 and not steps):
            expected = "no line after the end of the trace" if period_s is not None else "`time_ms delay_ms`"
            hint = (
                "; convert LeoReplayer's files with `ccatune traces import`" if len(values) == 1 and not steps else ""
            )
            raise EmulationError(f"{path}: line {number}: expected {expected}, got {line.strip()!r}{hint}")
        if len(values) == 1:
            period_s = values[0] / 1000
            continue
        try:
            steps.append(DelayStep(at_s=values[0] / 1000, rtt_ms=2 * values[1]))
        except ValidationError as error:
            fault = "a time of 0 to 86400000 ms and a delay above 0, of at most 30000 ms"
            raise EmulationError(f"{path}: line {number}: expected {fault}, got {line.strip()!r}") from error
    try:
        return BaseDelay(steps=tuple(steps), period_s=period_s)
    except ValidationError as error:
        text = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise EmulationError(
            f"{path}: {text if steps else 'expected lines of `time_ms delay_ms`, got none'}"
        ) from error


def _numbers(words: list[str]) -> list[float]:
    """Return the one or two finite numbers of a line. The result is empty for any other line."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        return []
    return values if len(values) <= 2 and all(map(math.isfinite, values)) else []
