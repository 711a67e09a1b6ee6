# SPDX-License-Identifier: MIT
"""Runs jobs: leases one, trains it in a process, reports its progress, and hands in the ensemble.

    lease -> folder -> training process -> comparison -> end: done | failed | cancelled | interrupted | lost
               |             |                 |
               |             |                 '-- a process, too; only for a job that compares
               |             '-- a heartbeat every sixth of the lease renews it, and says whether to stop
               '-- an ensemble and a comparison that a killed runner left here are handed in as they are

The ensemble of a comparison that fails is handed in with the reason, because its training took long.

A runner that reaches no registry ends its training process two thirds of a lease after the last heartbeat that was
answered began, that is before the registry gives the job to another runner. It hands in a finished ensemble whenever
the registry answers again. If another runner has the job by then, the registry refuses it, and gets it from that one.
"""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kmod.ensemble import Ensemble
from serving.client_requests import Json
from serving.errors import LeaseLostError, RegistryClientError
from serving.jobs.client import JobsClient, ReportRefusedError
from serving.jobs.work import JobFolder, TrainingOptions, TrainingProcess, path_models, remove_old

_BEATS = 6
_KILL_SHARE = 2 / 3
_MOST_PAUSE_S = 30.0
_LAST_TRIES = 3
_ERROR_CHARS = 2000
# `ccatune train` ends its message so where the fault may pass, as that of a Ray cluster that was lost.
_PASSING = "--resume"


class Lease:
    """A runner's lease of a job. until_s: when the training process must have ended, by the monotonic clock."""

    def __init__(self, client: JobsClient, job: Json, word: str, *, leased_s: float) -> None:
        self._client = client
        self._id = job["id"]
        self.word = word
        self._period_s = job["lease_s"] / _BEATS
        self._beaten_s = -float("inf")
        self.until_s = leased_s + job["lease_s"] * _KILL_SHARE
        self._sent_log = ""
        self.is_cancelling = False

    def beat(self, folder: JobFolder, progress: Json | None, say: Callable[[str], None]) -> None:
        """Send a heartbeat if it is time for one. Raises LeaseLostError, also when none was answered for too long."""
        now_s = time.monotonic()
        if now_s > self.until_s:
            raise LeaseLostError("the registry has answered no heartbeat for most of the lease")
        if now_s - self._beaten_s < self._period_s:
            return
        self._beaten_s = now_s
        log = folder.log_end()
        try:
            answer = self._beat(say, progress=progress, log=None if log == self._sent_log else log)
        except LeaseLostError:
            raise
        except RegistryClientError as error:
            say(f"job {self._id}: heartbeat failed: {error}")
            return
        self._sent_log = log
        self.is_cancelling = answer["is_cancelling"]
        self._period_s = answer["lease_s"] / _BEATS
        self.until_s = now_s + answer["lease_s"] * _KILL_SHARE

    def _beat(self, say: Callable[[str], None], *, progress: Json | None, log: str | None) -> Json:
        timeout_s = max(self._period_s, 1.0)
        try:
            return self._client.beat(self._id, lease=self.word, timeout_s=timeout_s, progress=progress, log=log)
        except ReportRefusedError as error:
            # A registry of another release may refuse them. The lease matters more.
            say(f"job {self._id}: progress and log were refused: {error}")
            return self._client.beat(self._id, lease=self.word, timeout_s=timeout_s)


