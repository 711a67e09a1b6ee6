# SPDX-License-Identifier: MIT
"""Every header of the core compiles alone, and all of them warning-free in each language that a host is written in.

Beyond the syntax: the code that comes out has nothing that a BPF program cannot do (signed division, wide arithmetic,
large stacks). That it needs no library and no floating-point register is shown by test_kernel_shape.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[1] / "kmod" / "core"
HEADERS = sorted(path.name for path in CORE.glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-I", str(CORE)]
BPF = ["clang", "--target=bpf", "-O2", "-std=c11", "-ffreestanding", "-xc", *WARNINGS]
COMPILERS = {
    "gcc -std=c11": ["gcc", "-std=c11", "-xc", *WARNINGS],
    "g++ -std=c++20": ["g++", "-std=c++20", "-xc++", *WARNINGS],
    # The headers alone emit no code; for functions that nobody calls clang warns, unlike gcc.
    "clang --target=bpf": [*BPF, "-Wno-unused-function"],
}
# One algorithm with everything that a host calls of it: those of tests/contract/flow.h.
ENTRY_POINTS = """
#include "flow.h"
void unit_init(struct flow *f, const struct cca_start *start, u32 hash) { flow_init(f, start, 1, hash); }
void unit_on_ack(struct flow *f, const struct cca_ack *ack) { flow_on_ack(f, ack); }
void unit_grow(struct flow *f, u32 acked_pkts) { flow_grow(f, acked_pkts); }
u32 unit_ssthresh(struct flow *f) { return flow_ssthresh(f); }
u32 unit_undo(struct flow *f) { return flow_undo(f); }
void unit_on_event(struct flow *f, const struct cca_event *ev) { flow_on_event(f, ev); }
void unit_on_loss(struct flow *f, const struct cca_loss *loss) { flow_on_loss(f, loss); }
void unit_recall(struct flow *f, u64 now_us) { flow_recall(f, now_us); }
"""
ALGORITHMS = re.findall(r"^CCA_ALGORITHM\((\w+),", (CORE / "params.def").read_text(encoding="utf-8"), re.MULTILINE)


def compile_text(command: list[str], text: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile a translation unit into `folder`/unit.o."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"not installed: {command[0]}")
    arguments = [*command, "-c", "-o", str(folder / "unit.o"), "-"]
    return subprocess.run(arguments, input=text, capture_output=True, text=True, check=False, timeout=60)


def undefined_symbols(unit: Path) -> list[str]:
    """What the object wants from elsewhere."""
    listing = subprocess.run(["nm", "-u", str(unit)], capture_output=True, text=True, check=True, timeout=60)
    return [line.split()[-1] for line in listing.stdout.splitlines()]


def test_the_core_has_headers() -> None:
    assert "cca.h" in HEADERS


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_and_twice(header: str, tmp_path: Path) -> None:
    text = f'#include "{header}"\n#include "{header}"\nint unit_is_not_empty;\n'
    result = compile_text(COMPILERS["gcc -std=c11"], text, folder=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_all_headers_compile_together(compiler: str, tmp_path: Path) -> None:
    text = "".join(f'#include "{header}"\n' for header in reversed(HEADERS)) + "int unit_is_not_empty;\n"
    result = compile_text(COMPILERS[compiler], text, folder=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_warning_in_a_header_is_an_error(compiler: str, tmp_path: Path) -> None:
    text = '#include "cca.h"\nint unit(unsigned int a, int b);\nint unit(unsigned int a, int b) { return a < b; }\n'
    result = compile_text(COMPILERS[compiler], text, folder=tmp_path)
    assert result.returncode != 0
    assert "sign-compare" in result.stderr


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_becomes_bpf_code(algorithm: str, tmp_path: Path) -> None:
    # A BPF function takes five arguments and returns a word, so everything below the entry points is inlined.
    inlined = "-DCCA_FN=static inline __attribute__((always_inline, unused))"
    command = [*BPF, inlined, f"-DONLY_ID=CCA_ID_{algorithm}", "-Wno-unused-function", "-I", str(HERE)]
    result = compile_text(command, ENTRY_POINTS, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert undefined_symbols(tmp_path / "unit.o") == []


def test_signed_division_does_not_become_bpf_code(tmp_path: Path) -> None:
    # Shows that the check above can fail.
    text = "int unit(int a, int b) { return a / b; }\n"
    result = compile_text(BPF, text, folder=tmp_path)
    assert result.returncode != 0
    assert "division" in result.stderr
