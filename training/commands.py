# SPDX-License-Identifier: MIT
"""The work of the commands of training."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emulation.options import check_output
from emulation.run.simulator import default_threads
from emulation.traces import Part, Reading, Recording, read_split, require_part
from kmod.coverage import training_warnings
from kmod.ensemble import Ensemble, EnsembleError
from kmod.terminal import echo
from training.errors import TrainingError
from training.evaluation.executors import ExecutorName
from training.progress import Terminal
from training.progress_file import FileProgress
from training.study import (
    Journal,
    Study,
    StudySettings,
    check_trials_path,
    load_study,
    require_recordings,
    write_trials,
)
from training.workloads import Epochs


def recordings_of(paths: Sequence[Path], *, part: Part, skip_bad: bool = False) -> list[Recording]:
    """The recordings of one part of these paths; none given: the default traces.

    Raises:
        TraceError: nothing to read, or bad files that were not to be skipped.
    """
    return require_part(reading_of(paths, part=part, skip_bad=skip_bad), part=part)


def terminal_of(progress_file: Path | None, *, quiet: bool) -> Terminal:
    """Bars, and the same in a file if one is given (training/progress_file.py)."""
    return Terminal(quiet=quiet) if progress_file is None else FileProgress(progress_file, quiet=quiet)


def reading_of(paths: Sequence[Path], *, part: Part, skip_bad: bool) -> Reading:
    """One part of these paths, which may be empty; bad files that are left out are named on stderr."""
    reading = read_split(list(paths) or None, part=part, skip_bad=skip_bad)
    for line in reading.left_out:
        echo(f"{part}: {line}", err=True)
    return reading


def unseen_of(paths: Sequence[Path], study: StudySettings, *, skip_bad: bool) -> list[Recording]:
    """The validation data of the study's datasets, if there are any.

    Raises:
        TraceError: bad files that were not to be skipped.
    """
    found = reading_of(paths, part="validation", skip_bad=skip_bad).recordings
    names = {name.removesuffix("-train") for name in study.datasets}
    return [r for r in found if not names or r.dataset.removesuffix("-validation") in names]


def run_train(
    study_path: Path,
    *,
    family: str,
    base: str | None,
    paths: Sequence[Path],
    out: Path,
    resume: bool | None,
    seed: int | None,
    threads: int | None,
    executor: ExecutorName | None,
    address: str | None,
    tune_storage: str | None,
    skip_bad: bool,
    keep_trials: Path | None,
    quiet: bool,
    progress_file: Path | None = None,
) -> dict[str, Any]:
    """Train and write an ensemble; the figures to print.

    family: the study's algorithm, without the one that it is built on. base: that one, instead of the study's. resume:
    continue with a journal of this very study; False: discard it; None: refuse if there is one. keep_trials: the
    file of all evaluated points. progress_file: see training/progress_file.py.
    """
    settings = load_study(study_path, family=family, cca=f"{family}_{base}" if base else None)
    settings = settings if seed is None else settings.model_copy(update={"seed": seed})
    executor = executor or settings.executor
    for option, value in {"--address": address, "--tune-storage": tune_storage}.items():
        if value is not None and executor != "ray":
            raise TrainingError(
                f"{option}: expected it with --executor ray, which it is for, got --executor {executor}"
            )
    parts = out.with_name(out.name + ".parts")
    check_outs(out, parts)
    if keep_trials is not None:
        check_trials_path(keep_trials)
    began = time.monotonic()
    with terminal_of(progress_file, quiet=quiet) as terminal:
        recordings: list[Recording] = []
        unseen: list[Recording] = []
        if settings.workload.needs_recordings:
            terminal.phase("reading traces", total=1)
            recordings = require_recordings(recordings_of(paths, part="train", skip_bad=skip_bad), settings)
            if settings.workload.kind == "epochs":
                unseen = unseen_of(paths, settings, skip_bad=skip_bad)
        study = Study(settings, recordings, unseen=unseen, threads=threads or default_threads(), progress=terminal,
                      executor=executor, address=address, tune_storage=tune_storage)  # fmt: skip
        journal = Journal(parts, key=study.key)
        kept = begin_journal(journal, resume=resume)
        ensemble = study.run(journal)
    ensemble.save(out)
    if keep_trials is not None:
        write_trials(study.trials, keep_trials)
    journal.discard()
    seconds = time.monotonic() - began
    return {
        "ensemble": str(out),
        "digest": ensemble.digest,
        **({} if keep_trials is None else {"trials": str(keep_trials)}),
        **summary(study, ensemble),
        "resumed_parts": kept,
        "phases_s": {name: round(s, 1) for name, s in terminal.seconds.items()},
        "total_s": round(seconds, 1),
        "warnings": training_warnings(ensemble),
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
    """How many finished parts are kept. Parts of other studies or versions are left as they are, and named on stderr.

    Raises:
        TrainingError: there are finished parts, and it was not said what to do with them.
    """
    kept, begun = len(journal.parts()), len(journal.begun())
    if kept + begun and resume is None:
        raise TrainingError(
            f"{journal.folder}: {kept} finished and {begun} unfinished parts of this very study are there; "
            "expected --resume to go on, or --fresh to discard them"
        )
    if kept + begun and not resume:
        journal.discard()
        return 0
    if not kept + begun and (others := journal.others()):
        echo(
            f"{journal.folder.parent}: holds no parts of this study with these traces and this version of core and "
            f"simulator, so that it begins anew; parts of others are left as they are ({', '.join(others)})",
            err=True,
        )
    return kept


def summary(study: Study, ensemble: Ensemble) -> dict[str, Any]:
    """The figures of a finished study."""
    states = ensemble.provenance["states"]
    trained = [state for state in states if tuple(state["state"]) in set(study.trained)]
    by_metric: dict[str, list[float]] = {}
    for state in trained:
        for name, value in state["training"].items():
            by_metric.setdefault(name, []).append(value)
    metrics = sorted(set(by_metric) - {"meets", "violation", "cases"})
    figures = {
        "cca": ensemble.cca,
        "states": ensemble.n_states,
        "states_trained": len(study.trained),
        "requirements_met_training": sum(state["training"]["meets"] for state in trained),
        "requirements_met_unseen": sum(bool(state["unseen"] and state["unseen"]["meets"]) for state in states),
        "requirements_judged_unseen": sum(state["unseen"] is not None for state in states),
        **{f"mean_{name}_training": round(sum(by_metric[name]) / len(by_metric[name]), 3) for name in metrics},
        "runs": ensemble.provenance["runs"],
    }
    if verified := ensemble.provenance.get("verified"):
        outcomes = Counter(row["outcome"] for row in verified["rows"])
        figures |= {f"rows_{name}": outcomes[name] for name in ("confirmed", "replaced", "missed")}
    if isinstance(study.workload, Epochs):
        found = study.workload.confusion
        figures |= {
            "epochs": len(study.workload.epochs),
            "level_within_0_1_2": [round(share, 3) for share in found.within.values()],
            "level_mean_error": round(found.mean_error_levels, 3),
        }
    return figures
