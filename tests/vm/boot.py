# SPDX-License-Identifier: MIT
"""One boot for many tests: the programs of tests/vm/guest run one after the other, and tests read what came of it."""

from __future__ import annotations

import json
import re
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from emulation.vm import BuiltModules, GuestError, GuestResult, build_modules, run_in_guest
from tests.vm.lines import FULL_LINES
from tests.vm.subjects import Subject

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).parent / "guest"

# What the kernel says of modules that are not its own, and of what the programs do themselves.
EXPECTED = re.compile(
    r"loading out-of-tree module taints kernel|module verification failed: signature|netem: version|"
    r"IPv6: ADDRCONF\(NETDEV_CHANGE\): \w+: link becomes ready|tun: Universal TUN/TAP|"
    r"TCP: request_sock_TCP: Possible SYN flooding|IPv6: \w+: IPv6 duplicate address|^guest: |"
    r"drop_caches: 3|^evm: overlay not supported|clocksource: |process '.*' started with executable stack|"
    r"hrtimer: interrupt took|random: |workqueue: .* hogged CPU|perf: interrupt took too long|"
    r"sched: DL replenish lagged too much"  # of a guest that the machine left waiting
)

# Times as long as on a clock like ours. While a guest waits for a file of the host's, its own one skips what it would
# idle: on a busy machine two minutes pass within seconds.
OWN_CLOCK_PATIENCE = 20

# QEMU before 8.1 lets a processor run into a breakpoint by which another one is patching the kernel's code, and which
# is gone when the kernel looks. A kernel of two processors dies so, one boot in some hundreds: before any program has
# begun, or in the jump label of the receive path, which is patched when a program makes its first path.
INT3 = re.compile(r"Oops: int3\b")
INT3_IN_THE_RECEIVE_PATH = re.compile(r"Oops: int3\b(?:.*\n){1,20}?.*RIP: 0010:__netif_receive_skb_core\b")
# And once a processor went on with flags that no processor has (bits 22 to 31 are zero): the lower half of the address
# that it had just compared. The trap flag was among them, so the kernel stepped and warned.
IMPOSSIBLE_FLAGS = re.compile(r"WARNING: .* exc_debug_kernel\b(?:.*\n){1,40}?.* EFLAGS: (?!00[0-3])[0-9a-f]{8}\b")
MOST_BOOTS = 3


@dataclass(frozen=True)
class Outcome:
    """What a program gave in the guest."""

    name: str
    result: Any
    error: str
    kernel_log: list[str]
    seconds: float

    @property
    def complaints(self) -> list[str]:
        """What the kernel logged while the program ran, without what has to be there."""
        return [line for line in self.kernel_log if not EXPECTED.search(line)]


Found = dict[str, Outcome]


@cache
def built(line: str) -> BuiltModules:
    """The line's modules, built once with all warnings; with sparse on the lines that run all programs."""
    return build_modules(line, sparse=line in FULL_LINES)


def run_programs(
    line: str, names: list[str], job: dict[str, Any], *, folder: Path, timeout_s: float, own_clock: bool = False
) -> Found:
    """Boot the line, run the programs, and return their outcomes; own_clock as in run_in_guest.

    names: each `PROGRAM:CCA`, for a subject of the job, or the program alone.

    Raises:
        GuestError: the guest fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    its = built(line)
    modules = [str(its.paths[name]) for name in sorted(its.paths, key=lambda name: (name != "ccatune", name))]
    told = {**job, "modules": modules, "release": its.kernel.release}
    told["patience"] = max(job["patience"], OWN_CLOCK_PATIENCE if own_clock else 1)
    (folder / "job.json").write_text(json.dumps(told))
    command = [python(), "-I", "-S", str(GUEST / "runner.py"), *names]
    done = run_booted(line, command, timeout_s=timeout_s, folder=folder, own_clock=own_clock)
    if done.status:
        raise GuestError(f"the guest's runner failed: {done.stderr}")
    return {name: load(folder, name) for name in names}


def run_booted(line: str, command: list[str], *, timeout_s: float, folder: Path, own_clock: bool) -> GuestResult:
    """As run_in_guest; a guest that dies of the emulator is booted anew, with a warning, once if its command began."""
    boots = 0
    while True:
        boots += 1
        try:
            return run_in_guest(line, command, timeout_s=timeout_s, files=folder, own_clock=own_clock)
        except GuestError as error:
            had_begun = (folder / ".guest" / "stdout").exists()
            signature, most = (INT3_IN_THE_RECEIVE_PATH, 2) if had_begun else (INT3, MOST_BOOTS)
            if boots >= most or not (signature.search(str(error)) or IMPOSSIBLE_FLAGS.search(str(error))):
                raise
            warnings.warn(f"a guest on {line} died of the emulator and was booted anew:\n{error}", stacklevel=2)


def python() -> str:
    """The interpreter behind the environment: a guest's program has no use for its packages."""
    return str(Path(sys.executable).resolve())


def load(folder: Path, name: str) -> Outcome:
    """Read one outcome."""
    data = json.loads((folder / f"{name.replace(':', '-')}.json").read_text())
    return Outcome(
        name=name,
        result=data.get("result"),
        error=data.get("error", ""),
        kernel_log=data["kernel_log"],
        seconds=data["seconds"],
    )


def result_of(found: Found, name: str, subject: Subject | None = None) -> Any:
    """A program's result, where it ran for a subject that one's; fails with its traceback where it had none."""
    outcome = found[f"{name}:{subject.cca}" if subject else name]
    if outcome.error:
        pytest.fail(outcome.error)
    return outcome.result
