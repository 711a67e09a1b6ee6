# SPDX-License-Identifier: MIT
"""Makes one run over Mahimahi. It reads a job as a JSON line from standard input, and prints the result as a JSON line.

It is the first process of its own namespaces (emulation/mahimahi/launch.py). All processes in them therefore end with
it, and it ends when its standard input is closed.

    sender, cubic/bbr/gr ... | mm-delay | policers | mm-link, its trace and queue | mm-loss | policers | receiver

delay-shell (emulation/mahimahi/shell) takes the place of mm-delay if the delay changes over time.

The job's trace has to begin with the scenario, but mm-link begins its trace when it starts. Therefore the job's
opportunities are preceded by lead_ms of other opportunities. During this time the other programs are started and
connected. mm-link's log contains the time at which its trace began, and both ends of the flows begin lead_ms later.
A delay that changes over time begins at the same time: delay-shell reads it from a FIFO.
If the machine is too slow for this, the run is repeated with a doubled lead_ms, up to ATTEMPTS attempts in all.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import linklog, shells
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import linklog
    import shells

FOLDER = Path("/run")
PLAN = FOLDER / "plan"
LOG, ACK_LOG = FOLDER / "log", FOLDER / "ack-log"
DELAYS, DELAYS_BEGIN = FOLDER / "delays", FOLDER / "delays-begin"
FLOWS = Path(__file__).with_name("flows.py")
POLICER = Path(__file__).with_name("policer.py")
PYTHON = (sys.executable, "-I", "-S")
PORT = 5201
ATTEMPTS = 3
# An uplink without a limit has two opportunities in every ms, 24 Mbit/s. ACKs wait for the next ms at most.
UPLINK = "1\n1\n"
BUFFERS_BYTES = "4096 131072 67108864"
_READY_S = 60.0
_LOG_S = 10.0
_COUNTERS = ("TCPTimeouts", "TCPSpuriousRTOs")


class LateError(Exception):
    """The beginning of the scenario had passed before everything was ready."""


def write_trace(path: Path, opportunities_ms: list[int], *, lead_ms: int, duration_ms: int) -> None:
    """Write a trace: one opportunity per ms during the lead, then the given ones.

    A last opportunity, a minute after the end, prevents the trace from repeating during the run.
    """
    times = [*range(1, lead_ms), *(lead_ms + at_ms for at_ms in opportunities_ms), lead_ms + duration_ms + 60_000]
    path.write_text("".join(f"{at_ms}\n" for at_ms in times), encoding="ascii")


def write_traces(job: dict[str, Any], lead_ms: int) -> None:
    """Write the traces of mm-link: that of the data, and that of the ACKs."""
    duration_ms = round(job["duration_s"] * 1000)
    write_trace(FOLDER / "down", job["opportunities_ms"], lead_ms=lead_ms, duration_ms=duration_ms)
    if job["ack_opportunities_ms"] is None:
        (FOLDER / "up").write_text(UPLINK, encoding="ascii")
    else:
        write_trace(FOLDER / "up", job["ack_opportunities_ms"], lead_ms=lead_ms, duration_ms=duration_ms)


def delay_words(job: dict[str, Any]) -> list[str]:
    """Return the command line of the outermost shell, which delays packets."""
    if job["delays"] is None:
        return ["mm-delay", str(job["delay_ms"])]
    return [Path(job["delays"]["shell"]).name, "--begin", str(DELAYS_BEGIN), str(DELAYS)]


def place_delays(delays: dict[str, str]) -> None:
    """Make what delay-shell needs: a copy of it, its delays, and the FIFO that begins them."""
    shells.place_program(Path(delays["shell"]), FOLDER)
    DELAYS.write_text(delays["trace"], encoding="ascii")
    os.mkfifo(DELAYS_BEGIN)
    DELAYS_BEGIN.chmod(0o666)


def begin_delays(begin_s: float) -> None:
    """Send delay-shell the time at which the delays begin, in s since 1970. It has the FIFO open."""
    writing = os.open(DELAYS_BEGIN, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writing, f"{begin_s!r}\n".encode())
    os.close(writing)


def shell_words(job: dict[str, Any]) -> list[list[str]]:
    """Return the command lines of the shells from the outermost to the innermost, without the command to run inside."""
    queue = job["queue"]
    arguments = ", ".join(f"{name}={queue[name]}" for name in ("packets", "bytes") if queue[name] is not None)
    link = ["mm-link", str(FOLDER / "up"), str(FOLDER / "down"), f"--downlink-log={LOG}"]
    if job["ack_opportunities_ms"] is not None:
        link.append(f"--uplink-log={ACK_LOG}")
    link.append(f"--downlink-queue={'droptail' if arguments else 'infinite'}")
    words = [
        delay_words(job),
        [*link, *([f"--downlink-queue-args={arguments}"] * bool(arguments)), "--"],
    ]
    if job["loss"]:
        words.append(["mm-loss", "downlink", format(job["loss"], ".9f")])
    return words


class Program:
    """A program of the run. It prints a word when it is ready, reads the time of the beginning, and ends on time."""

    def __init__(self, what: str, started: subprocess.Popen[bytes]) -> None:
        assert started.stdout is not None  # noqa: S101 - a pipe, for the type checker
        self._what = what
        self._started = started
        self._lines = shells.Lines(started.stdout.fileno())

    def expect(self, word: str) -> None:
        """Wait for a line that contains the word. Raises ShellError if none comes."""
        line = self._lines.read(_READY_S)
        if line is None or word not in line:
            raise shells.ShellError(f"{self._what}: expected it {word} within {_READY_S:g} s, it said {line!r}")

    def begin(self, begin_s: float) -> None:
        """Send it the time at which the scenario begins, in s since 1970."""
        assert self._started.stdin is not None  # noqa: S101 - a pipe, for the type checker
        self._started.stdin.write(f"{begin_s!r}\n".encode())
        self._started.stdin.flush()

    def await_end(self) -> None:
        """Wait for its end. Raises ShellError if it failed."""
        if status := self._started.wait():
            raise shells.ShellError(f"{self._what}: expected it to end well, got status {status}")


@contextlib.contextmanager
def program(what: str, *words: str) -> Iterator[Program]:
    """Start a program. Kill it at the end of the context if it still runs."""
    started = subprocess.Popen(list(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Program(what, started)
    finally:
        started.kill()
        started.wait()
        for pipe in (started.stdin, started.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def begun_at_ms(log: Path) -> int:
    """Wait for the log's header, and return the time at which the trace began, in ms since 1970."""
    end_s = time.monotonic() + _LOG_S
    while (stamps := linklog.header(log.read_text(encoding="ascii"))) is None:
        if time.monotonic() > end_s:
            raise shells.ShellError(f"mm-link: expected its log to begin within {_LOG_S:g} s, it did not")
        time.sleep(0.005)
    return sum(stamps)


