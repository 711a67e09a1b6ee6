# SPDX-License-Identifier: MIT
"""The folder of a job on a runner's machine, and the training process that works in it.

    WORK/REGISTRY/ID-DIGITS/      DIGITS: of a digest over study, datasets and seed
        study.yaml                the job's study
        gr.json.parts/            the journal of `ccatune train`, from which a later attempt continues
        gr.json                   the finished ensemble
        baseline.json             what it is compared with, if the job compares
        shadow.json               the comparison
        progress.json  log  lock

If WORK is on storage that runners share, a job continues on any of them. The lock lets one training process at a time
use a folder: the process inherits it, so that it is held until both the runner and the process have ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kmod.ensemble import Ensemble, EnsembleError, canonical_json
from serving.names import MAX_PATHS, PATHS_NAME
from training.errors import TrainingError
from training.workloads.paths import FOLDER, read_paths

Json = dict[str, Any]

LOG_BYTES = 16 * 1024
GRACE_S = 30.0
_KEPT_S = 14 * 86_400.0
_POLL_S = 0.1
# Begins the runner's lines in a log.
_NOTE = "# "


@dataclass(frozen=True)
class TrainingOptions:
    """How a runner trains. datasets: the folder of each. The others are options of `ccatune train`; None: not given."""

    datasets: Mapping[str, Path]
    threads: int | None = None
    executor: str | None = None
    address: str | None = None


class JobFolder:
    """The folder of a leased job. All texts in it are of this job, because its name has a digest of the job."""

    def __init__(self, work: Path, job: Json) -> None:
        """Name the folder, which `take` makes."""
        self._compare: Json | None = job.get("compare")
        named = {name: job[name] for name in ("study_text", "datasets", "seed")}
        named |= {} if self._compare is None else {"compare": self._compare}
        content = canonical_json(named)
        digits = hashlib.sha256(content).hexdigest()[:16]
        self._job = job
        self.path = work.resolve() / job["registry"] / f"{job['id']}-{digits}"
        self.out = self.path / f"{job['cca']}.json"
        self._log = self.path / "log"
        self._lock: int | None = None

    def take(self) -> bool:
        """Make and lock the folder; False while another process uses it. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.path)
        return self._lock is not None

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Delete the folder. It must be locked."""
        shutil.rmtree(self.path, ignore_errors=True)

    def ensemble(self) -> Ensemble | None:
        """The finished ensemble, or None."""
        with contextlib.suppress(EnsembleError):
            return Ensemble.load(self.out) if self.out.exists() else None
        return None

    def needs_comparison(self, ensemble: Ensemble) -> bool:
        """Whether the job compares, and with another ensemble than this one."""
        return self._compare is not None and self._compare["baseline"] != ensemble.digest

    def obstacle(self) -> str | None:
        """Return why the comparison would fail on this machine after the training, or None. Only paths are read."""
        try:
            if self._compare is not None and self._compare["paths"] is not None:
                read_paths(self._compare["paths"])
        except TrainingError as error:
            return str(error)
        return None

    def shadow(self) -> Json | None:
        """The finished comparison, or None. The half of a text that a kill leaves is no JSON object."""
        return self._read("shadow.json")

    def progress(self) -> Json | None:
        """The latest progress, or None."""
        return self._read("progress.json")

    def _read(self, name: str) -> Json | None:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((self.path / name).read_bytes())
            return found if isinstance(found, dict) else None
        return None

    def note(self, text: str) -> None:
        """Add a line of the runner to the log, if the disk has room for it."""
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as file:
            file.write(f"{_NOTE}{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}\n")

    def last_words(self) -> str:
        """The message of a training process that failed: the last line that is no note of the runner."""
        lines = [line for line in self.log_end().splitlines() if line.strip() and not line.startswith(_NOTE)]
        return lines[-1].removeprefix("ccatune: ") if lines else ""

    def log_end(self) -> str:
        """The end of the log of this attempt and of earlier ones in this folder."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - LOG_BYTES))
                return str(file.read(LOG_BYTES), "utf-8", "replace")
        except OSError:
            return ""

    def start(self, options: TrainingOptions) -> TrainingProcess:
        """Start `ccatune train` on the job. The folder must be locked."""
        study = self.path / "study.yaml"
        study.write_text(self._job["study_text"], encoding="utf-8")
        words = ["train", self._job["cca"].partition("_")[0], "--study", study, "--out", self.out, "--resume"]
        for option in ("executor", "address"):
            words += [] if getattr(options, option) is None else [f"--{option}", getattr(options, option)]
        words += [] if self._job["seed"] is None else ["--seed", self._job["seed"]]
        return self._start(words, options, datasets=self._job["datasets"], out=self._log)

    def start_comparison(self, options: TrainingOptions) -> TrainingProcess:
        """Start `ccatune evaluate --baseline` on the finished ensemble. The folder must be locked."""
        compare = self._compare
        assert compare is not None  # noqa: S101 - see needs_comparison
        baseline, shadow = self.path / "baseline.json", self.path / "shadow.json"
        baseline.write_text(json.dumps(compare["document"]), encoding="utf-8")
        shadow.unlink(missing_ok=True)
        words: list[object] = ["evaluate", self.out, "--baseline", baseline]
        words += [] if compare["paths"] is None else ["--paths", compare["paths"]]
        return self._start(words, options, datasets=compare["datasets"], out=shadow)

    def _start(
        self, words: Sequence[object], options: TrainingOptions, *, datasets: Sequence[str], out: Path
    ) -> TrainingProcess:
        """Start a command of training that reads these datasets. out: the file of its output."""
        assert self._lock is not None, "take() comes first"  # noqa: S101
        progress = self.path / "progress.json"
        progress.unlink(missing_ok=True)
        words = [*words, "--json", "--progress-file", progress]
        for name in datasets:
            words += ["--traces", options.datasets[name].resolve()]
        words += [] if options.threads is None else ["--threads", options.threads]
        # Without datasets the command would take the default traces of the machine.
        own = {} if datasets else {"CCATUNE_TRACES": str(self.path / "no-datasets")}
        with self._log.open("ab") as log, out.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "serving.jobs.child", str(os.getpid()), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                cwd=self.path,
                env={**os.environ, **own},
                pass_fds=(self._lock,),
                # A Ctrl-C at the terminal of the runner reaches the process through the runner.
                start_new_session=True,
            )
        return TrainingProcess(process)


class TrainingProcess:
    """A running `ccatune train` or `ccatune evaluate`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._deadline_s: float | None = None

    def wait(self) -> int | None:
        """Wait a moment; return the exit status, or None while it runs. It is killed if it ignores `interrupt`."""
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            self.kill()
        try:
            return self._process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            return None

    def interrupt(self) -> None:
        """Let it keep what it has done, and end. Further calls do nothing."""
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + GRACE_S
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it and its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _locked(folder: Path) -> int | None:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def path_models() -> list[str]:
    """Return the names in configs/paths of this machine that a job may have."""
    names = sorted(one.stem for one in FOLDER.glob("*.yaml"))
    return [name for name in names if re.fullmatch(PATHS_NAME, name)][:MAX_PATHS]


def remove_old(work: Path, registry: str) -> None:
    """Delete folders that nothing was written to for two weeks: their jobs have ended on other machines."""
    for folder in (work / registry).glob("*-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _KEPT_S and (lock := _locked(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
