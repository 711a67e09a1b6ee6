# SPDX-License-Identifier: MIT
"""An ensemble as maps: a cell for each network state, coloured by its value in 8 steps.

    one axis    a row for each level, a column for each class
    two axes    a row for each level of the first, a column for each level of the second, for one class

A map is a table with its numbers, so that it needs neither colours nor scripts. It works on the document as published,
which was checked then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis
from serving.drift.schemas import DriftRead

_STEPS = 8
# A map has 64 x 64 states at most (kmod/core/ensemble.h).
_RATE, _TIME = "bytes_per_s", "us"


@dataclass(frozen=True, slots=True)
class Cell:
    """A state. kind: the classes of the style sheet: h0 to h7, and `changed`."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Grid:
    """A map. corner: the title of the rows. legend: a kind and the lowest value of its step."""

    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    legend: list[tuple[str, str]] = field(default_factory=list)


class Document:
    """A published ensemble: its axes, classes, columns and rows."""

    def __init__(self, text: str) -> None:
        data: dict[str, Any] = json.loads(text)
        self.digest: str = data["digest"]
        self.cca: str = data["cca"]
        self.epoch_ms: int = data["epoch_ms"]
        self.axes = [Axis(**axis) for axis in data["axes"]]
        self.classes: list[dict[str, int]] = data["classes"]
        self.columns: list[str] = data["columns"]
        self.rows: list[list[int]] = data["rows"]
        self.provenance: dict[str, Any] = data["provenance"]

    @property
    def n_classes(self) -> int:
        """Rows of a state."""
        return max(len(self.classes), 1)

    @property
    def n_states(self) -> int:
        """States, classes apart."""
        return len(self.rows) // self.n_classes

    def column(self, name: str) -> list[int] | None:
        """Return the values of a parameter in the order of the rows, or None without such a parameter."""
        if name not in self.columns:
            return None
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def has_states_of(self, other: Document) -> bool:
        """Whether both have the same axes and classes, so that their rows are about the same states."""
        return self.axes == other.axes and self.classes == other.classes

    def class_in_words(self, number: int) -> str:
        """Return the target of a class."""
        if not self.classes:
            return "all flows"
        one = self.classes[number]
        return f"class {number}: {one['percentile']} % within {one['queueing_delay_us'] / 1000:g} ms"


@dataclass(frozen=True)
class Change:
    """How a parameter differs between two ensembles. only_in: `this` or `other`, where one of them has it alone."""

    name: str
    n_changed: int = 0
    n_rows: int = 0
    least: str = ""
    most: str = ""
    only_in: str | None = None


def unit_of(cca: str, name: str) -> str:
    """Return the unit of a parameter as its map shows it."""
    unit = next((spec.unit for spec in ALGORITHMS[cca].columns if spec.name == name), "")
    return {"us": "ms", "pct": "%", "permille": "‰"}.get(unit, unit)


def _value_in_words(cca: str, name: str) -> Callable[[float], str]:
    scale = 1000 if unit_of(cca, name) == "ms" and name.endswith("_us") else 1
    return lambda value: f"{value / scale:.6g}"


def parameter_map(document: Document, name: str, *, delay_class: int, other: Document | None = None) -> Grid:
    """Return the map of a parameter. other: with the same states; cells that differ from it say `its value → this one`.

    delay_class: of the map, for two axes.
    """
    values = document.column(name) or []
    old = other.column(name) if other is not None else None
    words = _value_in_words(document.cca, name)
    shown = _rows_of_map(document, delay_class)
    colours = _Colours([values[row] for line in shown for row in line], words)

    def cell(row: int) -> Cell:
        if old is None or old[row] == values[row]:
            return Cell(words(values[row]), colours.of(values[row]))
        return Cell(f"{words(old[row])} → {words(values[row])}", f"{colours.of(values[row])} changed")

    unit = unit_of(document.cca, name)
    title = f"{name.removesuffix('_us')}, {unit}" if unit else name
    return _grid(document, title, [[cell(row) for row in line] for line in shown], colours, delay_class)


