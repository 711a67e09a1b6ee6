# SPDX-License-Identifier: MIT
"""Replays recordings of a kernel's events (kmod/core/recording.h) in the core as this machine compiles it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.contract.toolchain import BRIEF_C, HERE, Build, ToolchainError, compile_program, run_program

SOURCES = HERE / "replay"
RECORDED = (
    "gr", "reno", "cubic", "roccet", "bbr", "bbr3", "rtcp_cubic", "rtcp_bbr", "rtcp_bbr3", "sira"
)  # fmt: skip


class RecordingError(Exception):
    """A recording that is not whole, or is none; with the replayer's words."""


def compile_replayer(folder: Path, *, build: Build = BRIEF_C) -> Path:
    """Compile the replayer over kmod/core into `folder`, and return it."""
    return compile_program(build, [SOURCES / "replay.c"], folder=folder, name="replay")


def compile_maker(folder: Path) -> Path:
    """Compile what makes recordings into `folder`, and return it."""
    return compile_program(BRIEF_C, [SOURCES / "record.c"], folder=folder, name="record")


def make_recording(maker: Path, path: Path, *, cca: str, events: int, seed: int, folder: Path) -> None:
    """Make a recording of made-up events, as a kernel would, for tests of the replayer itself."""
    result = run_program(maker, cca, str(seed), str(events), str(path), folder=folder)
    if result.returncode:
        raise ToolchainError(f"{maker}: exit status {result.returncode}\n{result.stderr}")


def replay(replayer: Path, recording: Path, *, folder: Path) -> dict[str, int]:
    """Replay a recording and return what it held, by name; `differing` counts the decisions that were not the same.

    Raises:
        RecordingError: it is damaged, cut short, or events were lost.
    """
    result: subprocess.CompletedProcess[str] = run_program(replayer, str(recording), folder=folder)
    if result.returncode not in (0, 1):
        raise RecordingError(result.stderr.strip())
    lines = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    return {name: int(value) for name, value in lines.items() if name != "cca"}
