# SPDX-License-Identifier: MIT
"""Helpers for programs in the guest: links of network namespaces, flows, processes that end with their programs.

They import few modules, all of the standard library, because every import is slow under software emulation. They change
the machine that they run on. So programs call require_guest() first, which refuses to run outside a guest.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# The folder of the programs that run in namespaces. They are imported from it by their own names.
NAMESPACE = Path(__file__).resolve().parents[3] / "emulation" / "mahimahi" / "namespace"
TRAFFIC = NAMESPACE / "traffic.py"
SHARE = Path(os.environ.get("CCATUNE_SHARE", "/nonexistent"))
# Imports only what the program needs, which saves a second per start.
PYTHON = (sys.executable, "-I", "-S")

FAR = "10.9.2.2"


def require_guest() -> None:
    """Raise RuntimeError if this is not the guest."""
    if not SHARE.is_mount():
        raise RuntimeError(
            f"expected to run in the guest, with {SHARE} mounted; start it with `python -m emulation.vm`"
        )


@functools.cache
def patience() -> int:
    """Return how many times as long as they state programs wait, because the machine is busy: `patience` of the job."""
    file = SHARE / "job.json"
    return int(json.loads(file.read_text(encoding="utf-8"))["patience"]) if file.exists() else 1


def run(*arguments: str | Path, check: bool = True, quiet: bool = True) -> str:
    """Run a command to its end and return its output. Raises RuntimeError with its error output."""
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(str(a) for a in arguments)}: status {done.returncode}: {done.stderr.strip()}")
    if not quiet:
        sys.stderr.write(done.stdout + done.stderr)
    return done.stdout


def wait_for(
    holds: Callable[[], object],
    *,
    timeout_s: float,
    what: str,
    pause_s: float = 0.02,
    of: subprocess.Popen[str] | None = None,
) -> None:
    """Wait until `holds` returns true.

    of: the process that it depends on.

    Raises:
        TimeoutError: timeout_s, times patience(), are over; names `what`.
        RuntimeError: the process has ended.
    """
    end_s = time.monotonic() + patience() * timeout_s
    while not holds():
        if of is not None and of.poll() is not None and not holds():
            raise RuntimeError(f"expected {what}, but its process ended with status {of.returncode}")
        if time.monotonic() >= end_s:
            raise TimeoutError(f"expected {what} within {timeout_s:g} s, it did not happen")
        time.sleep(pause_s)


@contextlib.contextmanager
def process(*arguments: str | Path, **how: object) -> Iterator[subprocess.Popen[str]]:
    """Run a process in a session of its own; at the end, kill it and everything that it started."""
    started = subprocess.Popen([str(a) for a in arguments], text=True, start_new_session=True, **how)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        # The group outlives the process if a child does.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def within(namespace: str, *arguments: str | Path) -> tuple[str | Path, ...]:
    """The command that runs `arguments` in a network namespace; "" is the initial one."""
    return ("ip", "netns", "exec", namespace, *arguments) if namespace else arguments


@contextlib.contextmanager
def chain(
    *, rate: str = "", queue_bytes: int = 0, delay_ms: float = 0.0, loss: str = "", namespace: str = ""
) -> Iterator[None]:
    """A path from `namespace` over a router to FAR in the namespace `far`, and the way back.

    rate: of the router's token bucket towards FAR, as tc writes it (`20mbit`), with a queue of queue_bytes; "" leaves
    the path unlimited. delay_ms: added on the way back, so that it is the round trip. loss: netem's arguments; it
    applies before the bucket. The bottleneck is not at the sender, because queues there would hold TCP back.
    """
    names = ("router", "far")
    for name in names:
        run("ip", "netns", "add", name)
    try:
        for near, far, at, number in (("ccat0", "ccat1", "router", 1), ("ccat2", "ccat3", "far", 2)):
            home = namespace if number == 1 else "router"
            run(*within(home, "ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", at))
            run(*within(home, "ip", "addr", "add", f"10.9.{number}.1/24", "dev", near))
            run(*within(at, "ip", "addr", "add", f"10.9.{number}.2/24", "dev", far))
            run(*within(home, "ip", "link", "set", near, "up"))
            run(*within(at, "ip", "link", "set", far, "up"))
        run(*within("router", "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        run(*within(namespace, "ip", "route", "add", "10.9.2.0/24", "via", "10.9.1.2"))
        run(*within("far", "ip", "route", "add", "10.9.1.0/24", "via", "10.9.2.1"))
        shape(rate=rate, queue_bytes=queue_bytes, loss=loss)
        if delay_ms:
            set_delay(delay_ms)
        yield
    finally:
        run(*within(namespace, "ip", "link", "del", "ccat0"), check=False)
        for name in names:
            run("ip", "netns", "del", name, check=False)


def set_delay(delay_ms: float) -> None:
    """Replace the delay on the way back."""
    words = ("netem", "delay", f"{delay_ms}ms", "limit", "100000")
    run(*within("far", "tc", "qdisc", "replace", "dev", "ccat3", "root", *words))


def shape(*, rate: str, queue_bytes: int, loss: str = "") -> None:
    """Replace the rate and the queue of the bottleneck, and its random loss if `loss` is given."""
    if loss:
        run(*within("router", "tc", "qdisc", "replace", "dev", "ccat1", "ingress"), check=False)
        run(*within("router", "tc", "qdisc", "replace", "dev", "ccat2", "root", "handle", "1:", "netem", *loss.split()))
    if rate:
        parent = ("parent", "1:1") if loss else ("root",)
        words = ("tbf", "rate", rate, "burst", "3000", "limit", str(queue_bytes))
        run(*within("router", "tc", "qdisc", "replace", "dev", "ccat2", *parent, "handle", "2:", *words))


@contextlib.contextmanager
def receiver(*, port: int = 5201, namespace: str = "far", host: str = FAR) -> Iterator[None]:
    """Run the traffic program as a receiver of flows, at FAR by default."""
    command = within(namespace, *PYTHON, TRAFFIC, "receive", "--host", host, "--port", str(port))
    with process(*command, stdout=subprocess.PIPE) as started:
        assert_listening(started)
        yield


def assert_listening(started: subprocess.Popen[str]) -> None:
    """Read the line that says that the program listens. Raises RuntimeError for any other line."""
    line = started.stdout.readline() if started.stdout else ""
    if "listening" not in line:
        raise RuntimeError(f"expected the traffic program to listen, it said {line!r}")


def send(*words: str, namespace: str = "", host: str = FAR, port: int = 5201) -> list[dict[str, object]]:
    """Run the sender to its end; return the lines that it printed."""
    command = within(namespace, *PYTHON, TRAFFIC, "send", "--host", host, "--port", str(port), *words)
    return [json.loads(line) for line in run(*command).splitlines()]


@contextlib.contextmanager
def sending(*words: str, namespace: str = "", host: str = FAR, port: int = 5201) -> Iterator[subprocess.Popen[str]]:
    """Run the sender in the background."""
    command = within(namespace, *PYTHON, TRAFFIC, "send", "--host", host, "--port", str(port), *words)
    with process(*command, stdout=subprocess.PIPE) as started:
        yield started


def ends(lines: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The last line of each flow."""
    return [line for line in lines if line.get("end")]
