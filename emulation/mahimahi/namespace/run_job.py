# SPDX-License-Identifier: MIT
"""Runs a job in namespaces of its own. Runs of scenarios (link.py) and of schemes (pantheon/inside.py) share it.

The program reads a job as a JSON line from standard input, and prints the result or the error as a JSON line. It is the
first process of its namespaces (emulation/mahimahi/process.py). All processes in them therefore end with it, and it
ends when its standard input is closed.

A trace has to begin with the run, but mm-link begins its trace when it starts. Therefore the opportunities of the job
are preceded by a lead of lead_ms, with one opportunity per ms. During this time the other programs are started and
connected. mm-link's log states when its trace began, and the run begins lead_ms later. If the machine is too slow for
this, the run is repeated with a doubled lead_ms, up to ATTEMPTS attempts in all.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import shells
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import shells

# A tmpfs of the run, with its traces and mm-link's logs.
FOLDER = Path("/run")
PYTHON = (sys.executable, "-I", "-S")
ATTEMPTS = 3
BUFFERS_BYTES = "4096 131072 67108864"
_LOG_S = 10.0

Job = dict[str, Any]
Attempt = Callable[[Job, int], dict[str, Any]]


class LateError(Exception):
    """The beginning of the run had passed before everything was ready."""


def write_trace(path: Path, opportunities_ms: list[int], *, lead_ms: int, duration_ms: int) -> None:
    """Write a trace: one opportunity per ms during the lead, then the given ones.

    A last opportunity, a minute after the end, prevents the trace from repeating during the run.
    """
    times = [*range(1, lead_ms), *(lead_ms + at_ms for at_ms in opportunities_ms), lead_ms + duration_ms + 60_000]
    path.write_text("".join(f"{at_ms}\n" for at_ms in times), encoding="ascii")


def empty_logs(paths: Iterable[Path]) -> None:
    """Make empty files to which the shells, which run as an ordinary user, can write."""
    for path in paths:
        path.write_text("")
        path.chmod(0o666)


def begins_at_s(log: Path, lead_ms: int) -> float:
    """Return when the run begins, in s since 1970: lead_ms after the beginning of the trace that mm-link logs.

    Raises LateError if this time has passed. Raises ShellError if mm-link writes no log.
    """
    end_s = time.monotonic() + _LOG_S
    while (stamps := stamps_ms(log.read_text(encoding="ascii"))) is None:
        if time.monotonic() > end_s:
            raise shells.ShellError(f"mm-link: expected its log to begin within {_LOG_S:g} s, it did not")
        time.sleep(0.005)
    begins_s = (sum(stamps) + lead_ms) / 1000
    if time.time() >= begins_s:
        raise LateError
    return begins_s


def stamps_ms(text: str) -> list[int] | None:
    """Return the init and the base timestamp of a log of mm-link; None while its header is incomplete."""
    found: dict[str, int] = {}
    for line in text.splitlines(keepends=True):
        for name in ("init", "base"):
            if line.startswith(f"# {name} timestamp:") and line.endswith("\n"):
                found[name] = int(line.split()[-1])
    return list(found.values()) if len(found) == 2 else None


def run(job: Job, attempt: Attempt, prepare: Callable[[Job], None]) -> dict[str, Any]:
    """Prepare the namespaces and run the job.

    Raises ShellError if a program failed, or not everything was ready in time, in ATTEMPTS attempts.
    """
    shells.prepare(Path(job["mahimahi"]) if job["mahimahi"] else None, folder=FOLDER)
    prepare(job)
    lead_ms = job["lead_ms"]
    for tries_left in reversed(range(ATTEMPTS)):
        try:
            return attempt(job, lead_ms)
        except LateError:
            lead_ms *= 2
        except shells.NotUpError:
            if not tries_left:
                raise
    raise shells.ShellError(f"expected everything ready within {lead_ms // 2} ms, it was not; run fewer in parallel")


def _go_first() -> None:
    """Give this process, and all that it starts, real-time priority.

    The shells serve packets in the ms in which they wake up. On a busy machine they would be late with ordinary
    priority. If the system does not allow real-time priority, the run continues without it.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def _end_with_owner() -> None:
    """Exit when standard input is closed. All processes in these namespaces end with this process."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


def main(attempt: Attempt, *, prepare: Callable[[Job], None] = lambda _: None) -> None:
    """Read the job, run it, and print the result or the error.

    attempt: runs the job once with this lead_ms. It raises LateError if the lead was too short. prepare: what the job
    needs in the namespaces besides Mahimahi, made once before the first attempt.
    """
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(sys.stdin.fileno(), 1 << 20) or b"\n"
    _go_first()
    threading.Thread(target=_end_with_owner, daemon=True).start()
    try:
        result = run(json.loads(line), attempt, prepare)
    except OSError as error:
        result = {"error": f"{error.filename or 'a file'}: {error.strerror}"}
    except (shells.ShellError, RuntimeError, ValueError) as error:
        result = {"error": str(error)}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
