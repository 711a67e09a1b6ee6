# SPDX-License-Identifier: MIT
"""Mahimahi's shells around each other, on a Debian whose iptables they do not know; the standard library alone.

For namespaces of one's own (`unshare --mount --net --pid`): everything here is mounted and set in these, and goes
with the last process in them. What stands in the way of Mahimahi (facts of Debian 12), and what is done:

    its programs have to be setuid root and refuse to run as root     copies in a tmpfs; an ordinary user starts them
    it is linked with libraries that Debian no longer has             a loader's cache that knows their folder
    iptables refuses where real and effective user differ             a wrapper bound over it, which makes them equal
    each shell wants net.ipv4.ip_forward=1 where it starts, and a     the next shell is started only when that was set
    new namespace takes the machine's setting, which stays as it is   in the namespace of the one before, from outside
    it reads a name server from resolv.conf                           one of its own is bound over it

A shell says that it is up by a line (`up PID`), so that nothing depends on how long it takes.
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


class ShellError(Exception):
    """A shell that did not start or end as it should; with what it said."""


class NotUpError(ShellError):
    """A shell that did not come up: worth another try, because Mahimahi gives its dnsmasq little time to start."""


def call(*arguments: str | Path) -> str:
    """Run a command to its end; return what it printed. Raises ShellError with its complaint."""
    words = [str(argument) for argument in arguments]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ShellError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        raise ShellError(f"{shlex.join(words)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def prepare(root: Path | None, *, folder: Path) -> None:
    """Make Mahimahi run here; `folder` gets a tmpfs for all that is needed.

    root: the folder that Debian's packages were unpacked in; None where Mahimahi is installed.
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


def _place_programs(root: Path, folder: Path) -> None:
    """Setuid copies of the programs, and a loader's cache that finds their libraries."""
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        to = folder / "bin" / name
        shutil.copyfile(root / "usr" / "bin" / name, to)
        to.chmod(0o4755)
    (folder / "lib").mkdir()
    # A setuid program hears no LD_LIBRARY_PATH. Bound, because an ordinary user may not reach what is below `root`.
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
    elif folder in place.parents:  # it was below what the tmpfs now covers
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own, place)


@dataclass(frozen=True)
class Inner:
    """A shell that is up: a process in its network namespace, and the address of the namespace around all shells."""

    pid: int
    base: str

    @property
    def enter(self) -> tuple[str, ...]:
        """The words that lead a command into it."""
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")


class Lines:
    """Lines of a pipe, waited for no longer than asked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def read(self, timeout_s: float) -> str | None:
        """The next line; None where the time is up or the pipe is closed."""
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
    """Scripts that say `up`, wait for a word, and become the next shell; returns the first one to run."""
    for number in range(len(shells) + 1):
        step = folder / f"step-{number}"
        lines = ['echo "up $$ $MAHIMAHI_BASE"', "read -r word || exit 0"]
        if number < len(shells):
            lines.append(f"exec {shlex.join(shells[number])} sh {shlex.quote(str(folder / f'step-{number + 1}'))}")
        step.write_text("\n".join(lines) + "\n", encoding="utf-8")
        step.chmod(0o644)
    return folder / "step-0"


@contextlib.contextmanager
def nested(shells: Sequence[Sequence[str]], *, folder: Path, timeout_s: float = 60.0) -> Iterator[list[Inner]]:
    """Start the shells, the first one outermost, and yield them all, in this order, when the innermost is up.

    They end by themselves when this ends: killed, mm-link would keep the end of its log for itself.

    Raises:
        NotUpError: one did not come up within timeout_s.
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
                up.append(Inner(int(pid), base[0] if base else ""))
                if number < len(shells):
                    call(*up[-1].enter, "sysctl", "-qw", "net.ipv4.ip_forward=1")
                    started.stdin.write(b"go\n")
                    started.stdin.flush()
            # The first to come up is the command around all shells.
            yield up[1:]
        finally:
            started.stdin.close()
            try:
                started.wait(timeout=_END_S)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            started.stdout.close()
