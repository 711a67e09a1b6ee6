# SPDX-License-Identifier: MIT
"""Boots a kernel line on this machine's own files, runs a command in it, and returns the results.

    run_in_guest("6.12", ["sh", "script.sh"], timeout_s=60)

The guest sees the machine's root file system. What it writes is lost when it ends, except below the shared folder,
which is its working folder (`$CCATUNE_SHARE`). Its only network is its loopback. It runs under software emulation, so
that the result does not depend on the machine's support for virtualisation.

Output goes to files in `.guest` in the shared folder: `stdout`, `stderr`, `kernel.log` (the whole log at the end) and
`console`. The latter holds what the kernel printed on its serial line. Nothing else remains of a kernel that died.

QEMU dies with the process that started it, whatever signal ends that process (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulation.vm._folder import owned_folder
from emulation.vm._initramfs import SHARE, build_initramfs
from emulation.vm.kernels import GuestError, KernelLine, kernel_line

_BEGINS = "guest: the command begins"
_COMPLAINT = re.compile(r"\b(BUG|WARNING|Oops|panic|Call Trace|stall)\b")
_START = """\
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export CCATUNE_SHARE={share} CCATUNE_RELEASE={release} PYTHONDONTWRITEBYTECODE=1
mkdir -p /lib/modules/{release}
mount --bind {modules} /lib/modules/{release}
ip link set lo up
cd {share}
echo {begins} >/dev/kmsg
{command} </dev/null >{share}/.guest/stdout 2>{share}/.guest/stderr
echo $? >{share}/.guest/status
dmesg >{share}/.guest/kernel.log
sync
echo b >/proc/sysrq-trigger
sleep 10
"""


@dataclass(frozen=True)
class GuestResult:
    """The results of a run. kernel_log: since the command began; files: the shared folder, removed if temporary."""

    status: int
    stdout: str
    stderr: str
    kernel_log: str
    files: Path


def _qemu(kernel: KernelLine, folder: Path, *, initramfs: Path, own_clock: bool) -> list[str]:
    share = f"local,path={_escaped(folder)},security_model=none,multidevs=remap"
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-no-user-config"),
        *("-machine", "q35", "-accel", f"tcg,thread={'single' if own_clock else 'multi'}", "-cpu", "max"),
        *(("-icount", "shift=0,sleep=off") if own_clock else ()),
        *("-smp", "1" if own_clock else "2", "-m", "2048M"),
        *("-kernel", str(kernel.image), "-initrd", str(initramfs)),
        # The clock is this machine's own counter, the same on all processors. Without tsc=reliable the kernel falls
        # back to a clock that costs an exit from the guest at every reading. Without no_timer_check the kernel takes
        # its timer for broken if this machine is too busy to run the guest while the kernel counts the first ticks.
        *("-append", "console=ttyS0 quiet loglevel=5 panic=-1 tsc=reliable no_timer_check rdinit=/init"),
        *("-serial", f"file:{folder}/.guest/console"),
        *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
        *("-fsdev", f"{share},id=share"),
        *("-device", "virtio-9p-pci,fsdev=share,mount_tag=share"),
    ]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-20:])


def _dying_words(console: str) -> str:
    """The console from the kernel's first complaint on, or its last lines if there is none."""
    lines = console.splitlines()
    first = next((at for at, line in enumerate(lines) if _COMPLAINT.search(line)), max(0, len(lines) - 20))
    return "\n".join(lines[first : first + 40])


def run_in_guest(
    line: str,
    command: Sequence[str],
    *,
    timeout_s: float,
    files: Path | None = None,
    own_clock: bool = False,
) -> GuestResult:
    """Boot the kernel line and run the command in it, as root, in the shared folder.

    files: the shared folder, which is created if necessary; without it, a temporary folder that is removed afterwards.
    own_clock: the guest's clock advances by one nanosecond per instruction, and skips idle time. So the speed and the
    load of this machine change nothing in the guest. The guest then has one processor.

    Raises GuestError if the machine lacks something, the time is up, or the kernel died; with lines of the console.
    """
    kernel = kernel_line(line)
    shown = shlex.join(command)
    script = _START.format(
        share=SHARE,
        begins=_BEGINS,
        release=kernel.release,
        modules=shlex.quote(str(kernel.modules)),
        command=shown,
    )
    if files is not None:
        files.mkdir(parents=True, exist_ok=True)
        return _run(kernel, shown, script, files.resolve(), timeout_s=timeout_s, own_clock=own_clock)
    with owned_folder("ccatune-guest-") as folder:
        return _run(kernel, shown, script, folder.resolve(), timeout_s=timeout_s, own_clock=own_clock)


def _run(
    kernel: KernelLine, command: str, script: str, folder: Path, *, timeout_s: float, own_clock: bool
) -> GuestResult:
    own = folder / ".guest"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    (own / "start").write_text(script, encoding="utf-8")
    initramfs = own / "initramfs"
    build_initramfs(kernel, initramfs)
    ended = _boot(_qemu(kernel, folder, initramfs=initramfs, own_clock=own_clock), timeout_s=timeout_s)
    initramfs.unlink()
    if not (own / "status").exists() or not (own / "kernel.log").exists():
        raise GuestError(
            f"kernel {kernel.release}: expected `{command}` to end within {timeout_s:g} s, but {ended}; "
            f"it printed:\n{_last_lines(_text(own / 'stdout') + _text(own / 'stderr'))}\n"
            f"the console:\n{_dying_words(_text(own / 'console'))}"
        )
    return GuestResult(
        status=int(_text(own / "status")),
        stdout=_text(own / "stdout"),
        stderr=_text(own / "stderr"),
        kernel_log=_text(own / "kernel.log").partition(f"{_BEGINS}\n")[2],
        files=folder,
    )


def _boot(command: list[str], *, timeout_s: float) -> str:
    """Run QEMU until it ends or the time is up; return how it ended."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise GuestError(f"{command[0]}: {error.strerror}; run `make setup`") from error
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return "it did not"
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return f"the guest went down before ({said.decode(errors='replace').strip() or f'status {process.returncode}'})"
