# SPDX-License-Identifier: MIT
"""Branch coverage of kmod/core: its C unit tests, a short, repeatable fuzz run and recordings, counted by gcov.

A branch is one outcome of a condition, as gcc sees it without optimisation; `a && b` has four. A branch of a
header counts as taken when any of the programs took it.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.contract.fuzzing import FLOW, FUZZ, TEXT
from tests.contract.replaying import RECORDED
from tests.contract.toolchain import CORE, COUNTED_C, HERE, ToolchainError, compile_program, run_program

REQUIRED_PERCENT = 95.0
HEADERS = {header.name for header in CORE.glob("*.h")}
FUZZ_RUNS = {TEXT: 3000, FLOW: 100}


class Branch(NamedTuple):
    """A branch of a header: the line and function that hold it, and its place among the line's branches."""

    header: str
    line: int
    function: str
    index: int


@dataclass
class Coverage:
    """Whether each branch was taken, and the headers of which a line ran."""

    taken: dict[Branch, bool] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)

    def add(self, data: dict[str, Any]) -> None:
        """Add what gcov says of one unit."""
        for file in data["files"]:
            path = Path(file["file"])
            if path.parent.name != "core" or path.name not in HEADERS:
                continue
            places: Counter[tuple[int, str]] = Counter()
            for line in file["lines"]:
                key = (line["line_number"], line.get("function_name", ""))
                if line.get("count", 0):
                    self.ran.add(path.name)
                for branch in line["branches"]:
                    one = Branch(path.name, *key, places[key])
                    places[key] += 1
                    self.taken[one] = self.taken.get(one, False) or branch["count"] > 0

    @property
    def percent(self) -> float:
        """Share of branches taken."""
        return 100.0 * sum(self.taken.values()) / len(self.taken)

    def report(self) -> str:
        """A line a header, then one for each branch missed, then the total."""
        headers = sorted({branch.header for branch in self.taken})
        parts = {name: [taken for branch, taken in self.taken.items() if branch.header == name] for name in headers}
        missed = sorted(branch for branch, taken in self.taken.items() if not taken)
        return "\n".join([
            *(line_of(name, taken) for name, taken in parts.items()),
            *(f"missed: {one.header}:{one.line} {one.function} (branch {one.index})" for one in missed),
            line_of("all", [*self.taken.values()]),
        ])  # fmt: skip


def line_of(name: str, taken: list[bool]) -> str:
    """A line of the report."""
    percent = 100 * sum(taken) / len(taken)
    return f"{name:<20} {sum(taken):>4} of {len(taken):>4} branches {percent:6.1f} %"


def measure(folder: Path) -> Coverage:
    """Build and run everything in `folder`, and return the coverage of kmod/core.

    Raises ToolchainError when a program fails: what a broken test covers says nothing.
    """
    for source in sorted((HERE / "core").glob("test_*.c")):
        run_counted([source], [()], folder=folder, name=source.stem)
    for target, runs in FUZZ_RUNS.items():
        sources = [FUZZ / "driver.c", *(FUZZ / source for source in target.sources)]
        run_counted(sources, [("--seed", "1", "--runs", str(runs))], folder=folder, name=f"fuzz_{target.name}")
    recorded = [(cca, "7", "3000", "recording") for cca in RECORDED]
    run_counted([HERE / "replay" / "record.c"], recorded, folder=folder, name="record")
    found = Coverage()
    for counts in folder.glob("*.gcda"):
        found.add(read_gcov(counts))
    return found


def run_counted(sources: list[Path], runs: Iterable[Iterable[str]], *, folder: Path, name: str) -> None:
    """Compile a program for counting and run it to its end, with the arguments of each run."""
    program = compile_program(COUNTED_C, sources, folder=folder, name=name)
    for arguments in runs:
        result = run_program(program, *arguments, folder=folder)
        if result.returncode:
            raise ToolchainError(f"{name}: expected it to pass, got status {result.returncode}:\n{result.stdout}")


def read_gcov(counts: Path) -> dict[str, Any]:
    """What gcov says of one unit's counts (gcov's JSON, format 1)."""
    if shutil.which("gcov") is None:
        raise ToolchainError("coverage: expected gcov beside gcc, found none; install gcc")
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", counts.name]
    result = subprocess.run(command, cwd=counts.parent, capture_output=True, check=True)
    text = gzip.decompress(result.stdout) if result.stdout[:2] == b"\x1f\x8b" else result.stdout
    data: dict[str, Any] = json.loads(text)
    return data