def visit_map(document: Document, drift: DriftRead) -> Grid | None:
    """Return how often flows visit each state, or None where visits are not compared."""
    if not drift.states:
        return None
    seen = {one.state: one for one in drift.states}
    lines = [[row // document.n_classes for row in line] for line in _rows_of_map(document, 0)]
    if len(document.axes) == 1:
        lines = [line[:1] for line in lines]
    colours = _Colours([one.share for one in drift.states] + [0.0], lambda share: f"{100 * share:.1f} %")

    def cell(state: int) -> Cell:
        one = seen.get(state)
        if one is None:
            return Cell("–")
        return Cell(f"{100 * one.share:.1f} ({100 * one.training_share:.1f})", colours.of(one.share))

    cells = [[cell(state) for state in line] for line in lines]
    columns = ["live (training)"] if len(document.axes) == 1 else None
    return _grid(document, "Share of the epochs that began in each state, in brackets that of training, %", cells,
                 colours, None, columns=columns)  # fmt: skip


def delay_map(document: Document, drift: DriftRead, *, delay_class: int) -> Grid | None:
    """Return how many times the allowed share of delay samples is above the target, or None without any figure."""
    rows = {one.state * document.n_classes + one.delay_class: one for one in drift.rows if one.late_ratio is not None}
    if not rows:
        return None
    colours = _Colours([one.late_ratio or 0.0 for one in rows.values()] + [0.0], lambda ratio: f"{ratio:.1f}")

    def cell(row: int) -> Cell:
        one = rows.get(row)
        if one is None:
            return Cell("–")
        bad = {"drifted": " changed bad", "watch": " changed"}.get(one.verdict, "")
        word = f" {one.verdict}" if bad else ""
        return Cell(f"{one.late_ratio:.1f}{word}", colours.of(one.late_ratio or 0.0) + bad)

    cells = [[cell(row) for row in line] for line in _rows_of_map(document, delay_class)]
    title = "Delay samples above the target, as multiples of the allowed share"
    return _grid(document, title, cells, colours, delay_class)


def changes(document: Document, other: Document) -> list[Change]:
    """Return how the parameters differ from those of an ensemble with the same states; none where they are equal."""
    found = []
    for name in sorted({*document.columns, *other.columns}):
        new, old = document.column(name), other.column(name)
        if new is None or old is None:
            found.append(Change(name, only_in="other" if new is None else "this"))
            continue
        differences = [a - b for a, b in zip(new, old, strict=True) if a != b]
        if differences:
            words, unit = _value_in_words(document.cca, name), unit_of(document.cca, name)
            least, most = (f"{'+' if one > 0 else ''}{words(one)} {unit}".rstrip() for one in
                           (min(differences), max(differences)))  # fmt: skip
            found.append(Change(name, len(differences), len(new), least, most))
    return found


class _Colours:
    """Steps of equal width from the least to the largest value."""

    def __init__(self, values: Sequence[float], words: Callable[[float], str]) -> None:
        self._low, high = min(values, default=0), max(values, default=0)
        self._width = (high - self._low) / _STEPS
        n_steps = _STEPS if self._width else 1
        self.legend = [
            (f"h{step}", f"from {words(float(f'{self._low + step * self._width:.3g}'))}") for step in range(n_steps)
        ]

    def of(self, value: float) -> str:
        step = int((value - self._low) / self._width) if self._width else 0
        return f"h{min(step, _STEPS - 1)}"


def _rows_of_map(document: Document, delay_class: int) -> list[list[int]]:
    """Return the numbers of the rows that a map shows, line by line."""
    n = document.n_classes
    if len(document.axes) == 1:
        return [list(range(level * n, (level + 1) * n)) for level in range(document.axes[0].count)]
    first, second = document.axes
    return [
        [(level * second.count + other) * n + delay_class for other in range(second.count)]
        for level in range(first.count)
    ]


def _grid(
    document: Document, title: str, cells: list[list[Cell]], colours: _Colours, delay_class: int | None,
    *, columns: list[str] | None = None,
) -> Grid:  # fmt: skip
    first, *rest = document.axes
    corner = _axis_in_words(first)
    if rest:
        corner += f" by {_axis_in_words(rest[0])}"
        columns = columns or levels_in_words(rest[0])
        if delay_class is not None and document.classes:
            title += f"; {document.class_in_words(delay_class)}"
    columns = columns or [document.class_in_words(number) for number in range(document.n_classes)]
    return Grid(title, corner, columns, list(zip(levels_in_words(first), cells, strict=True)), colours.legend)


def _axis_in_words(axis: Axis) -> str:
    return axis.name.removesuffix(f"_{_RATE}").removesuffix(f"_{_TIME}").replace("_", " ")


def levels_in_words(axis: Axis) -> list[str]:
    """Return the lower bound of each level."""
    if axis.count == 1:
        return ["all"]
    scale, unit = (125_000, "Mbit/s") if axis.name.endswith(_RATE) else (1000, "ms")
    return [f"from {_begin(axis, level) / scale:.4g} {unit}" for level in range(axis.count)]


def _begin(axis: Axis, level: int) -> float:
    if axis.scale == "linear":
        return axis.step * level
    octave, part = divmod(level, axis.per_octave)
    # Level 0 begins at 0: what is below `step` belongs to it.
    return 0 if level == 0 else axis.step * 2**octave * (1 + part / axis.per_octave)


def states_differ(document: Document, other: Document) -> list[str]:
    """Say why two ensembles cannot be compared state by state; nothing if they can."""
    said = []
    if document.axes != other.axes:
        said.append(f"It has {_axes_text(document)}, and the other one {_axes_text(other)}.")
    if document.classes != other.classes:
        said.append(f"It has {_classes_text(document)}, and the other one {_classes_text(other)}.")
    return said


def _axes_text(document: Document) -> str:
    return "levels of " + " and ".join(f"{_axis_in_words(axis)} ({axis.text()})" for axis in document.axes)


def _classes_text(document: Document) -> str:
    targets = [f"{one['queueing_delay_us'] / 1000:g} ms" for one in document.classes]
    return f"the targets {', '.join(targets)}" if targets else "no classes"


def wanted_column(document: Document, name: str) -> str:
    """Return the parameter to show: the wanted one, or the first that is not equal in all states."""
    if name in document.columns:
        return name
    varied = (column for column in document.columns if len(set(document.column(column) or [])) > 1)
    return next(varied, document.columns[0])
