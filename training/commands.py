# SPDX-License-Identifier: MIT
"""What the commands of training do, behind their options."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import click

from emulation.options import check_output
from emulation.simulator import default_threads
from emulation.traces import Part, Reading, Recording, read_split, require_part
from kmod.ensemble import Ensemble, EnsembleError
from training.errors import TrainingError
from training.journal import Journal
from training.parts import Progress
from training.progress import Terminal
from training.rtcp import RtcpStudy, load_rtcp_study
from training.rtcp.settings import THETA
from training.settings import StudySettings, load_study
from training.states import confusion
from training.study import Study, require_recordings

__all__ = ["recordings_of", "run_train"]


def recordings_of(paths: Sequence[Path], *, part: Part, skip_bad: bool = False) -> list[Recording]:
    """The recordings of one part of these paths; none given: the default traces.

    Raises:
        TraceError: nothing to read, or bad files that were not to be skipped.
    """
    return require_part(reading_of(paths, part=part, skip_bad=skip_bad), part=part)


def reading_of(paths: Sequence[Path], *, part: Part, skip_bad: bool) -> Reading:
    """One part of these paths, of which there may be nothing; of bad files that were left out is told on stderr."""
    reading = read_split(list(paths) or None, part=part, skip_bad=skip_bad)
    for line in reading.left_out:
        click.echo(f"{part}: {line}", err=True)
    return reading


def unseen_of(paths: Sequence[Path], study: StudySettings, *, skip_bad: bool) -> list[Recording]:
    """What judges, as far as there is any beside what trains.

    Raises:
        TraceError: bad files that were not to be skipped.
    """
    found = reading_of(paths, part="validation", skip_bad=skip_bad).recordings
    names = {name.removesuffix("-train") for name in study.datasets}
    return [r for r in found if not names or r.dataset.removesuffix("-validation") in names]


class Trainable(Protocol):
    """A study, of whatever kind."""

    @property
    def key(self) -> str:
        """What its journal is kept under."""

    def run(self, journal: Journal | None = None) -> Ensemble:
        """Do what the journal does not hold, and build the ensemble."""


class Making(Protocol):
    """Reads a study and its recordings."""

    def __call__(
        self, *, paths: Sequence[Path], skip_bad: bool, threads: int, progress: Progress, executor: str
    ) -> Trainable:
        """The study, ready to run."""


def making(study_path: Path, *, cca: str, base: str | None, seed: int | None) -> Making:
    """How the study of this file is made; base: what R-TCP is over, instead of the study's.

    Raises:
        TrainingError: it is none, or one of another algorithm.
    """
    again = {} if seed is None else {"seed": seed}
    if cca == "rtcp":
        rtcp = load_rtcp_study(study_path)
        over = {} if base is None else {"cca": f"rtcp_{base}"}
        rtcp = rtcp.model_copy(update={**again, **over})

        def make_rtcp(
            *, paths: Sequence[Path], skip_bad: bool, threads: int, progress: Progress, executor: str
        ) -> RtcpStudy:
            recordings = require_recordings(recordings_of(paths, part="train", skip_bad=skip_bad), rtcp)
            return RtcpStudy(rtcp, recordings, threads=threads, progress=progress, executor=executor)

        return make_rtcp
    settings = load_study(study_path, cca=cca).model_copy(update=again)

    def make(*, paths: Sequence[Path], skip_bad: bool, threads: int, progress: Progress, executor: str) -> Study:
        recordings = require_recordings(recordings_of(paths, part="train", skip_bad=skip_bad), settings)
        unseen = unseen_of(paths, settings, skip_bad=skip_bad)
        return Study(settings, recordings, unseen=unseen, threads=threads, progress=progress, executor=executor)

    return make


def run_train(
    study_path: Path,
    *,
    cca: str,
    base: str | None,
    paths: Sequence[Path],
    out: Path,
    resume: bool | None,
    seed: int | None,
    threads: int | None,
    executor: str,
    skip_bad: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Train and write an ensemble; the figures to print.

    resume: go on with a journal of this very study; False: discard it; None: refuse when there is one.
    """
    make = making(study_path, cca=cca, base=base, seed=seed)
    parts = out.with_name(out.name + ".parts")
    check_outs(out, parts)
    began = time.monotonic()
    with Terminal(quiet=quiet) as terminal:
        terminal.phase("reading traces", total=1)
        used = threads or default_threads()
        study = make(paths=paths, skip_bad=skip_bad, threads=used, progress=terminal, executor=executor)
        journal = Journal(parts, key=study.key)
        kept = begin_journal(journal, resume=resume)
        ensemble = study.run(journal)
    ensemble.save(out)
    journal.discard()
    seconds = time.monotonic() - began
    return {
        "ensemble": str(out),
        "digest": ensemble.digest,
        **(summary(study, ensemble) if isinstance(study, Study) else rtcp_summary(ensemble)),
        "resumed_parts": kept,
        "phases_s": {name: round(s, 1) for name, s in terminal.seconds.items()},
        "total_s": round(seconds, 1),
    }


