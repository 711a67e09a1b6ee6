# SPDX-License-Identifier: MIT
"""Runs the fuzz targets of tests/contract/fuzz: with clang's fuzzer where it is installed, else with our driver.

A run finds a fault when a property does not hold or a sanitizer speaks up. It counts what its inputs reached
(every error, every mode): a fuzzer that reaches nothing finds nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tests.contract.toolchain import (
    GUIDED_C,
    HERE,
    SANITIZED_C,
    compile_program,
    guided_fuzzing_works,
    run_program,
)

FUZZ = HERE / "fuzz"
TAIL_LINES = 40


@dataclass(frozen=True)
class Target:
    """A fuzz target. must_reach: the counters that have to be above 0 at the end of a run."""

    name: str
    sources: tuple[str, ...]
    largest_input_bytes: int
    must_reach: tuple[str, ...]


TEXT = Target(
    name="text",
    sources=("text_target.c", "text_mutator.c", "made_text.c"),
    largest_input_bytes=16384,  # what is larger is made from a seed
    must_reach=(
        "accepted", "accepted_changed", "cleared", "incomplete", "einval", "erange", "efbig", "two_axes",
        "logarithmic", "faulty",
    ),
)  # fmt: skip
FLOW = Target(
    name="flow",
    sources=("flow_target.c", "made_text.c"),
    largest_input_bytes=1024,
    must_reach=(
        "acks", "slow_starts_left", "drains", "holds", "timeouts", "undone", "silences", "looked_up", "raised",
        "kept", "tables_taken", "recalled", "rates_changed", "roccet_launches", "roccet_events", "roccet_rows",
        "estimating", "cleared", "probing", "refilling", "lifted", "verifying",
    ),
)  # fmt: skip
TARGETS = {target.name: target for target in (TEXT, FLOW)}


@dataclass(frozen=True)
class FuzzRun:
    """What a run did.

    found: the end of the program's output where it found a fault, else "".
    unreached: what the inputs should have reached and did not; a matter of time too.
    """

    target: str
    engine: str
    seed: int
    seconds: float
    inputs: int
    counts: dict[str, int]
    found: str
    unreached: tuple[str, ...]


def build_fuzzer(target: Target, *, folder: Path, guided: bool) -> Path:
    """Compile a target under the sanitizers, for clang's fuzzer (guided) or with our driver."""
    sources = [FUZZ / source for source in target.sources]
    if guided:
        return compile_program(GUIDED_C, sources, folder=folder, name=f"{target.name}-guided")
    return compile_program(SANITIZED_C, [*sources, FUZZ / "driver.c"], folder=folder, name=f"{target.name}-driven")


def run_fuzzer(target: Target, *, seconds: int, seed: int, folder: Path) -> FuzzRun:
    """Build a target in `folder` and run it for `seconds`; an input that fails is left there."""
    guided = guided_fuzzing_works(folder)
    program = build_fuzzer(target, folder=folder, guided=guided)
    arguments = (
        [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={target.largest_input_bytes}", "-len_control=0",
         "-verbosity=0", "-timeout=60"]
        if guided
        else ["--seconds", str(seconds), "--seed", str(seed)]
    )  # fmt: skip
    start_s = time.monotonic()
    result = run_program(program, *arguments, folder=folder, timeout_s=seconds + 300)
    took_s = time.monotonic() - start_s
    counts = read_counts(result.stdout)
    tail = "\n".join((result.stdout + result.stderr).splitlines()[-TAIL_LINES:])
    return FuzzRun(
        target=target.name,
        engine="clang's fuzzer" if guided else "our driver",
        seed=seed,
        seconds=round(took_s, 1),
        inputs=counts.pop("inputs", 0),
        counts=counts,
        found=f"status {result.returncode}, input left in {folder}\n{tail}" if result.returncode else "",
        unreached=unreached(target, counts=counts),
    )


def read_counts(output: str) -> dict[str, int]:
    """The lines `count NAME N` of a target's output."""
    words = [line.split() for line in output.splitlines() if line.startswith("count ")]
    return {name: int(number) for _, name, number in words}


def unreached(target: Target, *, counts: dict[str, int]) -> tuple[str, ...]:
    """What a target's inputs must reach and, by these counts, did not."""
    return tuple(name for name in target.must_reach if not counts.get(name))
