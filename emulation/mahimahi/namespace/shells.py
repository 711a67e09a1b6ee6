# SPDX-License-Identifier: MIT
"""Makes network namespaces, and starts nested Mahimahi shells on Debian 12. It uses only the standard library.

`nested` must run in namespaces of its own (`unshare --mount --net --pid`). All its mounts and settings are made in
these, and vanish with the last process in them. Debian 12 does not run Mahimahi as it is:

    problem                                                           solution
    Mahimahi's programs have to be setuid root, but refuse root       copies in a tmpfs, started by an ordinary user
    they need libraries that Debian no longer has                     a loader cache that contains their folder
    iptables refuses to run if real and effective user differ         a wrapper, mounted over it, makes them equal
    a shell needs net.ipv4.ip_forward=1 where it starts, but a new    the setting is made from outside in each new
    namespace has the machine's setting, which must not change        namespace, before the next shell starts in it
    Mahimahi reads a name server from resolv.conf                     a file of our own is mounted over it

A shell prints a line (`up PID BASE`) when it is up, so nothing depends on how long that takes.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("mm-delay", "mm-link", "mm-loss")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# `nobody`: an ordinary user that every Debian has.
ORDINARY_USER = 65534
_WRAPPER = """\
#!/bin/bash -p
exec setpriv --reuid=0 --regid=0 --clear-groups {real} iptables "$@"
"""
_END_S = 15.0
_NAMESPACE_S = 30.0


class ShellError(Exception):
    """A program did not start or end as expected. The message contains its output."""


class NotUpError(ShellError):
    """A shell did not come up. Another attempt may succeed, because Mahimahi gives its dnsmasq little time to start."""


def call(*arguments: str | Path) -> str:
    """Run a command and return its output. Raises ShellError with its error message if it fails."""
    words = [str(argument) for argument in arguments]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ShellError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        raise ShellError(f"{shlex.join(words)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def prepare(root: Path | None, *, folder: Path) -> None:
    """Prepare the namespaces so that Mahimahi runs in them. A tmpfs with the files for this is mounted at `folder`.

    root: the folder into which Debian's packages were unpacked; None if Mahimahi is installed.
    """
    iptables = shutil.which("iptables", path=PATH)
    if iptables is None:
        raise ShellError("iptables: expected it installed, found none; install iptables")
    call("mount", "-t", "tmpfs", "-o", "mode=0755", "ccatune", folder)
    if root is not None:
        _place_programs(root, folder)
    program = Path(iptables).resolve()
    real = folder / "iptables-real"
    shutil.copyfile(program, real)
    real.chmod(0o755)
    wrapper = folder / "iptables-wrapper"
    wrapper.write_text(_WRAPPER.format(real=real), encoding="ascii")
    wrapper.chmod(0o755)
    call("mount", "--bind", wrapper, program)
    _name_server(folder)
    call("ip", "link", "set", "lo", "up")
    call("sysctl", "-qw", "net.ipv4.ip_forward=1")


def place_program(program: Path, folder: Path) -> None:
    """Make a setuid copy of a program, which the scripts of `nested` find by its name."""
    (folder / "bin").mkdir(exist_ok=True)
    to = folder / "bin" / program.name
    shutil.copyfile(program, to)
    to.chmod(0o4755)


def _place_programs(root: Path, folder: Path) -> None:
    """Make setuid copies of the programs, and a loader cache with their libraries."""
    for name in PROGRAMS:
        place_program(root / "usr" / "bin" / name, folder)
    (folder / "lib").mkdir()
    # The loader ignores LD_LIBRARY_PATH for setuid programs, so the folder goes into its cache.
    # It is a bind mount, because an ordinary user may not have access to folders below `root`.
    libraries = next((root / "usr" / "lib").glob("*-linux-gnu"))
    call("mount", "--bind", libraries, folder / "lib")
    configuration = folder / "ld.so.conf"
    configuration.write_text(f"include /etc/ld.so.conf\n{folder / 'lib'}\n", encoding="utf-8")
    call("ldconfig", "-f", configuration, "-C", folder / "ld.so.cache")
    call("mount", "--bind", folder / "ld.so.cache", "/etc/ld.so.cache")


def _name_server(folder: Path) -> None:
    own = folder / "resolv.conf"
    own.write_text("nameserver 127.0.0.1\n", encoding="ascii")
    place = Path("/etc/resolv.conf").resolve()
    if place.exists():
        call("mount", "--bind", own, place)
    elif folder in place.parents:  # the tmpfs hides the file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own, place)


@dataclass(frozen=True)
class Space:
    """A network namespace.

    pid: a process in it. address: of a shell, the address of the namespace around all shells; of the end of a veth, its
    own address.
    """

    pid: int
    address: str

    @property
    def enter(self) -> tuple[str, ...]:
        """The words in front of a command that run it in this namespace."""
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")


@contextlib.contextmanager
def network_namespace(address: str = "") -> Iterator[Space]:
    """Make a network namespace. It ends with the context, or with this process. Raises ShellError if there is none."""
    own = Path("/proc/self/ns/net").readlink()
    holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "sleep", "infinity"])
    try:
        end_s = time.monotonic() + _NAMESPACE_S
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            if holder.poll() is not None or time.monotonic() > end_s:
                raise ShellError("unshare: expected a network namespace, got none")
            time.sleep(0.002)
        yield Space(holder.pid, address)
    finally:
        holder.kill()
        holder.wait()


@contextlib.contextmanager
def veth(near: tuple[str, ...], device: str, network: str) -> Iterator[Space]:
    """Make a network namespace and a veth to it.

    near: the words that run a command in the namespace of the other end. device: the name of that end; the name in the
    new namespace is eth0. network: the first three numbers of the addresses. The fourth one is 1 for the near end, and
    2 for the new namespace.

    Raises ShellError if there is no new namespace, or a command failed.
    """
    with network_namespace(f"{network}.2") as far:
        call(*near, *f"ip link add {device} type veth peer name eth0 netns {far.pid}".split())
        call(*near, "ip", "address", "add", f"{network}.1/30", "dev", device)
        call(*near, "ip", "link", "set", device, "up")
        call(*far.enter, "ip", "address", "add", f"{far.address}/30", "dev", "eth0")
        for each in ("lo", "eth0"):
            call(*far.enter, "ip", "link", "set", each, "up")
        yield far


class Lines:
    """Reads lines from a pipe with a timeout."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def read(self, timeout_s: float) -> str | None:
        """Return the next line; None after the timeout or if the pipe is closed."""
        end_s = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end_s - time.monotonic()))
            data = os.read(self._descriptor, 65536) if ready else b""
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")


