# SPDX-License-Identifier: MIT
"""A paper's statement beside our figure: means with their 95 % intervals, and whether they are as stated.

Every bound and every comparison is one up to the interval: a mean, or the mean of what is compared seed by seed, that
misses by no more than its interval still agrees.

    mean    Student's interval
    share   Wilson's interval, of which the farther end is shown (training/intervals.py)
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

UNVALIDATED = "*"  # behind the name of what no kernel here has


def _enough(seeds: int) -> int:
    if seeds < LEAST_SEEDS:
        raise ValueError(f"expected at least {LEAST_SEEDS}, fewer give no 95 % interval; got {seeds}")
    return seeds


# A report's seeds, of each case.
Seeds = Annotated[int, Field(le=10_000), AfterValidator(_enough)]


@dataclass(frozen=True)
class Figure:
    """A mean with the half width of its 95 % interval (not a number: it has none), and whether it is as stated."""

    label: str
    mean: float
    interval: float
    agrees: bool
    unit: str = "%"

    def text(self) -> str:
        """Short, for the table; shares in percent."""
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
    """The mean, up to its interval, from `least` to `most`, if the interval fits between two bounds.

    What did not happen with every seed (not a number) never is.
    """
    mean, interval = float(values.mean()), interval_of(values)
    certain = 2 * interval <= most - least
    return Figure(label, mean, interval, certain and least - interval <= mean <= most + interval, unit)


def below(label: str, values: NDArray[np.float64], than: NDArray[np.float64], *, unit: str = "%") -> Figure:
    """values - than, seed by seed, below 0 up to its interval; shown: values, with the difference's interval."""
    apart = values - than
    interval = interval_of(apart)
    return Figure(label, float(values.mean()), interval, float(apart.mean()) <= interval, unit)


def above(label: str, values: NDArray[np.float64], than: NDArray[np.float64], *, unit: str = "%") -> Figure:
    """values - than, seed by seed, above 0 up to its interval; shown: values, with the difference's interval."""
    beside = below(label, than, values, unit=unit)
    return replace(beside, mean=float(values.mean()))


def quotients(values: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """values / base, seed by seed; by 0: not a number, which is within no bound."""
    return np.divide(values, base, out=np.full_like(values, np.nan), where=base != 0)


def share(label: str, hits: int, of: int, *, least: float = 0.0, most: float = 1.0) -> Figure:
    """hits of so many (at least one), from `least` to `most` up to Wilson's interval."""
    p, (low, high) = hits / of, wilson_95(hits, of)
    return Figure(label, p, max(p - low, high - p), low <= most and high >= least)


def number(value: float) -> float | None:
    """JSON has no word for what is not a number."""
    return value if math.isfinite(value) else None


def megabytes(size_bytes: int) -> str:
    """A size as papers have it."""
    return f"{size_bytes / 1e6:g} MB"


V_contra = TypeVar("V_contra", contravariant=True)


@dataclass(frozen=True)
class Statement(Generic[V_contra]):
    """name: section and number; issue: a target of our own. expected: the bound that stands for words.

    figures: over what of a campaign it is about. unvalidated: of what no kernel here has.
    """

    name: str
    words: str
    expected: str
    figures: Callable[[V_contra], list[Figure]]
    unvalidated: bool = False


def row_of(statement: Statement[Any], figures: Sequence[Figure], **at: object) -> dict[str, Any]:
    """A statement beside its figures as JSON data, with where they were found; `agrees` where all are as stated."""
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
    """A paragraph for each statement: its words, then a line for each of its rows, named by the row's entry `at`.

    rows: those of one statement follow each other; with `statement`, `words`, `expected`, `unvalidated`, `agrees` and
    `figures` as of Figure.summary.
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
