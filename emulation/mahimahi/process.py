# SPDX-License-Identifier: MIT
"""The process of a run in namespaces of its own. It reads a job as a JSON line and prints its result (run_job.py).

The job goes through a pipe and the result through a file without a name, so a killed process leaves no file. All
processes, rules and mounts of a run vanish when the process that started it ends or is killed:

setpriv --pdeathsig KILL      kills `unshare` when the process that started it ends
unshare --kill-child=KILL     then kills the program, the first process of its PID namespace. The kernel then kills all
                              other processes in that namespace. With the last of them the network and mount
                              namespaces vanish, and with these all rules, settings and mounts
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from emulation.errors import EmulationError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The interpreter outside of the virtual environment, for programs that need none of the environment's packages.
BARE_PYTHON = (str(Path(sys.executable).resolve()), "-I", "-S")
LINK = Path(__file__).with_name("namespace") / "link.py"
_SHOWN_LINES = 2
_LOOK_S = 0.05


def launch_words(program: Path = LINK) -> list[str]:
    """Return the command line of a run, whose program reads its job from standard input."""
    unshare = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--")
    return ["setpriv", "--pdeathsig", "KILL", "--", *unshare, *BARE_PYTHON, str(program)]


class RunProcess:
    """A started run. program: the file that runs first in the namespaces. It has ended after limit_s, or it hangs."""

    def __init__(self, job: dict[str, Any], *, limit_s: float, program: Path = LINK) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the run)
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (as above)
        self._limit_s = limit_s
        self._ends_at_s = time.monotonic() + limit_s
        self._process = subprocess.Popen(
            launch_words(program),
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._complaints,
            # In its own session the run does not receive Ctrl-C. This process does, and then ends the run.
            start_new_session=True,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            assert self._process.stdin is not None  # noqa: S101 (a pipe, for the type checker)
            # The pipe stays open, because the program ends when it is closed.
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has already ended; result() reports why
        except BaseException:
            self.close()
            raise

    @property
    def is_over(self) -> bool:
        """Whether the process has ended or its time limit has passed."""
        return self._process.poll() is not None or time.monotonic() > self._ends_at_s

    def result(self) -> dict[str, Any]:
        """Return the result that the program printed.

        Raises EmulationError if it printed none or an error, or it still runs.
        """
        if self._process.poll() is None:
            raise EmulationError(f"expected the run to end within {self._limit_s:g} s, it did not")
        self._said.seek(0)
        self._complaints.seek(0)
        text = self._said.read().decode()
        if not text.endswith("\n"):
            lines = self._complaints.read().decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
            raise EmulationError(
                f"expected a result of the run, got status {self._process.returncode} {' '.join(lines)}"
            )
        result: dict[str, Any] = json.loads(text)
        if "error" in result:
            raise EmulationError(str(result["error"]))
        return result

    def close(self) -> None:
        """Kill the process if it still runs, wait for its end, and close its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._said, self._complaints):
            if file is not None:
                file.close()


class Run(Protocol):
    """A run that has been started."""

    @property
    def process(self) -> RunProcess:
        """Its process."""

    def close(self) -> None:
        """End it if it still runs, and remove what it has left."""


Planned = TypeVar("Planned")
Started = TypeVar("Started", bound=Run)


def run_queue(
    waiting: deque[Planned],
    *,
    may_start: Callable[[Planned, Sequence[Started]], bool],
    start: Callable[[Planned], Started | None],
    finish: Callable[[Started], None],
) -> None:
    """Start the runs in their order, and call `finish` as soon as one is over. All of them are closed at the end.

    may_start: whether one more run may start beside those that run. start: None if it could not be started.
    """
    running: list[Started] = []
    try:
        while running or waiting:
            while waiting and may_start(waiting[0], running):
                if (started := start(waiting.popleft())) is not None:
                    running.append(started)
            time.sleep(_LOOK_S)
            for run in [run for run in running if run.process.is_over]:
                try:
                    finish(run)
                finally:
                    running.remove(run)
                    run.close()
    finally:
        for run in running:
            run.close()
