# SPDX-License-Identifier: MIT
"""What an experiment is, and how it runs.

    campaign     settings, and parts that can be run alone
    part         cases, and what is stated about their figures
    case         scenarios that are run and stored together
    column       a figure of a case: float [runs], or [runs, samples] for a distribution

Each finished case is a file in a folder, so that an interrupted campaign continues where it stopped. The file has a
key: the digest of the campaign's settings, of the case's scenarios, and of the sources of the simulator and of the
measure. A case whose key has changed runs again, and the earlier result stays beside it. The runs of a case use several
threads, on which their figures do not depend.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from matplotlib.figure import Figure as Picture
from numpy.typing import NDArray

from emulation.run.qos import QoS
from emulation.run.simulator import core_version, default_threads, simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario, canonical_text
from emulation.scenario.path import Frozen
from emulation.traces import OPPORTUNITY_BYTES, Recording
from emulation.traces.synthetic import TraceModel, make_recordings
from experiments.figures import Statement, number, row_of
from kmod.ensemble import write_atomically
from training.errors import TrainingError
from training.intervals import LEAST_SEEDS, interval_of

ROOT = Path(__file__).resolve().parents[1]
# What turns a scenario into figures outside the engine, whose sources have their own digest.
SIMULATOR = ("emulation/run/*.py", "emulation/scenario/*.py")

Values = NDArray[np.float64]
Row = Mapping[str, float | Sequence[float] | None]
Key = tuple[str, ...]
S = TypeVar("S", bound=Frozen)
LEAST_BYTES = 100 * OPPORTUNITY_BYTES  # a piece of a recording with less capacity is an outage
MADE_S, MADE_COUNT = 600.0, 8
FORMAT = 1  # increased when the figures of a run change in another way than by the key


@dataclass(frozen=True)
class Case:
    """Scenarios that are run and stored together.

    key: what distinguishes the case within its campaign. scenarios: makes them. measure: computes the figures of a run;
    None: the run has no such figure. every_s: the interval of the run's series; None: the figures need no series.
    """

    key: Key
    scenarios: Callable[[], Sequence[Scenario]]
    measure: Callable[[Scenario, QoS], Row]
    every_s: float | None = None

    @property
    def name(self) -> str:
        """The name of the case's file without its suffix."""
        return re.sub("[^a-z0-9-]", "-", "-".join(self.key).replace(".", "p"))

    def run(self, scenario: Scenario) -> Row:
        """Run one of the scenarios."""
        return self.measure(scenario, simulate(scenario, series_every_s=self.every_s))


@dataclass(frozen=True)
class Links:
    """The recordings that a campaign uses, by a name of its own.

    made: they are synthetic. training: recordings that train the rows which the campaign runs.
    """

    recordings: Mapping[str, Sequence[Recording]] = field(default_factory=dict)
    made: bool = False
    training: Sequence[Recording] = ()


@dataclass(frozen=True, eq=False)
class Results(Generic[S]):
    """The columns of the cases that were run."""

    settings: S
    cases: dict[Key, dict[str, Values]]
    links: Links = field(default_factory=Links)

    def get(self, key: Key, column: str) -> Values:
        """A column; NaN: the run has no such figure."""
        return self.cases[key][column]


def made_like(model: Path, *, count: int = MADE_COUNT) -> list[Recording]:
    """Links that a model makes, in the place of recordings that are missing."""
    return make_recordings(TraceModel.load(model), duration_s=MADE_S, count=count, seed=1)


def pieces_of(recordings: Sequence[Recording], *, length_s: float, most: int) -> list[Recording]:
    """At most so many pieces of this length, spread evenly over the recordings. Outages are left out.

    Raises:
        TrainingError: the recordings hold fewer than five pieces.
    """
    length_ms = round(length_s * 1000)
    found = [
        (recording, start_ms)
        for recording in recordings
        for start_ms in range(0, recording.trace.period_ms - length_ms + 1, length_ms)
        if recording.trace.capacity_bytes(start_ms, start_ms + length_ms) >= LEAST_BYTES
    ]
    if len(found) < LEAST_SEEDS:
        raise TrainingError(f"recordings: expected {LEAST_SEEDS} pieces of {length_s:g} s or more, got {len(found)}")
    if len(found) > most:
        found = [found[round(i * (len(found) - 1) / (most - 1))] for i in range(most)]
    return [recording.cut(start_ms, start_ms + length_ms) for recording, start_ms in found]


def over_pieces(
    pieces: Sequence[Recording], flow: FlowSpec, *, path: Mapping[str, Any], duration_s: float | None = None
) -> list[Scenario]:
    """A run of one flow over each piece.

    path: fields of the link besides its trace. duration_s: of each run; None: as long as its piece.
    """
    return [
        Scenario(name=piece.name, link=LinkSpec.model_validate({"trace": piece.trace, **path}), flows=(flow,),
                 duration_s=duration_s or piece.duration_s, seed=number)
        for number, piece in enumerate(pieces)
    ]  # fmt: skip


def as_they_are(results: Results[Any]) -> Mapping[str, Any]:
    """The only view of a part whose statements are about all results."""
    return {"": results}