def counters() -> dict[str, int]:
    """Return the namespace's TCP counters (_COUNTERS), by their names in /proc/net/netstat."""
    lines = Path("/proc/self/net/netstat").read_text(encoding="ascii").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
    table = dict(zip(names, values, strict=True))
    return {name: int(table[name]) for name in _COUNTERS}


def plan_of(job: dict[str, Any]) -> dict[str, Any]:
    """Return the plan that the programs of a run read."""
    shared = {key: job[key] for key in ("duration_s", "sample_s", "flows")}
    return {"port": PORT, **shared, **job["policers"]}


def watchers(job: dict[str, Any], up: list[shells.Inner]) -> dict[str, list[str]]:
    """Return the command line of the policers on each side of the link.

    The policers before the link run in the namespace of mm-delay, those behind it in the innermost namespace.
    """
    at = {"before": up[0], "behind": up[-1]}
    return {
        side: [*at[side].enter, *PYTHON, str(POLICER), str(PLAN), str(FOLDER / side), side]
        for side in at
        if job["policers"][side]
    }


def attempt(job: dict[str, Any], lead_ms: int) -> dict[str, Any]:
    """Run the job once. Raises LateError if lead_ms was too short, ShellError if a program fails."""
    for log in (LOG, ACK_LOG):
        log.write_text("")
        log.chmod(0o666)
    write_traces(job, lead_ms)
    PLAN.write_text(json.dumps(plan_of(job)))
    sent, taken = FOLDER / "sent", FOLDER / "taken"
    before = counters()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(program("sender", *PYTHON, str(FLOWS), "serve", str(PLAN), str(sent)))
        server.expect("listening")
        up = stack.enter_context(shells.nested(shell_words(job), folder=FOLDER, timeout_s=_READY_S))
        shells.call(*up[-1].enter, "sysctl", "-qw", f"net.ipv4.tcp_rmem={BUFFERS_BYTES}")
        told = watchers(job, up)
        started = [stack.enter_context(program(f"policers {side}", *told[side])) for side in told]
        words = (*up[-1].enter, *PYTHON, str(FLOWS), "take", str(PLAN), str(taken), up[-1].base)
        started += [stack.enter_context(program("receiver", *words)), server]
        for one in started:
            one.expect("ready")
        begin_s = (begun_at_ms(LOG) + lead_ms) / 1000
        if time.time() >= begin_s:
            raise LateError
        if job["delays"] is not None:
            begin_delays(begin_s)
        for one in started:
            one.begin(begin_s)
        for one in reversed(started):
            one.await_end()
    after = counters()
    return {
        "kernel": platform.release(),
        "lead_ms": lead_ms,
        "counters": {name: after[name] - before[name] for name in _COUNTERS},
        "sent": json.loads(sent.read_text()),
        "received": json.loads(taken.read_text()),
        "policers": {side: json.loads((FOLDER / side).read_text()) for side in told},
        "log": LOG.read_text(encoding="ascii"),
        "ack_log": ACK_LOG.read_text(encoding="ascii"),
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Prepare the namespaces and run the job.

    Raises:
        ShellError: a program failed, or not everything was ready in time, in ATTEMPTS attempts.
    """
    shells.prepare(Path(job["mahimahi"]) if job["mahimahi"] else None, folder=FOLDER)
    if job["delays"] is not None:
        place_delays(job["delays"])
    for setting in (f"net.ipv4.tcp_wmem={BUFFERS_BYTES}", "net.ipv4.tcp_no_metrics_save=1"):
        shells.call("sysctl", "-qw", setting)
    for path, text in job["writes"]:
        with Path(path).open("w", encoding="utf-8") as file:
            file.write(text)
    lead_ms = job["lead_ms"]
    for tries_left in reversed(range(ATTEMPTS)):
        try:
            return attempt(job, lead_ms)
        except LateError:
            lead_ms *= 2
        except shells.NotUpError:
            if not tries_left:
                raise
    raise shells.ShellError(f"expected everything ready within {lead_ms // 2} ms, it was not; run fewer side by side")


def go_first() -> None:
    """Give this process, and all that it starts, real-time priority.

    The shells serve packets in the ms in which they wake up. On a busy machine they would be late with ordinary
    priority. If the system does not allow real-time priority, the run continues without it.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def die_with_owner() -> None:
    """Exit when standard input is closed. All processes in these namespaces end with this process."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


def main() -> None:
    """Read the job, run it, and print the result or the error."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(sys.stdin.fileno(), 1 << 20) or b"\n"
    go_first()
    threading.Thread(target=die_with_owner, daemon=True).start()
    try:
        result = run(json.loads(line))
    except (shells.ShellError, linklog.LogError, OSError, RuntimeError, ValueError) as error:
        result = {"error": f"{error}" if not isinstance(error, OSError) else f"{error.filename}: {error.strerror}"}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
