# SPDX-License-Identifier: MIT
"""The core as a kernel of 32 or 64 bits compiles it: no 64-bit division of the compiler's, small stacks.

The kernel's headers are stood in for by three of a few lines, so that this needs no kernel. What they cannot
show, a build against real headers must.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.contract.toolchain import CORE

LARGEST_FRAME_BYTES = 256  # of the kernel's 8 or 16 KiB, under a stack of network functions
KERNEL_HEADERS = {
    "errno.h": "#define EPERM 1\n#define EEXIST 17\n#define EINVAL 22\n#define EFBIG 27\n#define ERANGE 34\n"
    "#define ESTALE 116\n",
    "types.h": "#define NULL ((void *)0)\ntypedef _Bool bool;\n#define true 1\n#define false 0\n"
    "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n",
    "math64.h": "extern unsigned long long div64_u64(unsigned long long dividend, unsigned long long divisor);\n",
}
# Kernels up to 5.17 are gnu89, later ones gnu11.
KERNEL = [
    "gcc", "-D__KERNEL__", "-O2", "-nostdinc", "-ffreestanding", "-fno-strict-aliasing", "-fno-pic", "-fno-pie",
    "-mgeneral-regs-only", "-Wall", "-Wextra", "-Wdeclaration-after-statement", "-Wvla", "-Werror",
    f"-Werror=frame-larger-than={LARGEST_FRAME_BYTES}", "-DCCA_FN=static __attribute__((used))", "-xc",
]  # fmt: skip


def compile_for_a_kernel(text: str, *flags: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile a translation unit that includes headers of the core into `folder`/unit.o."""
    (folder / "linux").mkdir(exist_ok=True)
    for name, content in KERNEL_HEADERS.items():
        guard = f"STAND_IN_{name.removesuffix('.h').upper()}"
        (folder / "linux" / name).write_text(f"#ifndef {guard}\n#define {guard}\n{content}#endif\n", encoding="utf-8")
    command = [*KERNEL, *flags, "-I", str(folder), "-I", str(CORE), "-c", "-o", str(folder / "unit.o"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)


def undefined_symbols(folder: Path) -> set[str]:
    """What the object wants from elsewhere."""
    listing = subprocess.run(["nm", "-u", folder / "unit.o"], capture_output=True, text=True, check=True, timeout=60)
    return {line.split()[-1] for line in listing.stdout.splitlines()}


@pytest.mark.parametrize(("bits", "standard"), [("-m32", "-std=gnu89"), ("-m64", "-std=gnu11")])
def test_core_compiles_for_a_kernel_and_divides_by_its_function(bits: str, standard: str, tmp_path: Path) -> None:
    text = "".join(f'#include "{path.name}"\n' for path in sorted(CORE.glob("*.h")))
    result = compile_for_a_kernel(text, bits, standard, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert undefined_symbols(tmp_path) == {"div64_u64"}


def test_a_plain_64_bit_division_would_show(tmp_path: Path) -> None:
    text = '#include "cca.h"\nu64 unit(u64 a, u64 b);\nu64 unit(u64 a, u64 b) { return a / b; }\n'
    assert compile_for_a_kernel(text, "-m32", folder=tmp_path).returncode == 0
    assert "__udivdi3" in undefined_symbols(tmp_path)


def test_a_large_frame_would_show(tmp_path: Path) -> None:
    text = '#include "cca.h"\nu32 unit(u32 i);\nu32 unit(u32 i) { volatile u32 a[99]; a[i] = i; return a[0]; }\n'
    result = compile_for_a_kernel(text, "-m64", folder=tmp_path)
    assert result.returncode != 0
    assert "frame size" in result.stderr
