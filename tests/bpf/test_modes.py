# SPDX-License-Identifier: MIT
"""An adapter has its algorithm's mode, which params.def names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

KMOD = Path(__file__).resolve().parents[2] / "kmod"


@pytest.mark.parametrize(("cca", "adapter", "message"), [
    ("gr", "gr_host.h", ""),
    ("gr", "roccet_host.h", "the adapter of gr has another mode"),
    ("vegas", "gr_host.h", "the adapter of vegas has another mode"),
])  # fmt: skip
def test_an_adapter_of_the_other_mode_does_not_compile(cca: str, adapter: str, message: str) -> None:
    done = subprocess.run(
        ["clang-19", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-ffreestanding", "-D__TARGET_ARCH_x86",
         "-I.", "-I../core", "-I../linux", f"-DCCATUNE_ALGORITHM={cca}", f'-DCCATUNE_ADAPTER="{adapter}"',
         "-DCCATUNE_KERNEL=610", "-fsyntax-only", "algorithm.bpf.c"],
        cwd=KMOD / "bpf", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (not message), done.stderr
    assert message in done.stderr
