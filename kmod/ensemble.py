# SPDX-License-Identifier: MIT
"""Parameter ensembles: the published file, and the text that is written to /proc.

An ensemble contains a parameter set for every network state of one algorithm.
Files, registry and agent use its JSON form, with a digest over all of its content.
A kernel receives its text form, whose header says to which deployment it belongs.
Only the core parses that text (core/ensemble_text.h).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from kmod.abi import ALGORITHMS, U32_MAX, Algorithm
from kmod.errors import AbiError

SCHEMA = "ccatune-ensemble/1"
MAX_TEXT_BYTES = 256 * 1024
MAX_AXES = 2
MAX_LEVELS = 64
MAX_CLASSES = 8
MAX_EPOCH_MS = 3_600_000
MAX_EPSILON_PCT = 1000
MAX_QUEUEING_DELAY_US = 60_000_000

_URGENT = " urgent"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class EnsembleError(AbiError):
    """An ensemble or a deployment is invalid."""


def _require(holds: bool, expected: str, came: object) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise EnsembleError(f"ensemble: expected {expected}, got {came!r}")


def _is_int(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class DelayClass:
    """A target: this percentile (1 to 99) of the queueing delay is at most queueing_delay_us."""

    percentile: int
    queueing_delay_us: int

    def __post_init__(self) -> None:
        _require(_is_int(self.percentile, 1, 99), "a percentile from 1 to 99", self.percentile)
        _require(
            _is_int(self.queueing_delay_us, 1, MAX_QUEUEING_DELAY_US),
            f"a queueing delay from 1 to {MAX_QUEUEING_DELAY_US} us",
            self.queueing_delay_us,
        )


@dataclass(frozen=True)
class Axis:
    """Levels of one measured quantity.

    linear: level = min(value // step, count - 1) (PQSA eq. 2).
    log: octaves start at `step`, and each has `per_octave` equal parts. Level 0 below `step`.
    """

    name: str
    scale: Literal["linear", "log"]
    step: int
    count: int
    per_octave: int = 0

    def __post_init__(self) -> None:
        _require(isinstance(self.name, str), "an axis' name as text", self.name)
        _require(self.scale in ("linear", "log"), "a scale linear or log", self.scale)
        _require(_is_int(self.step, 1, U32_MAX), "an axis step from 1 to 2^32 - 1", self.step)
        _require(_is_int(self.count, 1, MAX_LEVELS), f"1 to {MAX_LEVELS} levels", self.count)
        high = MAX_LEVELS if self.scale == "log" else 0
        low = 1 if self.scale == "log" else 0
        _require(
            _is_int(self.per_octave, low, high),
            f"per_octave from {low} to {high} on a {self.scale} axis",
            self.per_octave,
        )

    def level(self, value: int) -> int:
        """The level of a measured value, as the core computes it."""
        if self.scale == "linear":
            return min(value // self.step, self.count - 1)
        if value < self.step:
            return 0
        octave = (value // self.step).bit_length() - 1
        part = ((value >> octave) - self.step) * self.per_octave // self.step
        return min(octave * self.per_octave + min(part, self.per_octave - 1), self.count - 1)

    def text(self) -> str:
        """The axis as the header of the text form writes it."""
        extra = f" {self.per_octave}" if self.scale == "log" else ""
        return f"{self.name} {self.scale} {self.step} {self.count}{extra}"


@dataclass(frozen=True)
class Deployment:
    """A table's registry, channel and serial, and how flows take the table.

    hold_back_permille: share of flows (0 to 1000) that do not use the ensemble.
    urgent: each running flow takes the table at its next ACK or transmission. Otherwise it
    takes the table at the end of its epoch, which lasts up to an hour.
    """

    registry: str
    channel: str
    serial: int
    hold_back_permille: int = 0
    urgent: bool = False

    def __post_init__(self) -> None:
        for name in (self.registry, self.channel):
            _require(
                isinstance(name, str) and _NAME.fullmatch(name) is not None,
                "a name of 1 to 63 of A-Z a-z 0-9 . _ -",
                name,
            )
        _require(_is_int(self.serial, 1, 2**63 - 1), "a serial from 1 to 2^63 - 1", self.serial)
        _require(
            _is_int(self.hold_back_permille, 0, 1000),
            "a hold-back share of 0 to 1000 permille",
            self.hold_back_permille,
        )
        _require(isinstance(self.urgent, bool), "urgent as true or false", self.urgent)


@dataclass(frozen=True)
class Ensemble:
    """A parameter set for every state of one algorithm, and its provenance.

    rows: one tuple of values (in the order of `columns`) for each state and
    class; index ((level0 * count1) + level1) * n_classes + class. Without classes there is
    one row for each state, and epsilon_pct is None.
    provenance: JSON data. It is part of the content, so the digest covers it.

    Raises:
        EnsembleError: the core would reject the structure or a value.
    """

    cca: str
    epoch_ms: int
    estimate_ms: int
    epsilon_pct: int | None
    classes: tuple[DelayClass, ...]
    axes: tuple[Axis, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...] = field(repr=False)
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        algorithm = ALGORITHMS.get(self.cca) if isinstance(self.cca, str) else None
        if algorithm is None:
            known = ", ".join(sorted(ALGORITHMS))
            raise EnsembleError(f"ensemble: expected one of the algorithms {known}, got {self.cca!r}")
        _check_clock(self)
        _check_axes(self, algorithm)
        _check_rows(self, algorithm)

    @property
    def n_states(self) -> int:
        """Number of network states, without regard to classes."""
        states = 1
        for axis in self.axes:
            states *= axis.count
        return states

    @property
    def state_rows(self) -> int:
        """Number of rows of a state: one for each class, or 1 without classes."""
        return max(len(self.classes), 1)

    def row(self, level: int | tuple[int, ...], delay_class: int) -> dict[str, int]:
        """Return the parameter set, by name, of a state (its level on each axis) and a class."""
        levels = (level,) if isinstance(level, int) else level
        _require(len(levels) == len(self.axes), f"{len(self.axes)} levels", levels)
        _require(0 <= delay_class < self.state_rows, "a class of the ensemble", delay_class)
        state = 0
        for axis, index in zip(self.axes, levels, strict=True):
            _require(0 <= index < axis.count, f"a level below {axis.count}", index)
            state = state * axis.count + index
        return dict(zip(self.columns, self.rows[state * self.state_rows + delay_class], strict=True))

    def content(self) -> dict[str, Any]:
        """The content that the digest covers, as JSON data."""
        return {
            "schema": SCHEMA,
            "cca": self.cca,
            "epoch_ms": self.epoch_ms,
            "estimate_ms": self.estimate_ms,
            "epsilon_pct": self.epsilon_pct,
            "classes": [{"percentile": c.percentile, "queueing_delay_us": c.queueing_delay_us} for c in self.classes],
            "axes": [_axis_json(axis) for axis in self.axes],
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "provenance": self.provenance,
        }

    @cached_property
    def digest(self) -> str:
        """`sha256:` and the hash of the canonical JSON of the content."""
        return "sha256:" + hashlib.sha256(canonical_json(self.content())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The content with its digest."""
        return {**self.content(), "digest": self.digest}

    @staticmethod
    def from_json(data: object) -> Ensemble:
        """Check JSON data and convert it to an ensemble.

        Raises:
            EnsembleError: schema, structure, range or digest is wrong.
        """
        return _from_json(data)

    def save(self, path: str | Path) -> None:
        """Write the file atomically.

        Raises:
            EnsembleError: the file cannot be written.
        """
        text = json.dumps(self.to_json(), indent=1, sort_keys=True, ensure_ascii=True)
        try:
            write_atomically(Path(path), text.encode() + b"\n")
        except OSError as error:
            raise EnsembleError(f"{path}: cannot be written ({error.strerror})") from error

    @staticmethod
    def load(path: str | Path) -> Ensemble:
        """Read a file.

        Raises:
            EnsembleError: the file cannot be read, is not JSON, or is not a valid ensemble.
        """
        try:
            data = json.loads(Path(path).read_bytes())
        except OSError as error:
            raise EnsembleError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise EnsembleError(f"{path}: expected an ensemble as JSON, got other data ({error})") from error
        try:
            return _from_json(data)
        except EnsembleError as error:
            raise EnsembleError(f"{path}: {error}") from error


def _check_clock(e: Ensemble) -> None:
    _require(_is_int(e.epoch_ms, 1, MAX_EPOCH_MS), f"an epoch of 1 to {MAX_EPOCH_MS} ms", e.epoch_ms)
    _require(
        _is_int(e.estimate_ms, 1, e.epoch_ms),
        "an estimation window from 1 ms to the epoch",
        e.estimate_ms,
    )
    if e.classes:
        _require(_is_int(e.epsilon_pct, 0, MAX_EPSILON_PCT), "epsilon of 0 to 1000 %", e.epsilon_pct)
    else:
        _require(e.epsilon_pct is None, "no epsilon without classes", e.epsilon_pct)


def _check_axes(e: Ensemble, algorithm: Algorithm) -> None:
    _require(1 <= len(e.axes) <= MAX_AXES, "one or two axes", len(e.axes))
    names = [axis.name for axis in e.axes]
    known = [axis.name for axis in algorithm.axes]
    _require(len(set(names)) == len(names), "different axes", names)
    for name in names:
        _require(name in known, f"an axis of {e.cca} ({', '.join(known) or 'it has none'})", name)
    _require(len(e.classes) <= MAX_CLASSES, f"at most {MAX_CLASSES} classes", len(e.classes))


def _check_rows(e: Ensemble, algorithm: Algorithm) -> None:
    specs = {spec.name: spec for spec in algorithm.columns}
    _require(
        len(e.columns) > 0 and len(set(e.columns)) == len(e.columns) and set(e.columns) <= set(specs),
        f"different columns among {', '.join(specs)}",
        list(e.columns),
    )
    expected = e.n_states * e.state_rows
    _require(len(e.rows) == expected, f"{expected} rows", len(e.rows))
    for index, row in enumerate(e.rows):
        _require(len(row) == len(e.columns), f"{len(e.columns)} values in row {index}", list(row))
        for name, value in zip(e.columns, row, strict=True):
            spec = specs[name]
            _require(
                _is_int(value, spec.minimum, spec.maximum),
                f"row {index} {name} from {spec.minimum} to {spec.maximum} {spec.unit}",
                value,
            )


def _axis_json(axis: Axis) -> dict[str, object]:
    data: dict[str, object] = {
        "name": axis.name,
        "scale": axis.scale,
        "step": axis.step,
        "count": axis.count,
    }
    if axis.scale == "log":
        data["per_octave"] = axis.per_octave
    return data


def _only_keys(data: object, required: set[str], optional: set[str], what: str) -> dict[str, Any]:
    _require(isinstance(data, dict), f"{what} as a JSON object", type(data).__name__)
    mapping = cast("dict[str, Any]", data)
    missing, surplus = required - set(mapping), set(mapping) - required - optional
    _require(not missing, f"{what} with the key {', '.join(sorted(missing))}", sorted(mapping))
    _require(not surplus, f"{what} without other keys", sorted(surplus))
    return mapping


def _list(value: object, what: str) -> list[Any]:
    _require(isinstance(value, list), f"{what} as a list", type(value).__name__)
    return cast("list[Any]", value)


_KEYS = {
    "schema", "cca", "epoch_ms", "estimate_ms", "epsilon_pct", "classes", "axes", "columns",
    "rows", "provenance", "digest",
}  # fmt: skip


def _from_json(data: object) -> Ensemble:
    top = _only_keys(data, _KEYS, {"signature"}, "an ensemble")
    _require(top["schema"] == SCHEMA, f"schema {SCHEMA}", top["schema"])
    _require(isinstance(top["cca"], str), "the algorithm's name", top["cca"])
    _require(isinstance(top["provenance"], dict), "provenance as an object", top["provenance"])
    classes = [
        DelayClass(**_only_keys(c, {"percentile", "queueing_delay_us"}, set(), "a class"))
        for c in _list(top["classes"], "classes")
    ]
    axes = [
        Axis(**_only_keys(a, {"name", "scale", "step", "count"}, {"per_octave"}, "an axis"))
        for a in _list(top["axes"], "axes")
    ]
    columns = _list(top["columns"], "columns")
    _require(all(isinstance(c, str) for c in columns), "columns as names", columns)
    ensemble = Ensemble(
        cca=top["cca"],
        epoch_ms=top["epoch_ms"],
        estimate_ms=top["estimate_ms"],
        epsilon_pct=top["epsilon_pct"],
        classes=tuple(classes),
        axes=tuple(axes),
        columns=tuple(columns),
        rows=tuple(tuple(_list(row, "a row")) for row in _list(top["rows"], "rows")),
        provenance=top["provenance"],
    )
    if top["digest"] != ensemble.digest:
        raise EnsembleError(
            f"ensemble: its digest says {top['digest']!r} and its content {ensemble.digest!r}: "
            "the content was changed or damaged; get it again from where it came"
        )
    return ensemble


def canonical_json(data: object) -> bytes:
    """Return the canonical bytes of JSON data: sorted keys, no spaces, ASCII, no NaN.

    Raises:
        EnsembleError: the data is not JSON (NaN, a type or key that JSON lacks, lists nested too deeply).
    """
    try:
        text = _dump(data)
        # Numeric keys become text, and may then have another order.
        again = _dump(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise EnsembleError(f"ensemble: expected JSON data, got {error}") from error
    if again != text:
        raise EnsembleError("ensemble: expected JSON data, got keys that are no text")
    return text.encode("ascii")


def _dump(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def table_text(ensemble: Ensemble, deployment: Deployment) -> str:
    """Return the text that is written to /proc/net/ccatune/<cca>/ensemble, and read from there.

    Raises:
        EnsembleError: the text would exceed 256 KiB.
    """
    classes = " ".join(f"{c.percentile}:{c.queueing_delay_us}" for c in ensemble.classes)
    lines = [
        "ccatune-ensemble 1",
        f"cca {ensemble.cca}",
        f"registry {deployment.registry}",
        f"channel {deployment.channel}",
        f"serial {deployment.serial}{_URGENT if deployment.urgent else ''}",
        f"digest {ensemble.digest}",
        f"epoch_ms {ensemble.epoch_ms}",
        f"estimate_ms {ensemble.estimate_ms}",
        *([f"epsilon_pct {ensemble.epsilon_pct}"] if classes else []),
        f"hold_back_permille {deployment.hold_back_permille}",
        *([f"classes {classes}"] if classes else []),
        *(f"axis {axis.text()}" for axis in ensemble.axes),
        f"columns {' '.join(ensemble.columns)}",
        *_row_lines(ensemble),
        f"end {len(ensemble.rows)}",
    ]
    text = "\n".join(lines) + "\n"
    _require(len(text) <= MAX_TEXT_BYTES, f"a table of at most {MAX_TEXT_BYTES} bytes", len(text))
    return text


def without_urgent_mark(text: str) -> str:
    """Return a table's text with `serial N` in place of `serial N urgent`. Other texts stay unchanged.

    Two texts of the same table and deployment are equal without the mark.
    """
    # Only the serial line can end with the mark and precede the digest line.
    return text.replace(f"{_URGENT}\ndigest ", "\ndigest ", 1)


def _row_lines(ensemble: Ensemble) -> list[str]:
    lines = []
    inner = ensemble.axes[1].count if len(ensemble.axes) > 1 else None
    for index, row in enumerate(ensemble.rows):
        state, delay_class = divmod(index, ensemble.state_rows)
        place = [state] if inner is None else [*divmod(state, inner)]
        lines.append(" ".join(map(str, [*place, *([delay_class] if ensemble.classes else []), *row])))
    return lines


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically: a reader sees the old or the new content, even after a crash."""
    # This import, with its dependencies, doubles the import time of this module. Reading a table does not need it.
    import tempfile

    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
