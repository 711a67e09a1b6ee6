# SPDX-License-Identifier: MIT
"""The C unit tests of kmod/core, a program each, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.toolchain import BRIEF_C, CORE, HERE, compile_program, run_program

PROGRAMS = sorted((HERE / "core").glob("test_*.c"))


def test_every_header_has_its_tests() -> None:
    openings = [program.read_text(encoding="utf-8").splitlines()[1] for program in PROGRAMS]
    lacking = [header.name for header in CORE.glob("*.h") if not any(header.name in line for line in openings)]
    assert lacking == []


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.stem)
def test_core_keeps_what_its_c_tests_say(source: Path, tmp_path: Path) -> None:
    program = compile_program(BRIEF_C, [source], folder=tmp_path, name=source.stem)
    result = run_program(program, folder=tmp_path)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
