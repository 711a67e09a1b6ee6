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
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.fuzzing import FLOW, FUZZ, TEXT
from tests.contract.replaying import RECORDED
from tests.contract.toolchain import CORE, COUNTED_C, HERE, ToolchainError, compile_program, run_program

REQUIRED_PERCENT = 95.0
FUZZ_RUNS = {TEXT: 3000, FLOW: 100}


@dataclass(frozen=True, order=True)
class Branch:
    """A branch within a header: the function and line that hold it, and its place among the line's branches."""

    line: int
    function: str
    index: int


@dataclass
class HeaderCoverage:
    """Branches of a header, and which of them were taken. ran: a line of it was."""

    seen: set[Branch] = field(default_factory=set)
    taken: set[Branch] = field(default_factory=set)
    ran: bool = False

    @property
    def percent(self) -> float:
        """Share of branches taken; a header without any is covered."""
        return 100.0 * len(self.taken) / len(self.seen) if self.seen else 100.0

    @property
    def missed(self) -> list[Branch]:
        """Branches that nothing took, in their order."""
        return sorted(self.seen - self.taken)


def measure(folder: Path) -> dict[str, HeaderCoverage]:
    """Build and run everything in `folder`, and return the coverage of each header of kmod/core.

    Raises ToolchainError when a program fails: what a broken test covers says nothing.
    """
    for source in sorted((HERE / "core").glob("test_*.c")):
        run_counted([source], [()], folder=folder, name=source.stem)
    for target, runs in FUZZ_RUNS.items():
        sources = [FUZZ / "driver.c", *(FUZZ / source for source in target.sources)]
        run_counted(sources, [("--seed", "1", "--runs", str(runs))], folder=folder, name=f"fuzz_{target.name}")
    recorded = [(cca, "7", "3000", "recording") for cca in RECORDED]
    run_counted([HERE / "replay" / "record.c"], recorded, folder=folder, name="record")
    headers = {header.name: HeaderCoverage() for header in sorted(CORE.glob("*.h"))}
    for counts in folder.glob("*.gcda"):
        add_counts(headers, read_gcov(counts))
    return headers


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


def add_counts(headers: dict[str, HeaderCoverage], data: dict[str, Any]) -> None:
    """Add one unit's branches to those of the headers."""
    for file in data["files"]:
        path = Path(file["file"])
        if path.parent.name != "core" or path.name not in headers:
            continue
        header = headers[path.name]
        places: dict[tuple[int, str], int] = defaultdict(int)
        for line in file["lines"]:
            key = (line["line_number"], line.get("function_name", ""))
            header.ran |= line.get("count", 0) > 0
            for branch in line["branches"]:
                one = Branch(*key, places[key])
                places[key] += 1
                header.seen.add(one)
                if branch["count"]:
                    header.taken.add(one)


def total(headers: dict[str, HeaderCoverage]) -> HeaderCoverage:
    """All headers as one, for the figure that must reach REQUIRED_PERCENT."""
    whole = HeaderCoverage()
    for name, header in headers.items():
        for branches, own in ((whole.seen, header.seen), (whole.taken, header.taken)):
            branches.update(Branch(one.line, f"{name}:{one.function}", one.index) for one in own)
    return whole


def report(headers: dict[str, HeaderCoverage]) -> str:
    """A line a header, then one for each branch missed, then the total."""
    lines = [
        f"{name:<20} {len(one.taken):>4} of {len(one.seen):>4} branches {one.percent:6.1f} %"
        for name, one in headers.items()
    ]
    lines += [
        f"missed: {name}:{branch.line} {branch.function} (branch {branch.index})"
        for name, one in headers.items()
        for branch in one.missed
    ]
    whole = total(headers)
    lines.append(f"{'all':<20} {len(whole.taken):>4} of {len(whole.seen):>4} branches {whole.percent:6.1f} %")
    return "\n".join(lines)