def _write_steps(shells: Sequence[Sequence[str]], folder: Path) -> Path:
    """Write the scripts of the shells and return the first one, which starts the others.

    Each script prints `up`, waits for a word, and is then replaced by the next shell, which runs the next script.
    """
    for number in range(len(shells) + 1):
        step = folder / f"step-{number}"
        lines = ['echo "up $$ $MAHIMAHI_BASE"', "read -r word || exit 0"]
        if number < len(shells):
            lines.append(f"exec {shlex.join(shells[number])} sh {shlex.quote(str(folder / f'step-{number + 1}'))}")
        step.write_text("\n".join(lines) + "\n", encoding="utf-8")
        step.chmod(0o644)
    return folder / "step-0"


@contextlib.contextmanager
def nested(shells: Sequence[Sequence[str]], *, folder: Path, timeout_s: float = 60.0) -> Iterator[list[Space]]:
    """Start the shells, the first one outermost, and yield them in this order when the innermost is up.

    At the end of the context their input is closed, so that they end by themselves. If mm-link were killed, the last
    part of its log would be lost. Shells that still run after _END_S are killed.

    Raises NotUpError if a shell did not come up within timeout_s.
    """
    first = _write_steps(shells, folder)
    user = f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups"
    with (folder / "complaints").open("w+", encoding="utf-8") as complaints:
        started = subprocess.Popen(
            ["setpriv", *user, "sh", str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={"PATH": f"{folder / 'bin'}:{PATH}", "LC_ALL": "C", "HOME": "/", "USER": "nobody", "SHELL": "/bin/sh"},
            cwd="/",
        )
        assert started.stdin is not None and started.stdout is not None  # noqa: S101, PT018 - pipes, for the checker
        try:
            lines = Lines(started.stdout.fileno())
            up = []
            for number in range(len(shells) + 1):
                line = lines.read(timeout_s)
                if line is None or not line.startswith("up "):
                    name = shells[number - 1][0] if number else "sh"
                    complaints.seek(0)
                    raise NotUpError(f"{name}: expected it up within {timeout_s:g} s, got: {complaints.read().strip()}")
                _, pid, *base = line.split()
                up.append(Space(int(pid), base[0] if base else ""))
                if number < len(shells):
                    call(*up[-1].enter, "sysctl", "-qw", "net.ipv4.ip_forward=1")
                    started.stdin.write(b"go\n")
                    started.stdin.flush()
            # The first script to come up runs outside of all shells.
            yield up[1:]
        finally:
            started.stdin.close()
            try:
                started.wait(timeout=_END_S)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            started.stdout.close()
