# SPDX-License-Identifier: MIT
"""The data folder of a Pantheon test: its lock, its metadata, and which runs in it are kept when a test is resumed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from emulation.errors import EmulationError
from emulation.pantheon.metadata import FILE_NAME, CcatuneEntries, Metadata, RunNote, read_metadata
from emulation.pantheon.runner import PlannedTest, TestSettings
from kmod.locks import open_lock

_LOCK_NAME = ".lock"


def _identity(metadata: Metadata) -> dict[str, object]:
    """Return the entries that must be equal if a test is resumed."""
    names = ("mode", "flows", "runtime", "interval", "prepend_mm_cmds", "append_mm_cmds", "extra_mm_link_args")
    entries = metadata.ccatune or CcatuneEntries()
    return {
        **{name: getattr(metadata, name) or None for name in names},
        "ensembles": entries.ensembles,
        "parameters": entries.parameters,
        "start_s": entries.start_s,
    }


def described(settings: TestSettings, notes: dict[str, dict[int, RunNote]]) -> Metadata:
    link = settings.link
    names = [scheme.name for scheme in settings.schemes]
    return Metadata(
        mode="local",
        cc_schemes=tuple(dict.fromkeys([*names, *notes])),
        run_times=max([settings.run_times, *(run for runs in notes.values() for run in runs)]),
        flows=settings.flows,
        runtime=settings.runtime_s,
        interval=settings.interval_s,
        random_order=settings.order_seed is not None,
        uplink_trace="uplink.trace",
        downlink_trace="downlink.trace",
        prepend_mm_cmds=link.prepend or None,
        append_mm_cmds=link.append or None,
        extra_mm_link_args=link.extra or None,
        ccatune=CcatuneEntries(
            link=link.name,
            versions={"ccatune": version("ccatune"), "kernel": platform.release()},
            ensembles={cca: ensemble.digest for cca, ensemble in settings.ensembles.items()},
            parameters={cca: dict(values) for cca, values in settings.parameters.items()},
            start_s=link.start_s,
            runs=notes,
        ),
    )


def begin(settings: TestSettings, folder: Path, *, resume: bool | None) -> dict[str, dict[int, RunNote]]:
    """Prepare a data folder, and return the notes on its finished runs.

    resume: whether to keep earlier runs; None if the user has not decided.

    Raises click.UsageError if the folder has runs, and the user has not decided whether to keep them. Raises
    EmulationError if the folder has runs of another test, or other files.
    """
    link = settings.link
    if not (folder / FILE_NAME).exists():
        if folder.is_dir() and any(path.name != _LOCK_NAME for path in folder.iterdir()):
            raise EmulationError(
                f"{folder}: expected an empty folder or the data folder of a test, got other files in it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return {}
    if resume is None:
        raise click.UsageError(f"{folder}: has runs already; expected --resume to keep them, or --fresh to remove them")
    before = read_metadata(folder)
    if before.ccatune is None:
        raise EmulationError(f"{folder}: expected a test of ccatune, got a test of Pantheon; choose another folder")
    if not resume:
        with alone_in(folder):
            _remove_runs(folder)
        return {}
    notes = dict(before.ccatune.runs)
    wanted = described(settings, notes)
    for name, value in _identity(wanted).items():
        was = _identity(before)[name]
        if was != value:
            raise EmulationError(
                f"{folder}: expected a test with {name} {was}, as in the folder, got {value}; "
                "choose another folder, or use `ccatune pantheon test --fresh`"
            )
    if not link.is_written_in(folder):
        raise EmulationError(f"{folder}: expected a link with the traces in the folder, got other traces; use --fresh")
    # Runs that failed are repeated.
    return {scheme: {run: note for run, note in runs.items() if note.verdict == "ok"} for scheme, runs in notes.items()}


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder. Raises EmulationError if another test holds it."""
    try:
        lock = open_lock(folder / _LOCK_NAME)
    except OSError as error:
        raise EmulationError(f"{folder}: expected a folder that can be locked, got {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EmulationError(
                f"{folder}: expected no other test in this folder, but one still runs; choose another folder, or wait"
            ) from error
        yield
    finally:
        os.close(lock)


def remove_unfinished(planned: PlannedTest) -> None:
    """Remove the working folders and the logs of runs that were killed or failed."""
    for key in planned.settings.order():
        for path in planned.data_dir.glob(f".{key.scheme}-{key.run}-*"):
            shutil.rmtree(path, ignore_errors=True)
        if key not in planned.done:
            for kind in ("datalink", "acklink", "mm_datalink", "mm_acklink", "stats"):
                (planned.data_dir / key.file(kind)).unlink(missing_ok=True)


def _remove_runs(folder: Path) -> None:
    """Remove the files of a test from its folder, and no others."""
    metadata = read_metadata(folder)
    for path in folder.iterdir():
        scheme = next((name for name in metadata.cc_schemes if path.name.startswith(f"{name}_")), None)
        if scheme is not None and path.suffix in {".log", ".png"} and path.is_file():
            path.unlink()
    (folder / FILE_NAME).unlink()