@dataclass(frozen=True)
class Part(Generic[S]):
    """A part of a campaign.

    views: what the statements are about, by the name of the place: a link, a buffer, an access rate.
    table: lines of Markdown for the documents. needs_links: whether the cases run over recordings.
    """

    name: str
    cases: Callable[[S, Links], Iterable[Case]]
    statements: tuple[Statement[Any], ...]
    views: Callable[[Results[S]], Mapping[str, Any]] = as_they_are
    title: str = ""
    table: Callable[[Results[S]], list[str]] | None = None
    needs_links: bool = False


@dataclass(frozen=True)
class Campaign(Generic[S]):
    """An experiment.

    links: reads the recordings, from these files and folders if there are any. draw: makes the picture of the parts
    drawn. options: settings that the command line may change. describe: the last words of the report.
    """

    name: str
    help: str
    load: Callable[[Path], S]
    parts: tuple[Part[S], ...]
    notes: tuple[str, ...]
    describe: Callable[[Results[S]], str]
    draw: Callable[[Results[S]], Picture] | None = None
    drawn: tuple[str, ...] = ()
    links: Callable[[S, Sequence[Path]], Links] = lambda _settings, _paths: Links()
    words: Callable[[S], Mapping[str, str]] = lambda _settings: {}
    options: tuple[Callable[[Any], Any], ...] = ()

    def chosen(self, names: Iterable[str]) -> list[Part[S]]:
        """The parts of these names, in the campaign's order; all without names."""
        wanted = set(names)
        return [part for part in self.parts if not wanted or part.name in wanted]


@dataclass(frozen=True)
class Store:
    """Runs cases, and keeps those that are finished.

    folder: None: nothing is kept. depends: what the figures depend on besides the scenarios and the engine.
    """

    folder: Path | None = None
    depends: str = ""
    threads: int | None = None

    def run(
        self, cases: Iterable[Case], *, advance: Callable[[float], None] = lambda _cases: None, only_kept: bool = False
    ) -> dict[Key, dict[str, Values]]:
        """The columns of these cases. advance: called with 1 after each case. only_kept: run none that is missing.

        Raises:
            TrainingError: a file of the folder was not written by a store.
        """
        found = {}
        with ThreadPoolExecutor(self.threads or default_threads()) as pool:
            for case in cases:
                scenarios = case.scenarios()
                key = self.key_of(case, scenarios)
                columns = self._kept(case, key)
                if columns is None and not only_kept:
                    rows = list(pool.map(case.run, scenarios))
                    columns = {name: [row[name] for row in rows] for name in rows[0]}
                    self._keep(case, key, columns)
                if columns is not None:
                    found[case.key] = {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
                advance(1)
        return found

    def key_of(self, case: Case, scenarios: Iterable[Scenario]) -> str:
        """The key of a case (hex)."""
        measure = sources_digest(*SIMULATOR, case.measure.__module__.replace(".", "/") + ".py")
        content = [FORMAT, core_version(), measure, case.every_s, self.depends, *map(canonical_text, scenarios)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def _path(self, case: Case, key: str) -> Path | None:
        """Return the case's file. With another key the case has another file, so that no result is overwritten."""
        return None if self.folder is None else self.folder / f"{case.name}-{key[:16]}.json"

    def _kept(self, case: Case, key: str) -> dict[str, list[Any]] | None:
        """The columns of a finished case with that key; None: there are none."""
        path = self._path(case, key)
        if path is None or not path.exists():
            return None
        try:
            kept = json.loads(path.read_bytes())
            return dict(kept["columns"]) if kept["key"] == key else None
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{path}: expected the figures of a case, got {error!r}; remove the file") from error

    def _keep(self, case: Case, key: str, columns: dict[str, list[Any]]) -> None:
        if (path := self._path(case, key)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"key": key, "columns": columns}).encode())


@cache
def sources_digest(*patterns: str) -> str:
    """Return the digest of the bytes of these sources. A changed comment changes it, too."""
    return digest_of_files(sorted({path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}))


def digest_of_files(files: Iterable[Path]) -> str:
    """Return the digest of the names and bytes of files."""
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def settings_text(settings: Frozen) -> str:
    """Settings as text. Of a path only the file's name counts."""
    return json.dumps(settings.model_dump(), sort_keys=True, default=lambda value: getattr(value, "name", str(value)))


def judge(campaign: Campaign[S], parts: Iterable[Part[S]], results: Results[S]) -> list[dict[str, Any]]:
    """A row for each statement at each place of its part, as JSON data. A statement without figures there has none."""
    rows = []
    words = campaign.words(results.settings)
    for part in parts:
        views = part.views(results)
        for statement in part.statements:
            for at, view in views.items():
                if figures := statement.figures(view):
                    rows.append({"part": part.name, **row_of(statement, figures, at=at, words=words)})
    return rows


def summary_of(results: Results[Any]) -> list[dict[str, Any]]:
    """The mean of each column of each case, with the half width of its 95 % interval, as JSON data.

    Runs without the figure are left out. Fewer than five values have no interval. A distribution has its quartiles.
    """
    rows = []
    for key, columns in results.cases.items():
        row: dict[str, Any] = {"case": list(key), "runs": len(next(iter(columns.values())))}
        for name, values in columns.items():
            if values.ndim > 1:
                row[name] = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
                continue
            found = values[np.isfinite(values)]
            row[name] = number(float(found.mean())) if len(found) else None
            row[f"{name}_interval"] = interval_of(found) if len(found) >= LEAST_SEEDS else None
        rows.append(row)
    return rows
