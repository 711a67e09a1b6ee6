# SPDX-License-Identifier: MIT
"""Runs the job of a Pantheon test (emulation/mahimahi/namespace/run_job.py) once. It uses only the standard library.

    sender 1 --+                                                                                       +-- receiver 1
               +-- tcpdump | mm-loss ... | mm-link, uplink trace and queue | mm-delay ... | tcpdump --+
    sender n --+                                                                                       +-- receiver n

Each end of a flow has a network namespace of its own with a single address, as in Pantheon's tunnel. Packets are routed
between these addresses without translation, so either end can open connections. Both captures see the packets of all
flows. emulation/pantheon/capture.py computes the delay of each packet from them.

The job:

    {"mahimahi": folder of the unpacked Mahimahi or "", "shells": [[words]...] from the outermost to the innermost,
     "opportunities_ms": {"uplink": [ms], "downlink": [ms]}, "networks": {"sender": "A.B", "receiver": "A.B"},
     "flows": [{"first": "receiver" | "sender", "receiver": [words], "sender": [words]}...],
     "start_s": [s from the beginning, of each flow], "runtime_s", "lead_ms", "folder": where captures and outputs go,
     "environment": {name: value}, "user": [uid, gid] or null}

The run begins with the first flow.

The words of an end contain PORT and, for the end that connects, ADDRESS. This program replaces both. In the words of
the shells it replaces {run} by the folder of the traces and of mm-link's logs uplink.log and downlink.log.

The first two numbers of an address are those of the network, and the third is that of the flow. The fourth number is 1
for the router and 2 for the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from emulation.mahimahi.namespace import run_job, shells
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mahimahi" / "namespace"))
    import run_job
    import shells

ROLES = ("sender", "receiver")
PORT = 6000
SNAPSHOT_BYTES = 144
CAPTURE_BUFFER_KIB = 16384
_LISTEN_S = 2.0
_LOOK_S = 0.05
_TERM_S = 1.0
_READY_S = 30.0
# tcpdump reads a packet up to 1 s after it was captured, and loses those that it has not read when it ends.
_FLUSH_S = 1.2
_TAIL_BYTES = 2000
# If a process prints more, only the last part is kept. Otherwise its output could fill the disk.
_OUTPUT_BYTES = 4 << 20


def device_of(enter: tuple[str, ...], *, uplink: bool) -> str:
    """Return the device of a shell's namespace that leads outside (uplink), or else to the next inner shell.

    Raises ShellError if there is not exactly one such device.
    """
    links = [row["ifname"] for row in json.loads(shells.call(*enter, "ip", "-json", "link", "show"))]
    routes = json.loads(shells.call(*enter, "ip", "-json", "route", "show", "default"))
    outside = {row["dev"] for row in routes}
    found = [name for name in links if name != "lo" and (name in outside) == uplink]
    if len(found) != 1:
        raise shells.ShellError(f"shells: expected one device {'outwards' if uplink else 'inwards'}, got {found}")
    return str(found[0])


def route_inwards(up: list[shells.Space], network: str) -> str:
    """Add routes to the senders' network through all shells, and return the outermost device."""
    spaces: list[tuple[str, ...]] = [(), *(each.enter for each in up[:-1])]
    devices = [device_of(enter, uplink=False) for enter in spaces]
    for enter, device in zip(spaces, devices, strict=True):
        shells.call(*enter, "ip", "route", "add", f"{network}.0.0/16", "dev", device)
    shells.call(*up[-1].enter, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    return devices[0]


@contextlib.contextmanager
def host(name: str, network: str, router: tuple[str, ...]) -> Iterator[shells.Space]:
    """Make the namespace of an end, and connect it to the router's namespace by a device called `name`.

    network: the first three numbers of its address. router: the words that run a command in the router's namespace.
    """
    with shells.veth(router, name, network) as made:
        shells.call(*made.enter, "ip", "route", "add", "default", "via", f"{network}.1")
        buffers = (f"net.ipv4.tcp_{kind}={run_job.BUFFERS_BYTES}" for kind in ("wmem", "rmem"))
        shells.call(*made.enter, "sysctl", "-qw", *buffers, "net.ipv4.tcp_no_metrics_save=1")
        yield made


@contextlib.contextmanager
def capture(enter: tuple[str, ...], device: str, file: Path) -> Iterator[dict[str, int]]:
    """Capture all packets of a device. After the context has ended, the dict has the number of `missed` packets."""
    found: dict[str, int] = {}
    words = f"tcpdump -i {device} -n -s {SNAPSHOT_BYTES} -B {CAPTURE_BUFFER_KIB} -Z root --time-stamp-precision=nano -w"
    started = subprocess.Popen([*enter, *words.split(), str(file), "ip"], stderr=subprocess.PIPE)
    assert started.stderr is not None  # noqa: S101 - a pipe, for the type checker
    try:
        lines = shells.Lines(started.stderr.fileno())
        said = []
        while (line := lines.read(_READY_S)) is not None and "listening on" not in line:
            said.append(line)
        if line is None:
            raise shells.ShellError(f"tcpdump: expected it to listen on {device}, got: {' '.join(said)}")
        yield found
        started.send_signal(signal.SIGINT)
        said = []
        while (line := lines.read(_READY_S)) is not None:
            said.append(line)
            if "dropped by kernel" in line:
                found["missed"] = int(line.split()[0])
        # tcpdump ends by itself if the disk is full. Its file then lacks packets.
        if started.wait(timeout=_READY_S) or "missed" not in found:
            raise shells.ShellError(f"tcpdump: expected it to capture until the end, got: {' '.join(said)}")
    finally:
        started.kill()
        started.wait()
        started.stderr.close()


class End:
    """A process of the scheme: one end of a flow.

    It has a working directory of its own. Its output goes into a file.
    """

    def __init__(self, role: str, number: int, at: shells.Space, words: list[str], job: dict[str, Any]) -> None:
        self.role = role
        self.number = number
        self.output = Path(job["folder"]) / f"{role}{number}.log"
        self.ended_s: float | None = None
        # The process appends, so that the file can be truncated while the process writes.
        self.output.write_bytes(b"")
        self._file = self.output.open("ab")
        work = self.output.with_suffix("")
        work.mkdir(exist_ok=True)
        # Schemes have ordinary priority even if the shells have real-time priority, because some keep a processor busy.
        # Only a process with CAP_NET_ADMIN may choose an algorithm that the kernel does not offer to everyone.
        user = job["user"]
        if user:
            os.chown(work, *user)
        powers = ("--inh-caps=+net_admin", "--ambient-caps=+net_admin")
        as_user = (f"--reuid={user[0]}", f"--regid={user[1]}", "--init-groups", *powers) if user else ()
        self.process = subprocess.Popen(
            [*at.enter, "chrt", "--other", "0", *(("setpriv", *as_user, "--") if user else ()), *words],
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env=job["environment"],
            cwd=work,
            start_new_session=True,
        )

    def look(self, now_s: float) -> None:
        """Note the time if the process has ended, and keep its output short."""
        if self.output.stat().st_size > _OUTPUT_BYTES:
            os.truncate(self.output, 0)
            with self.output.open("ab") as file:
                file.write(b"[ccatune removed earlier output, because it was too long]\n")
        if self.ended_s is None and self.process.poll() is not None:
            self.ended_s = now_s

    def is_listening(self, port: int) -> bool:
        """Whether a socket in the end's namespace is bound to the port."""
        wanted = f":{port:04X}"
        for protocol in ("tcp", "tcp6", "udp", "udp6"):
            with contextlib.suppress(OSError):
                rows = Path(f"/proc/{self.process.pid}/net/{protocol}").read_text(encoding="ascii").splitlines()[1:]
                if any(row.split()[1].endswith(wanted) for row in rows):
                    return True
        return False

    def terminate(self) -> None:
        """Ask the process and its children to end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)

    def close(self) -> dict[str, Any]:
        """Kill the process and its children, and return how it ended and its last output."""
        status = self.process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._file.close()
        with self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - _TAIL_BYTES))
            tail = file.read().decode(errors="replace")
        return {
            "role": self.role,
            "flow": self.number,
            "ended_s": self.ended_s,
            "status": status if self.ended_s is not None else None,
            "ignored_term": self.ended_s is None and status is None,
            "output": tail,
        }


class Run:
    """The flows of a run. They start one after the other, are watched, and end together."""

    def __init__(self, job: dict[str, Any], hosts: dict[tuple[str, int], shells.Space]) -> None:
        self._job = job
        self._hosts = hosts
        self.ends: list[End] = []

    def start(self, number: int, *, first: bool) -> None:
        """Start the end of flow `number` that listens (`first`), or the other end. Flows count from 1."""
        flow = self._job["flows"][number - 1]
        role = flow["first"] if first else next(role for role in ROLES if role != flow["first"])
        listens = self._hosts[flow["first"], number]
        replaced = {"PORT": str(PORT), "ADDRESS": listens.address}
        words = [replaced.get(word, word) for word in flow[role]]
        self.ends.append(End(role, number, self._hosts[role, number], words, self._job))

    def await_listening(self) -> None:
        """Wait until every end that should listen does so or has ended, for at most _LISTEN_S.

        A scheme may need no socket, so this is not an error.
        """
        end_s = time.monotonic() + _LISTEN_S
        while time.monotonic() < end_s:
            if all(end.process.poll() is not None or end.is_listening(PORT) for end in self.ends):
                return
            time.sleep(0.01)

    def follow(self, begins_s: float) -> None:
        """Start the other ends at their times, and watch all ends until the run is over. begins_s: since 1970."""
        waiting = sorted((start_s, number) for number, start_s in enumerate(self._job["start_s"], start=1))
        while (now_s := time.time() - begins_s) < self._job["runtime_s"]:
            while waiting and waiting[0][0] <= now_s:
                self.start(waiting.pop(0)[1], first=False)
            for end in self.ends:
                end.look(now_s)
            next_s = min([now_s + _LOOK_S, self._job["runtime_s"], *(start_s for start_s, _ in waiting[:1])])
            time.sleep(max(0.0, begins_s + next_s - time.time()))
        for end in self.ends:
            end.look(self._job["runtime_s"])

    def close(self) -> list[dict[str, Any]]:
        """End all processes, and return how each ended."""
        for end in self.ends:
            end.terminate()
        end_s = time.monotonic() + _TERM_S
        while time.monotonic() < end_s and any(end.process.poll() is None for end in self.ends):
            time.sleep(0.01)
        return [end.close() for end in self.ends]


def attempt(job: dict[str, Any], lead_ms: int) -> dict[str, Any]:
    """Execute the run once. Raises run_job.LateError if lead_ms was too short, and ShellError if a program fails."""
    folder, networks = Path(job["folder"]), job["networks"]
    logs = []
    for side, opportunities_ms in job["opportunities_ms"].items():
        trace, runtime_ms = run_job.FOLDER / side, job["runtime_s"] * 1000
        run_job.write_trace(trace, opportunities_ms, lead_ms=lead_ms, duration_ms=runtime_ms)
        logs.append(run_job.FOLDER / f"{side}.log")
    run_job.empty_logs(logs)
    with contextlib.ExitStack() as stack:
        words = [[word.replace("{run}", str(run_job.FOLDER)) for word in shell] for shell in job["shells"]]
        up = stack.enter_context(shells.nested(words, folder=run_job.FOLDER, timeout_s=_READY_S))
        outer = route_inwards(up, networks["sender"])
        inner = device_of(up[-1].enter, uplink=True)
        routers = {"sender": up[-1].enter, "receiver": ()}
        hosts = {
            (role, number): stack.enter_context(host(f"{role[0]}{number}", f"{networks[role]}.{number}", routers[role]))
            for number in range(1, len(job["flows"]) + 1)
            for role in ROLES
        }
        entered = stack.enter_context(capture(up[-1].enter, inner, folder / "inner.pcap"))
        left = stack.enter_context(capture((), outer, folder / "outer.pcap"))
        run = Run(job, hosts)
        try:
            for number in range(1, len(job["flows"]) + 1):
                run.start(number, first=True)
            run.await_listening()
            begins_s = run_job.begins_at_s(logs[0], lead_ms)
            run.follow(begins_s)
        finally:
            ends = run.close()
        time.sleep(_FLUSH_S)
    for log in logs:
        (folder / log.name).write_bytes(log.read_bytes())
    return {
        "kernel": platform.release(),
        "begins_ms": begins_s * 1000,
        "ends": ends,
        "missed": entered.get("missed", 0) + left.get("missed", 0),
    }


if __name__ == "__main__":
    run_job.main(attempt)
