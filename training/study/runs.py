# SPDX-License-Identifier: MIT
"""The runs that a model learns from, in the order of their requests, and on disk beside the finished parts."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from training.evaluation.features import features_of
from training.evaluation.predicted import Scale, scale_of
from training.evaluation.runner import CaseRunner
from training.objectives import Tally
from training.searches import Point
from training.study.journal import Journal
from training.workloads import Case

Run = tuple[Case, Point]
_COUNTS = ("capacity_bytes", "delivered_bytes", "packets", "goodput_bytes", "sent_pkts", "retransmitted_pkts")


class Runs:
    """Runs points on cases, each once. `requested`: the runs that a stage required, in order; a model learns from them.

    With a journal each batch is kept, so that a stage that begins again runs nothing twice.
    """

    def __init__(self, runner: CaseRunner, journal: Journal | None) -> None:
        self.runner = runner
        self._journal = journal
        self._known: dict[tuple[str, Point], Tally] = {}
        self._stage = ""
        self.cases: dict[str, Case] = {}
        self.scales: dict[str, Scale] = {}
        self.features: dict[str, np.ndarray] = {}
        self.requested: dict[tuple[str, Point], None] = {}

    def add_cases(self, cases: Iterable[Case]) -> None:
        """Run what the objective compares with on cases that are new."""
        new = [case for case in cases if case.key not in self.cases]
        for case, references in zip(new, self.runner.references(new), strict=True):
            self.cases[case.key] = case
            self.scales[case.key] = scale_of(case, references)
            self.features[case.key] = features_of(case, references)

    def begin(self, stage: str, *, is_finished: bool) -> None:
        """Read the batches of a stage. Those of a finished one count as requested."""
        self._stage = stage
        for data in self._journal.batches(f"runs-{stage}") if self._journal else ():
            found = _read(data)
            self._known |= found
            if is_finished:
                self.requested |= dict.fromkeys(found)

    def run(self, wanted: Sequence[Run]) -> int:
        """Make the runs that are missing; the number of those that were not requested before."""
        fresh = {(case.key, point): None for case, point in wanted if (case.key, point) not in self.requested}
        missing: dict[str, list[Point]] = {}
        for key, point in fresh:
            if (key, point) not in self._known:
                missing.setdefault(key, []).append(point)
        alike: dict[tuple[Point, ...], list[Case]] = {}
        for key, points in missing.items():
            alike.setdefault(tuple(points), []).append(self.cases[key])
        found: dict[tuple[str, Point], Tally] = {}
        for their, cases in alike.items():
            for case, row in zip(cases, self.runner.run(cases, their), strict=True):
                found |= {(case.key, p): replace(t, references={}) for p, t in zip(their, row, strict=True)}
        found = {run: found[run] for run in fresh if run in found}  # on disk in the order in which they are learnt
        self._known |= found
        self.requested |= fresh
        if found and self._journal:
            self._journal.put_batch(f"runs-{self._stage}", _written(found))
        return len(fresh)

    def tally(self, case: Case, point: Point) -> Tally:
        """The measures of a run that was requested."""
        return replace(self._known[case.key, point], references=self.scales[case.key].references)


def _written(runs: dict[tuple[str, Point], Tally]) -> bytes:
    tallies = list(runs.values())
    file = io.BytesIO()
    np.savez_compressed(
        file,
        keys=np.array([key for key, _ in runs]),
        points=np.array([point for _, point in runs], dtype=np.int64),
        seconds=np.array([t.duration_s for t in tallies]),
        counts=np.array([[getattr(t, name) for name in _COUNTS] for t in tallies], dtype=np.int64),
        limited=np.array([bool(t.is_limited) for t in tallies]),
        groups=np.array([t.group for t in tallies]),
        delays=np.array([t.delays for t in tallies], dtype=np.uint32),
    )
    return file.getvalue()


def _read(data: bytes) -> dict[tuple[str, Point], Tally]:
    with np.load(io.BytesIO(data)) as file:
        columns = {name: file[name] for name in file.files}
    found = {}
    for i, key in enumerate(columns["keys"].tolist()):
        counts = dict(zip(_COUNTS, columns["counts"][i].tolist(), strict=True))
        found[key, tuple(columns["points"][i].tolist())] = Tally(
            duration_s=float(columns["seconds"][i]), delays=columns["delays"][i],
            is_limited=bool(columns["limited"][i]), group=str(columns["groups"][i]), **counts,
        )  # fmt: skip
    return found
