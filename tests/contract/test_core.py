# SPDX-License-Identifier: MIT
"""The C unit tests of kmod/core, a program each, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.contract.toolchain import CORE, HERE, SANITIZED_C, SANITIZED_CXX, Build, compile_program, sanitizer_environment

PROGRAMS = sorted((HERE / "core").glob("test_*.c"))
TESTED_ELSEWHERE = {"ensemble_format.h": "test_text.c", "ensemble_text.h": "test_text.c"}


def test_every_header_has_its_tests() -> None:
    expected = {TESTED_ELSEWHERE.get(header.name, f"test_{header.stem}.c") for header in CORE.glob("*.h")}
    assert {program.name for program in PROGRAMS} == expected


@pytest.mark.parametrize("build", [SANITIZED_C, SANITIZED_CXX], ids=lambda build: build.name)
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda source: source.stem)
def test_core_keeps_what_its_c_tests_say(source: Path, build: Build, tmp_path: Path) -> None:
    program = compile_program(build, [source], folder=tmp_path, name=source.stem)
    result = subprocess.run(
        [program], env=sanitizer_environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
