# SPDX-License-Identifier: MIT
"""Compares a paper's statement with the simulator's figures: means with their 95 % intervals.

A figure agrees with a bound or a comparison if it misses it by no more than its interval. A comparison pairs the values
seed by seed.

    mean    Student's interval
    ratio   of two sums: percentile bootstrap over runs (Efron, Tibshirani 1993, chapter 13)
    share   Wilson's interval. Its ends differ in distance from the share, and the larger distance is shown
            (training/intervals.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, ValidationInfo

from emulation.run.plot import FAINT, INK
from training.intervals import LEAST_SEEDS, drawn_rows, interval_95, interval_of, wilson_95

WIDTH = 118
BOOTSTRAP_SEED = 1
UNVALIDATED = "*"  # follows the name of an algorithm whose original no kernel here has


def _enough(seeds: int) -> int:
    if seeds < LEAST_SEEDS:
        raise ValueError(f"expected at least {LEAST_SEEDS}, fewer give no 95 % interval; got {seeds}")
    return seeds


def _beside(path: Path, info: ValidationInfo) -> Path:
    return info.context / path if isinstance(info.context, Path) else path


# The number of seeds of each case of a report.
Seeds = Annotated[int, Field(le=10_000), AfterValidator(_enough)]
# A path in a settings file, relative to the file's folder. read_settings() puts the folder before it.
SettingsPath = Annotated[Path, AfterValidator(_beside)]


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


def sums_over(label: str, values: NDArray[np.float64], than: NDArray[np.float64], *, least: float = -math.inf,
              most: float = math.inf) -> Figure:  # fmt: skip
    """Check that the sum of one algorithm's runs over the other's is from `least` to `most`, up to its interval.

    values, than: float [runs]; both drew the same links.
    """
    drawn = drawn_rows(len(values), seed=BOOTSTRAP_SEED)
    half = half_of(np.array([values[rows].sum() / than[rows].sum() for rows in drawn]))
    ratio = float(values.sum() / than.sum())
    return Figure(label, ratio, half, least - half <= ratio <= most + half, "x")


def half_of(drawn: NDArray[np.float64]) -> float:
    """Half the width of the 95 % interval of a figure, of which these are the draws of a bootstrap."""
    low, high = interval_95(drawn)
    return (high - low) / 2


def with_interval(values: NDArray[np.float64], *, digits: int = 1, scale: float = 1) -> str:
    """The mean of the runs with its 95 % interval, in a cell of a table."""
    return f"{scale * values.mean():.{digits}f} ± {scale * interval_of(values):.{digits}f}"


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
    for the words. figures: makes the figures from the part of a campaign that the
    statement is about.
    """

    name: str
    words: str
    expected: str
    figures: Callable[[V_contra], list[Figure]]

    @property
    def unvalidated(self) -> bool:
        """Whether it is about an algorithm whose original no kernel here has."""
        return "BBRv3" in self.words


def row_of(
    statement: Statement[Any], figures: Sequence[Figure], *, at: str = "", words: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A statement and its figures as JSON data. `agrees`: whether all figures agree.

    at: where the figures were found. words: replace names in braces in the statement's texts.
    """
    return {
        "statement": statement.name,
        "words": statement.words.format_map(words or {}),
        "expected": statement.expected.format_map(words or {}),
        "unvalidated": statement.unvalidated,
        "at": at,
        "figures": [figure.summary() for figure in figures],
        "agrees": all(figure.agrees for figure in figures),
    }


def statement_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A paragraph for each statement: its words, then a line or more for each of its rows.

    The rows of one statement follow each other.
    """
    lines: list[str] = []
    before = None
    width = max((len(row["at"]) for row in rows), default=0)
    for row in rows:
        if row["statement"] != before:
            mark = "; unvalidated" if row["unvalidated"] else ""
            lines.append(f"{row['statement']}  {row['words']} ({row['expected']}{mark})")
        before = row["statement"]
        place = f"{row['at']:>{width}}  " * bool(width)
        start = f"  {place}{'agrees' if row['agrees'] else 'differs'}  "
        # A figure is not broken over two lines.
        figures = ", ".join(figure["text"].replace(" ", "\0") for figure in row["figures"])
        found = wrap(figures, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)
        lines += [line.replace("\0", " ") for line in found]
    return lines


def arrows(*values: NDArray[np.float64], scale: float = 100, digits: int = 1) -> str:
    """Means in a cell of a table, in percent unless `scale` is another: without R-TCP > with it."""
    return " > ".join(f"{scale * of_each.mean():.{digits}f}" for of_each in values)


def heads_of(values: Iterable[float], unit: str) -> list[str]:
    """Heads of columns, of which the first has the unit."""
    first, *others = (f"{value:g}" for value in values)
    return [f"{first} {unit}", *others]


def megabytes_of(sizes_bytes: Iterable[int]) -> list[str]:
    """Heads of columns of sizes, in MB."""
    return heads_of((size / 1e6 for size in sizes_bytes), "MB")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (heads, ["---"] * len(heads), *rows)]


def dress(axes: Axes) -> None:
    """Give a panel the look of all pictures: a faint grid, and no lines above and on the right."""
    axes.grid(color=FAINT, alpha=0.25, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_rates(axes: Axes, sizes_bytes: Sequence[int], rates: Sequence[NDArray[np.float64]], *, name: str,
               bucket_bytes: int, **style: Any) -> None:  # fmt: skip
    """Draw mean retransmission rates over the size of a file, with their 95 % intervals as a shade.

    A vertical line marks the bucket. rates: for each size one value a seed. name: of the algorithm.
    """
    sizes_mb = np.array(sizes_bytes) / 1e6
    mean = 100 * np.array([values.mean() for values in rates])
    half = 100 * np.array([interval_of(values) for values in rates])
    axes.fill_between(sizes_mb, mean - half, mean + half, color=style["color"], alpha=0.2, lw=0)
    axes.plot(sizes_mb, mean, label=name.replace(UNVALIDATED, " (unvalidated)"), **style)
    axes.axvline(bucket_bytes / 1e6, color=FAINT, lw=1, ls=(0, (2, 2)))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes_mb.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda mb, _at: f"{mb:g}"))
    axes.set_xlabel("file (MB)", color=INK)
    dress(axes)
