# SPDX-License-Identifier: MIT
"""Helpers for programs in the guest: links of network namespaces, flows, processes that end with their programs.

They import few modules, all of the standard library, because every import is slow under software emulation. They change
the machine that they run on. So programs call require_guest() first, which refuses to run outside a guest.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

TYPE_CHECKING = False
# The folder of the programs that run in namespaces. They are imported from it by their own names.
NAMESPACE = Path(__file__).resolve().parents[3] / "emulation" / "mahimahi" / "namespace"
TRAFFIC = NAMESPACE / "traffic.py"
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import traffic
else:
    sys.path.append(str(NAMESPACE))
    import traffic

SHARE = Path(os.environ.get("CCATUNE_SHARE", "/nonexistent"))
# Imports only what the program needs, which saves a second per start.
PYTHON = (sys.executable, "-I", "-S")

FAR = "10.9.2.2"
LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNET = 0x40000000


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


def run(*arguments: str | Path, check: bool = True, quiet: bool = True, lines: Sequence[str] = ()) -> str:
    """Run a command to its end, with these lines as its input, and return its output.

    Raises RuntimeError with its error output.
    """
    words, given = [str(a) for a in arguments], "".join(f"{line}\n" for line in lines)
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
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
    of: Child | subprocess.Popen[str] | None = None,
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


class Child:
    """A fork of this process that does some work, with as much of subprocess.Popen as programs need.

    Under software emulation Python takes seconds to start, and a fork starts at once. The child has no file of this
    process but its error output. Its output is read from `stdout`, also the traceback of an exception (status 1).
    """

    def __init__(self, work: Callable[[], object], *, namespace: str = "") -> None:
        """Start; the child joins the network namespace first."""
        output, its = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.dup2(its, 1)
            os.closerange(3, 1 << 16)
            os._exit(_status_of(work, namespace))
        os.close(its)
        self.stdout = os.fdopen(output)

    def poll(self) -> int | None:
        """The status, as Popen writes it; None while the child runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired after so many seconds."""
        end_s = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired(f"child {self.pid}", timeout)
            time.sleep(0.01)
        return status

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _status_of(work: Callable[[], object], namespace: str) -> int:
    """In a child: do the work, and print the traceback where it fails."""
    try:
        if namespace:
            enter(namespace)
        work()
    except BaseException:  # whatever it was, the parent is to see it
        sys.stdout.write(traceback.format_exc())
        return 1
    finally:
        sys.stdout.flush()
    return 0


@contextlib.contextmanager
def child(work: Callable[[], object], *, namespace: str = "") -> Iterator[Child]:
    """Do the work in a fork, which is killed at the end."""
    started = Child(work, namespace=namespace)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def said(work: Callable[[], object], *, namespace: str = "") -> str:
    """Do the work in a fork, and return what it printed. Raises RuntimeError with this where it failed."""
    with child(work, namespace=namespace) as started:
        words = started.stdout.read()
        if started.wait():
            raise RuntimeError(f"a child failed: status {started.returncode}: {words.strip()}")
        return words


def enter(namespace: str) -> None:
    """Join a network namespace; /proc/net follows the process. Raises OSError."""
    with Path(f"/run/netns/{namespace}").open() as handle:
        if LIBC.setns(handle.fileno(), _NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def within(namespace: str, *arguments: str | Path) -> tuple[str | Path, ...]:
    """The command that runs `arguments` in a network namespace; "" is the initial one."""
    if namespace and arguments[0] in {"ip", "tc"}:
        return (arguments[0], "-n", namespace, *arguments[1:])  # saves a process
    return ("ip", "netns", "exec", namespace, *arguments) if namespace else arguments


def ip(namespace: str, *commands: str, check: bool = True) -> None:
    """Run commands of `ip` in one process. check: raise RuntimeError where one fails; otherwise, go on."""
    run(*within(namespace, "ip", *([] if check else ["-force"]), "-batch", "-"), check=check, lines=commands)


@contextlib.contextmanager
def chain(
    *, rate: str = "", queue_bytes: int = 0, delay_ms: float = 0.0, loss: str = "", namespace: str = ""
) -> Iterator[None]:
    """A path from `namespace` over a router to FAR in the namespace `far`, and the way back.

    rate: of the router's token bucket towards FAR, as tc writes it (`20mbit`), with a queue of queue_bytes; "" leaves
    the path unlimited. delay_ms: added on the way back, so that it is the round trip. loss: netem's arguments; it
    applies before the bucket. The bottleneck is not at the sender, because queues there would hold TCP back.
    """
    ip("", "netns add router", "netns add far")
    try:
        ip(
            namespace,
            "link add ccat0 type veth peer name ccat1 netns router",
            "addr add 10.9.1.1/24 dev ccat0",
            "link set ccat0 up",
            "route add 10.9.2.0/24 via 10.9.1.2",
        )
        ip(
            "router",
            "link add ccat2 type veth peer name ccat3 netns far",
            "addr add 10.9.1.2/24 dev ccat1",
            "addr add 10.9.2.1/24 dev ccat2",
            "link set ccat1 up",
            "link set ccat2 up",
        )
        ip("far", "addr add 10.9.2.2/24 dev ccat3", "link set ccat3 up", "route add 10.9.1.0/24 via 10.9.2.1")
        said(lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"), namespace="router")
        shape(rate=rate, queue_bytes=queue_bytes, loss=loss)
        if delay_ms:
            set_delay(delay_ms)
        yield
    finally:
        ip(namespace, "link del ccat0", check=False)
        ip("", "netns del router", "netns del far", check=False)


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


def run_traffic(*words: str) -> None:
    """In a child: the traffic program with these words."""
    sys.argv = ["traffic.py", *words]
    traffic.main()


@contextlib.contextmanager
def receiver(*, port: int = 5201, namespace: str = "far", host: str = FAR) -> Iterator[None]:
    """Run the traffic program as a receiver of flows, at FAR by default."""
    words = ("receive", "--host", host, "--port", str(port))
    with child(lambda: run_traffic(*words), namespace=namespace) as started:
        assert_listening(started)
        yield


def assert_listening(started: Child) -> None:
    """Read the line that says that the program listens. Raises RuntimeError for any other line."""
    line = started.stdout.readline()
    if "listening" not in line:
        raise RuntimeError(f"expected the traffic program to listen, it said {line!r}")


def send(*words: str, namespace: str = "", host: str = FAR, port: int = 5201) -> list[dict[str, object]]:
    """Run the sender to its end; return the lines that it printed."""
    words = ("send", "--host", host, "--port", str(port), *words)
    return [json.loads(line) for line in said(lambda: run_traffic(*words), namespace=namespace).splitlines()]


@contextlib.contextmanager
def sending(*words: str, namespace: str = "", host: str = FAR, port: int = 5201) -> Iterator[Child]:
    """Run the sender in the background."""
    words = ("send", "--host", host, "--port", str(port), *words)
    with child(lambda: run_traffic(*words), namespace=namespace) as started:
        yield started


def ends(lines: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The last line of each flow."""
    return [line for line in lines if line.get("end")]
