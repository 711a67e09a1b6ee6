# SPDX-License-Identifier: MIT
"""Runs the job of a scenario (run_job.py) once over Mahimahi.

    sender, cubic/bbr/gr ... | mm-delay | policers | mm-link, its trace and queue | mm-loss | policers | receiver

A proxy (proxy.py) that splits the connections takes the place of the sender. The sender is then in front of it:

    sender | mm-delay | mm-link | mm-loss | proxy | the path above

The link of the proxy starts earlier than that of the clients. Its rate is constant, so that this makes no difference.

delay-shell (emulation/mahimahi/shell) takes the place of mm-delay if the delay changes over time. It reads the time at
which its delays begin from a FIFO. This is also the time at which both ends of the flows begin.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import run_job, shells
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import run_job
    import shells

FOLDER = run_job.FOLDER
PLAN = FOLDER / "plan"
LOG, ACK_LOG = FOLDER / "log", FOLDER / "ack-log"
SERVERS = "servers-"
# Mahimahi's addresses are unique in a namespace only. The proxy's namespace has the one of the outermost one, too.
SERVERS_ADDRESS = "198.18.0.1"
SERVERS_LOG = FOLDER / f"{SERVERS}log"
DELAYS, DELAYS_BEGIN = FOLDER / "delays", FOLDER / "delays-begin"
FLOWS = Path(__file__).with_name("flows.py")
POLICER = Path(__file__).with_name("policer.py")
PROXY = Path(__file__).with_name("proxy.py")
PORT = 5201
# An uplink without a limit has two opportunities in every ms, 24 Mbit/s. ACKs wait for the next ms at most.
UPLINK = "1\n1\n"
_READY_S = 60.0
_COUNTERS = ("TCPTimeouts", "TCPSpuriousRTOs")


def write_traces(job: dict[str, Any], lead_ms: int) -> None:
    """Write the traces of mm-link: that of the data, and that of the ACKs."""
    duration_ms = round(job["duration_s"] * 1000)
    run_job.write_trace(FOLDER / "down", job["opportunities_ms"], lead_ms=lead_ms, duration_ms=duration_ms)
    if job["ack_opportunities_ms"] is None:
        (FOLDER / "up").write_text(UPLINK, encoding="ascii")
    else:
        run_job.write_trace(FOLDER / "up", job["ack_opportunities_ms"], lead_ms=lead_ms, duration_ms=duration_ms)
    if job["proxy"] is not None:
        times = job["proxy"]["path"]["opportunities_ms"]
        (FOLDER / f"{SERVERS}down").write_text("".join(f"{at_ms}\n" for at_ms in times), encoding="ascii")
        (FOLDER / f"{SERVERS}up").write_text(UPLINK, encoding="ascii")


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
    if job["proxy"] is None:
        return path_words(job)
    first, *others = path_words(job)
    # The clients connect to the proxy. Without this the address would remain that of the outermost namespace.
    return [*path_words(job["proxy"]["path"], SERVERS), ["env", "-u", "MAHIMAHI_BASE", *first], *others]


def path_words(job: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """Return the command lines of the shells of a path. prefix: of the names of its files."""
    queue = job["queue"]
    arguments = ", ".join(f"{name}={queue[name]}" for name in ("packets", "bytes") if queue[name] is not None)
    up, down, log = (FOLDER / f"{prefix}{name}" for name in ("up", "down", LOG.name))
    link = ["mm-link", str(up), str(down), f"--downlink-log={log}"]
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


def counters(pid: int | str = "self") -> dict[str, int]:
    """Return the TCP counters (_COUNTERS) of a process's namespace, by their names in /proc/net/netstat."""
    lines = Path(f"/proc/{pid}/net/netstat").read_text(encoding="ascii").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
    table = dict(zip(names, values, strict=True))
    return {name: int(table[name]) for name in _COUNTERS}


def plan_of(job: dict[str, Any]) -> dict[str, Any]:
    """Return the plan that the programs of a run read."""
    shared = {key: job[key] for key in ("duration_s", "sample_s", "flows")}
    return {"port": PORT, **shared, **job["policers"], "proxy": job["proxy"]}


def proxy_space(job: dict[str, Any], up: list[shells.Space]) -> shells.Space | None:
    """Return the namespace of a job's proxy, the innermost one of its link; None without a proxy."""
    return None if job["proxy"] is None else up[len(path_words(job["proxy"]["path"])) - 1]


