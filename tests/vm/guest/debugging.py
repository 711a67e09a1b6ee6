# SPDX-License-Identifier: MIT
"""The debug kernel's own files as the guest's programs use them: refused memory, leaks, whether locks are proved."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import inside

PLACE = Path("/sys/kernel/debug")
REFUSERS = ("failslab", "fail_page_alloc")
# Where x86-64 loads modules, its kernel not being moved at random: ours are the only ones, all else is built in.
MODULES = (0xFFFFFFFFA0000000, 0xFFFFFFFFFF000000)
# kmemleak does not take what is younger for leaked.
YOUNG_S = 5.5


def mount() -> None:
    """Have the files of debugfs."""
    if not (PLACE / REFUSERS[0]).exists():
        inside.run("mount", "-t", "debugfs", "debugfs", str(PLACE))


@contextlib.contextmanager
def refusing(percent: int, *, of_marked: bool = False) -> Iterator[None]:
    """So many of the requests for memory are refused: of all modules, or of the processes that are marked.

    Of modules: what the kernel's functions ask for on their behalf too, whatever it runs in, and whether the request
    might wait or not. Of marked processes: slabs alone, because a program does not live without pages.
    """
    mount()
    common = {
        "interval": "1",
        "times": "-1",
        "space": "0",
        "verbose": "0",
        "ignore-gfp-wait": "N",
        "task-filter": "Y" if of_marked else "N",
        "require-start": "0" if of_marked else f"{MODULES[0]:#x}",
        "require-end": str(2**64 - 1) if of_marked else f"{MODULES[1]:#x}",
    }
    chosen = REFUSERS[:1] if of_marked else REFUSERS
    try:
        for refuser in chosen:
            for name, value in common.items():
                (PLACE / refuser / name).write_text(value)
            if refuser == "fail_page_alloc":
                (PLACE / refuser / "ignore-gfp-highmem").write_text("N")
                (PLACE / refuser / "min-order").write_text("0")
            (PLACE / refuser / "probability").write_text(str(percent))
        yield
    finally:
        for refuser in REFUSERS:
            (PLACE / refuser / "probability").write_text("0")


def mark_this_process() -> None:
    """Let `refusing(of_marked=True)` be about this process and its children."""
    Path("/proc/self/make-it-fail").write_text("1")


def unreferenced() -> str:
    """What is allocated and nobody points to, in two scans (kmemleak); "" if nothing is."""
    mount()
    time.sleep(YOUNG_S)
    for _ in range(2):
        (PLACE / "kmemleak").write_text("scan")
    return (PLACE / "kmemleak").read_text()


def leaked_by_modules() -> str:
    """As `unreferenced`, of what is not the kernel's own fault; what was found is forgotten.

    Where the name of a new cache is refused in sysfs, Linux 6.12 (sysfs_slab_add()) keeps its copy of it for ever. A
    stale pointer may hide one until a later search.
    """
    found = unreferenced().split("unreferenced object ")[1:]
    (PLACE / "kmemleak").write_text("clear")
    return "".join(block for block in found if "sysfs_slab_add" not in block)


def lockdep() -> dict[str, str]:
    """The lines of /proc/lockdep_stats; `debug_locks` is 1 for as long as locks are proved."""
    lines = Path("/proc/lockdep_stats").read_text().splitlines()
    return {name.strip(): value.split("[")[0].strip() for name, _, value in (line.partition(":") for line in lines)}
