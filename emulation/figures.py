# SPDX-License-Identifier: MIT
"""A paper's statement beside our figure: means with their 95 % intervals, and whether they are as stated.

Every bound and every comparison is one up to the interval: a mean, or the mean of what is compared seed by seed, that
misses by no more than its interval still agrees.

    mean    t s / sqrt(n), Student's t with n - 1 degrees of freedom; n >= 5
    share   Wilson 1927: the shares p0 for which k of n are within 1.96 sqrt(p0 (1 - p0) / n) of p0; shown is the
            farther of its ends
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

__all__ = [
    "LEAST_SEEDS", "UNVALIDATED", "Figure", "Seeds", "Statement", "above", "below", "interval_of", "megabytes",
    "number", "quotients", "row_of", "share", "statement_lines", "student_t95", "within",
]  # fmt: skip

LEAST_SEEDS = 5  # the interval's series for Student's t: 0.2 % too small with 5, 24 % with 2
Z95 = 1.959964
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


def student_t95(n: int) -> float:
    """The 97.5 % point of Student's t with n - 1 degrees of freedom (Abramowitz and Stegun 26.7.5; n >= 5: 0.3 %)."""
    z, v = Z95, n - 1
    powers = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / float(v**i) for i, term in enumerate(powers))


def interval_of(values: NDArray[np.float64]) -> float:
    """Half width of the mean's 95 % interval; values [n], n >= 5."""
    return student_t95(len(values)) * float(values.std(ddof=1)) / math.sqrt(len(values))


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
    p, z2 = hits / of, Z95**2
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * math.sqrt(p * (1 - p) / of + z2 / (4 * of**2)) / (1 + z2 / of)
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == of else middle + half
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