def proxy_words(space: shells.Space) -> list[str]:
    """Return the command line of the proxy."""
    return [*space.enter, *run_job.PYTHON, str(PROXY), str(PLAN), str(FOLDER / "proxy"), SERVERS_ADDRESS]


def proxy_result(begin_s: float, counted: dict[str, int]) -> dict[str, Any]:
    """Return the result of the proxy, with the log of its link and the counters of its namespace."""
    log = SERVERS_LOG.read_text(encoding="ascii")
    return {
        **json.loads((FOLDER / "proxy").read_text()),
        "counters": counted,
        "log": log,
        "lead_ms": round(begin_s * 1000) - sum(run_job.stamps_ms(log) or []),
    }


def watchers(job: dict[str, Any], up: list[shells.Space]) -> dict[str, list[str]]:
    """Return the command line of the policers on each side of the link.

    The policers before the link run in the namespace of mm-delay, those behind it in the innermost namespace.
    """
    at = {"before": up[len(up) - len(path_words(job))], "behind": up[-1]}
    return {
        side: [*at[side].enter, *run_job.PYTHON, str(POLICER), str(PLAN), str(FOLDER / side), side]
        for side in at
        if job["policers"][side]
    }


def attempt(job: dict[str, Any], lead_ms: int) -> dict[str, Any]:
    """Run the job once. Raises run_job.LateError if lead_ms was too short, ShellError if a program fails."""
    run_job.empty_logs((LOG, ACK_LOG, SERVERS_LOG))
    write_traces(job, lead_ms)
    PLAN.write_text(json.dumps(plan_of(job)))
    sent, taken = FOLDER / "sent", FOLDER / "taken"
    before = counters()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(program("sender", *run_job.PYTHON, str(FLOWS), "serve", str(PLAN), str(sent)))
        server.expect("listening")
        up = stack.enter_context(shells.nested(shell_words(job), folder=FOLDER, timeout_s=_READY_S))
        shells.call(*up[-1].enter, "sysctl", "-qw", f"net.ipv4.tcp_rmem={run_job.BUFFERS_BYTES}")
        sides = watchers(job, up)
        started = [stack.enter_context(program(f"policers {side}", *words)) for side, words in sides.items()]
        if (proxy := proxy_space(job, up)) is not None:
            started.append(stack.enter_context(program("proxy", *proxy_words(proxy))))
        words = (*up[-1].enter, *run_job.PYTHON, str(FLOWS), "take", str(PLAN), str(taken), up[-1].address)
        started += [stack.enter_context(program("receiver", *words)), server]
        for one in started:
            one.expect("ready")
        begin_s = run_job.begins_at_s(LOG, lead_ms)
        if job["delays"] is not None:
            begin_delays(begin_s)
        for one in started:
            one.begin(begin_s)
        for one in reversed(started):
            one.await_end()
        # The namespace is new, so its counters began at 0.
        counted = None if proxy is None else counters(proxy.pid)
    after = counters()
    return {
        "kernel": platform.release(),
        "lead_ms": lead_ms,
        "counters": {name: after[name] - before[name] for name in _COUNTERS},
        "sent": json.loads(sent.read_text()),
        "received": json.loads(taken.read_text()),
        "policers": {side: json.loads((FOLDER / side).read_text()) for side in sides},
        "log": LOG.read_text(encoding="ascii"),
        "ack_log": ACK_LOG.read_text(encoding="ascii"),
        "proxy": None if counted is None else proxy_result(begin_s, counted),
    }


def prepare(job: dict[str, Any]) -> None:
    """Set the namespace's buffers and parameters, and place what delay-shell needs."""
    if job["delays"] is not None:
        place_delays(job["delays"])
    for setting in (f"net.ipv4.tcp_wmem={run_job.BUFFERS_BYTES}", "net.ipv4.tcp_no_metrics_save=1"):
        shells.call("sysctl", "-qw", setting)
    if job["proxy"] is not None:
        shells.call("ip", "address", "add", f"{SERVERS_ADDRESS}/32", "dev", "lo")
    for path, text in job["writes"]:
        with Path(path).open("w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    run_job.main(attempt, prepare=prepare)