class Runner:
    """Runs one job at a time, until `stop` is set.

    name: shown in lists. work: folder of the jobs' folders. say: prints a line.
    """

    def __init__(
        self,
        client: JobsClient,
        *,
        name: str,
        work: Path,
        options: TrainingOptions,
        poll_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._name = name
        self._work = work
        self._options = options
        self._poll_s = poll_s
        self._say = say
        self.stop = threading.Event()

    def run(self, *, once: bool) -> int:
        """Run jobs, and return how many. once: return when there is no job for this runner.

        Raises RegistryClientError if `once` and the registry cannot be reached.
        """
        n_jobs = 0
        while not self.stop.is_set():
            word, began_s = secrets.token_urlsafe(24), time.monotonic()
            try:
                job = self._client.lease(
                    runner=self._name, lease=word, datasets=sorted(self._options.datasets), paths=path_models()
                )
            except RegistryClientError as error:
                if once:
                    raise
                self._say(f"no job: {error}")
                job = None
            if job is not None:
                self._run(job, Lease(self._client, job, word, leased_s=began_s))
                n_jobs += 1
            elif once:
                break
            else:
                self.stop.wait(self._poll_s)
        return n_jobs

    def _run(self, job: Json, lease: Lease) -> None:
        self._say(f"job {job['id']}: {job['study']}, attempt {job['attempt']}")
        remove_old(self._work, job["registry"])
        folder = JobFolder(self._work, job)
        try:
            try:
                report = self._train(job, folder, lease)
            except OSError as error:
                report = {"outcome": "lost", "error": f"{error.filename or folder.path}: {error.strerror or error}"}
            self._end(job["id"], folder, lease, report)
        except LeaseLostError as error:
            self._say(f"job {job['id']}: left to another runner: {error}")
        finally:
            folder.release()

    def _train(self, job: Json, folder: JobFolder, lease: Lease) -> Json:
        """Return what to report at the end. Raises LeaseLostError."""
        while not folder.take():
            lease.beat(folder, _waiting(folder), self._say)
            if lease.is_cancelling or self.stop.wait(0.5):
                return {"outcome": "cancelled" if lease.is_cancelling else "interrupted"}
        folder.note(f"attempt {job['attempt']} of job {job['id']} by {self._name}")
        if (ensemble := folder.ensemble()) is None:
            if obstacle := folder.obstacle():
                return {"outcome": "failed", "error": obstacle}
            status = self._attended(folder.start(self._options), folder, lease)
            ensemble = folder.ensemble() if status == 0 else None
            if ensemble is None:
                return self._failure(status, folder, lease)
        return {"ensemble": ensemble, "outcome": "done"} | self._compare(ensemble, folder, lease)

    def _compare(self, ensemble: Ensemble, folder: JobFolder, lease: Lease) -> Json:
        """Return what the comparison adds to the report, or the report of an attempt that ends without one."""
        if not folder.needs_comparison(ensemble):
            return {}
        if (shadow := folder.shadow()) is None:
            status = self._attended(folder.start_comparison(self._options), folder, lease)
            shadow = folder.shadow() if status == 0 else None
            if shadow is None:
                failure = self._failure(status, folder, lease)
                is_refused = failure["outcome"] == "failed"
                return {"error": failure["error"]} if is_refused else {"ensemble": None, **failure}
        return {"shadow": shadow}

    def _attended(self, process: TrainingProcess, folder: JobFolder, lease: Lease) -> int:
        try:
            return self._attend(process, folder, lease)
        except BaseException:
            process.kill()
            raise

    def _attend(self, process: TrainingProcess, folder: JobFolder, lease: Lease) -> int:
        phase = ""
        while (status := process.wait()) is None:
            if lease.is_cancelling or self.stop.is_set():
                process.interrupt()
            progress = folder.progress()
            if progress is not None and progress["phase"] != phase:
                phase = progress["phase"]
                folder.note(phase)
            lease.beat(folder, progress, self._say)
        return status

    def _failure(self, status: int, folder: JobFolder, lease: Lease) -> Json:
        if lease.is_cancelling or self.stop.is_set():
            return {"outcome": "cancelled" if lease.is_cancelling else "interrupted"}
        if status < 0:
            error = f"training was ended by {signal.Signals(-status).name}, as after a kill or without memory"
            return {"outcome": "lost", "error": error}
        error = folder.last_words()[:_ERROR_CHARS] or f"training ended with status {status} and no message"
        return {"outcome": "lost" if _PASSING in error else "failed", "error": error}

    def _end(self, job_id: int, folder: JobFolder, lease: Lease, report: Json) -> None:
        """Report until the registry has answered. Raises LeaseLostError."""
        folder.note(f"ended: {report['outcome']}")
        pause_s, tries = 0.5, 0
        while True:
            try:
                ended = self._client.end(job_id, lease=lease.word, log=folder.log_end(), **report)
            except LeaseLostError:
                raise
            except ReportRefusedError as error:
                self._say(f"job {job_id}: {error}")
                if report["outcome"] != "done":
                    return
                if "shadow" in report:
                    said = f"the registry refused the comparison: {error}"[:_ERROR_CHARS]
                    report = {"outcome": "done", "ensemble": report["ensemble"], "error": said}
                    continue
                report = {"outcome": "failed", "error": f"the registry refused the ensemble: {error}"[:_ERROR_CHARS]}
            except RegistryClientError as error:
                self._say(f"job {job_id}: {error}")
                tries += self.stop.is_set()
                if tries >= _LAST_TRIES:
                    return
                time.sleep(min(pause_s, 1.0) if self.stop.is_set() else pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            else:
                self._say(_ending(ended, report))
                if ended["state"] != "queued":
                    folder.remove()
                return


def _ending(ended: Json, report: Json) -> str:
    """Return how an attempt ended, in one line: the state, and the reason if it is not only `done`."""
    said = f"job {ended['id']}: {' '.join(filter(None, (ended['state'], ended['digest'])))}"
    reason = ended.get("error") or report.get("error")
    where = f"its log: `ccatune jobs logs {ended['id']}`"
    return f"{said}: {' '.join(reason.split())}; {where}" if reason else said


def _waiting(folder: JobFolder) -> Json:
    phase = f"waiting: another process uses {folder.path.name}"
    return {"phase": phase, "share": 0.0, "left_s": None, "searches": 0, "points": 0, "points_meeting": 0,
            "best_of": None, "best": []}  # fmt: skip
