# SPDX-License-Identifier: MIT
"""Compiles C tests of kmod/core, in the ways that they are needed: sanitized, counted, fuzzed.

They are compiled over an overlay: a folder with links to the headers of kmod/core and a params.def that holds
one algorithm more, `twin` (core/twin.def), with what no algorithm has yet: two axes, sixteen parameters, and
ranges that fill 32 bits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[1] / "kmod" / "core"
TWIN = HERE / "core" / "twin.def"
END_OF_ENTRIES = "#undef CCA_ALGORITHM\n"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
C11 = ("gcc", "-std=c11")
NO_CHANGES: Mapping[str, tuple[str, str]] = MappingProxyType({})


class ToolchainError(Exception):
    """A program of the tests did not compile, or a compiler lacks what it is asked for."""


@dataclass(frozen=True)
class Build:
    """A way to compile. compiler: command and language; flags: what the flavour adds."""

    name: str
    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    link_flags: tuple[str, ...] = ()


# For programs that run for seconds; those that end at once spend nearly all of their time in the optimiser.
SANITIZED_C = Build("gcc, C11, sanitized", C11, ("-O1", "-g", *SANITIZERS))
BRIEF_C = Build("gcc, C11, sanitized, not optimised", C11, ("-O0", "-g1", *SANITIZERS))
# Neither optimised nor sanitized: both make branches that the source does not have.
COUNTED_C = Build("gcc, C11, counted", C11, ("-O0", "--coverage"))
PLAIN_LIBRARY = Build("gcc, C11, shared", C11, ("-O1", "-fPIC", "-shared"))
# Clang's fuzzer: it keeps the inputs that reach something new. It need not watch comparisons: the mutators
# know the words and the limits, and watching costs half of the speed.
GUIDED_C = Build(
    "clang, C11, guided",
    ("clang", "-std=c11"),
    ("-O1", "-g", "-fsanitize=fuzzer", "-fno-sanitize-coverage=trace-cmp", *SANITIZERS),
)


def make_overlay(folder: Path, *, changes: Mapping[str, tuple[str, str]]) -> Path:
    """Make the overlay of kmod/core in `folder`/core, and return it.

    changes: by header, a text that stands in it once, and what is to stand there instead.
    """
    overlay = folder / "core"
    overlay.mkdir(parents=True, exist_ok=True)
    for header in CORE.glob("*.h"):
        link = overlay / header.name
        link.unlink(missing_ok=True)
        if header.name not in changes:
            link.symlink_to(header)
            continue
        text, (old, new) = header.read_text(encoding="utf-8"), changes[header.name]
        if text.count(old) != 1:
            raise ToolchainError(f"{header}: expected {old!r} once, found it {text.count(old)} times")
        link.write_text(text.replace(old, new), encoding="utf-8")
    entries = (CORE / "params.def").read_text(encoding="utf-8")
    if entries.count(END_OF_ENTRIES) != 1:
        raise ToolchainError(f"{CORE}/params.def: expected one line {END_OF_ENTRIES!r} behind the entries")
    twin = TWIN.read_text(encoding="utf-8")
    (overlay / "params.def").write_text(entries.replace(END_OF_ENTRIES, twin + END_OF_ENTRIES), encoding="utf-8")
    return overlay


def compile_program(
    build: Build,
    sources: Sequence[Path],
    *,
    folder: Path,
    name: str,
    changes: Mapping[str, tuple[str, str]] = NO_CHANGES,
) -> Path:
    """Compile `sources` over an overlay (with `changes` to the core) into `folder`/`name`, and return it.

    Raises ToolchainError with what the compiler said.
    """
    overlay = make_overlay(folder, changes=changes)
    program = folder / name
    command = [
        *build.compiler, *WARNINGS, *build.flags, "-DCCA_ID_twin=63", "-I", str(overlay),
        *map(str, sources), "-o", str(program), *build.link_flags,
    ]  # fmt: skip
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ToolchainError(f"{' '.join(command)}:\n{result.stderr}")
    return program


def guided_fuzzing_works(folder: Path) -> bool:
    """Whether this machine's clang has its fuzzer and its sanitizers."""
    if shutil.which("clang") is None:
        return False
    source = folder / "probe.c"
    source.write_text(
        "int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);\n"
        "int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size)\n"
        "{ return data && size > 1 ? 0 : 0; }\n",
        encoding="utf-8",
    )
    try:
        compile_program(GUIDED_C, [source], folder=folder, name="probe")
    except ToolchainError:
        return False
    return True


def run_program(program: Path, *arguments: str, folder: Path, timeout_s: int = 300) -> subprocess.CompletedProcess[str]:
    """Run a compiled program in `folder`, its output kept. The timeout is for programs that hang."""
    return subprocess.run(
        [program, *arguments], cwd=folder, env=sanitizer_environment(), capture_output=True, text=True,
        errors="replace", check=False, timeout=timeout_s,
    )  # fmt: skip


def sanitizer_environment() -> dict[str, str]:
    """The environment of a sanitized program: every finding ends it and shows where."""
    return {
        **os.environ,
        "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