def check_outs(out: Path, parts: Path) -> None:
    """Make the folder of an ensemble's file and of its study's parts, and see that both can be written.

    Raises:
        EmulationError, TrainingError: one cannot, or there is a file that is no ensemble.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"{out}: expected a folder to write to, got {error.strerror}; name another") from error
    check_output(out)
    if parts.exists() and not parts.is_dir():
        raise TrainingError(f"{parts}: expected a folder for finished parts, got another file; move it")
    if out.exists():
        try:
            Ensemble.load(out)
        except EnsembleError as error:
            raise TrainingError(f"{error}; expected no file or an ensemble, to be replaced; name another") from error


def begin_journal(journal: Journal, *, resume: bool | None) -> int:
    """How many parts are kept. Parts of other studies or versions are left as they are, and named on stderr.

    Raises:
        TrainingError: there are finished parts, and it was not said what to do with them.
    """
    kept = len(journal.parts())
    if kept and resume is None:
        raise TrainingError(
            f"{journal.folder}: {kept} finished parts of this very study are there; "
            "expected --resume to go on, or --fresh to discard them"
        )
    if kept and not resume:
        journal.discard()
        return 0
    if not kept and (others := journal.others()):
        click.echo(
            f"{journal.folder.parent}: holds no parts of this study with these traces and this version of core and "
            f"simulator, so that it begins anew; parts of others are left as they are ({', '.join(others)})",
            err=True,
        )
    return kept


def summary(study: Study, ensemble: Ensemble) -> dict[str, Any]:
    """The figures of a finished study."""
    plans = study.plans
    states = ensemble.provenance["states"]
    found = confusion(study.epochs, study.settings)
    trained = [plan for plan in plans if plan.epochs]
    return {
        "epochs": len(study.epochs),
        "levels_trained": len(trained),
        "levels_borrowing": sum(bool(plan.borrowed_from) for plan in trained),
        "levels_copied": len(plans) - len(trained),
        "level_within_0_1_2": [round(share, 3) for share in found.within.values()],
        "level_mean_error": round(found.mean_error_levels, 3),
        "targets_met_training": sum(s["training"]["meets"] for s in states if s["copied_from"] is None),
        "targets_met_unseen": sum(bool(s["unseen"] and s["unseen"]["meets"]) for s in states),
        "targets_judged_unseen": sum(s["unseen"] is not None for s in states),
        "runs": ensemble.provenance["runs"],
    }


def rtcp_summary(ensemble: Ensemble) -> dict[str, Any]:
    """The figures of a finished study of R-TCP, on what it trained on."""
    states = [state["training"] for state in ensemble.provenance["states"]]
    theta = ensemble.columns.index(THETA)
    thetas = [row[theta] / 1000 for row in ensemble.rows[:: ensemble.axes[1].count]]
    return {
        "cca": ensemble.cca,
        "states_trained": len(states),
        "states_as_asked_training": sum(state["meets"] for state in states),
        "resent_share_training": round(sum(state["resent"] for state in states) / len(states), 3),
        "theta_by_round_trip": thetas,
        "runs": ensemble.provenance["runs"],
    }
