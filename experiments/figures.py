# SPDX-License-Identifier: MIT
"""Compares a paper's statement with the simulator's figures: means with their 95 % intervals.

A figure agrees with a bound or a comparison if it misses it by no more than its interval. A comparison pairs the values
seed by seed.

    mean    Student's interval
    share   Wilson's interval. Its ends differ in distance from the share, and the larger distance is shown
            (training/intervals.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from training.intervals import LEAST_SEEDS, interval_of, wilson_95

__all__ = [
    "UNVALIDATED", "Figure", "Seeds", "Statement", "above", "below", "megabytes", "number", "quotients", "row_of",
    "share", "statement_lines", "within",
]  # fmt: skip

UNVALIDATED = "*"  # follows the name of an algorithm that no kernel here has


def _enough(seeds: int) -> int:
    if seeds < LEAST_SEEDS:
        raise ValueError(f"expected at least {LEAST_SEEDS}, fewer give no 95 % interval; got {seeds}")
    return seeds


# The number of seeds of each case of a report.
Seeds = Annotated[int, Field(le=10_000), AfterValidator(_enough)]


@dataclass(frozen=True)
class Figure:
    """A mean with the half width of its 95 % interval, and whether it agrees with the statement.

    An interval of NaN means that the figure has none.
    """

    label: str
    mean: float
    interval: float
    agrees: bool
    unit: str = "%"

    def text(self) -> str:
        """A short text for the table, with shares in percent; `!` marks a figure that differs."""
        scale, digits = (100, 1) if self.unit == "%" else (1, 2)
        interval = "" if math.isnan(self.interval) else f" ± {scale * self.interval:.{digits}f}"
        figure = f"{scale * self.mean:.{digits}f}{interval} {self.unit}".rstrip()
        return f"{self.label} {figure}{'' if self.agrees else ' !'}"

    def summary(self) -> dict[str, object]:
        """The figure as JSON data."""
        return {"label": self.label, "mean": number(self.mean), "interval": number(self.interval), "unit": self.unit,
                "agrees": self.agrees, "text": self.text()}  # fmt: skip


def within(label: str, values: NDArray[np.float64], *, least: float = -math.inf, most: float = math.inf,
           unit: str = "%") -> Figure:  # fmt: skip
    """Check that the mean is from `least` to `most`, up to its interval.

    Between two bounds the interval must also fit. A value of NaN stands for an event that did not happen with a seed. A
    figure with such a value never agrees.
    """
    mean, interval = float(values.mean()), interval_of(values)
    certain = 2 * interval <= most - least
    return Figure(label, mean, interval, certain and least - interval <= mean <= most + interval, unit)


def below(label: str, values: NDArray[np.float64], than: NDArray[np.float64], *, unit: str = "%") -> Figure:
    """Check that `values - than`, paired by seed, is at most 0 up to its interval.

    The figure shows the mean of `values` with the interval of the difference.
    """
    apart = values - than
    interval = interval_of(apart)
    return Figure(label, float(values.mean()), interval, float(apart.mean()) <= interval, unit)


def above(label: str, values: NDArray[np.float64], than: NDArray[np.float64], *, unit: str = "%") -> Figure:
    """Check that `values - than`, paired by seed, is at least 0 up to its interval.

    The figure shows the mean of `values` with the interval of the difference.
    """
    beside = below(label, than, values, unit=unit)
    return replace(beside, mean=float(values.mean()))


def quotients(values: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """values / base, seed by seed. A quotient by 0 is NaN, which lies within no bound."""
    return np.divide(values, base, out=np.full_like(values, np.nan), where=base != 0)


def share(label: str, hits: int, of: int, *, least: float = 0.0, most: float = 1.0) -> Figure:
    """Check that the share `hits / of` is from `least` to `most`, up to Wilson's interval; of: at least 1."""
    p, (low, high) = hits / of, wilson_95(hits, of)
    return Figure(label, p, max(p - low, high - p), low <= most and high >= least)


def number(value: float) -> float | None:
    """The value, or None if it is not finite, because JSON has no such number."""
    return value if math.isfinite(value) else None


def megabytes(size_bytes: int) -> str:
    """A size in MB (10^6 bytes), as text."""
    return f"{size_bytes / 1e6:g} MB"


V_contra = TypeVar("V_contra", contravariant=True)


@dataclass(frozen=True)
class Statement(Generic[V_contra]):
    """A statement of a paper, or a requirement of this project.

    name: section and number; `issue` and `target` mark a requirement of this project. expected: the bound that stands
    for the words. figures: makes the figures from the part of a campaign that the statement is about. unvalidated:
    whether it is about an algorithm that no kernel here has.
    """

    name: str
    words: str
    expected: str
    figures: Callable[[V_contra], list[Figure]]
    unvalidated: bool = False


def row_of(statement: Statement[Any], figures: Sequence[Figure], **at: object) -> dict[str, Any]:
    """A statement and its figures as JSON data. `agrees`: whether all figures agree.

    at: entries that say where the figures were found.
    """
    return {
        "statement": statement.name,
        "words": statement.words,
        "expected": statement.expected,
        "unvalidated": statement.unvalidated,
        **at,
        "figures": [figure.summary() for figure in figures],
        "agrees": all(figure.agrees for figure in figures),
    }


def statement_lines(rows: Sequence[dict[str, Any]], *, at: str) -> list[str]:
    """A paragraph for each statement: its words, then a line for each of its rows.

    at: the entry of a row that names its line. rows: the rows of one statement follow each other. Each has the entries
    of `row_of`, with figures as of Figure.summary.
    """
    lines: list[str] = []
    before = None
    width = max((len(str(row[at])) for row in rows), default=0)
    for row in rows:
        if row["statement"] != before:
            mark = "; unvalidated" if row["unvalidated"] else ""
            lines.append(f"{row['statement']}  {row['words']} ({row['expected']}{mark})")
        before = row["statement"]
        figures = ", ".join(figure["text"] for figure in row["figures"])
        lines.append(f"  {row[at]:>{width}}  {'agrees' if row['agrees'] else 'differs'}  {figures}")
    return lines
