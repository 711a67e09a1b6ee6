# SPDX-License-Identifier: MIT
"""Builds the debug kernel where it is not there, and runs all tests of the modules on it: `make prove-kernel`.

    python -m tests.prove.kernel                     all of them
    python -m tests.prove.kernel tests/vm/test_debug.py -k "faults or gr"    words for pytest

packaging/debug_kernel.py builds it from Debian's source package, with what finds wrong accesses, lock orders, leaks and
sleeping where that is not allowed, and with memory that can be refused. tests/vm/test_debug.py first shows that it does
find them. A fault is in the kernel's log, and any line there that has not to be there fails a test. Exits 0 where all
passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILDER = REPOSITORY / "packaging" / "debug_kernel.py"
TESTS = ("tests/vm/test_debug.py", "tests/vm/test_modules.py", "tests/vm/test_limited.py")
ENVIRONMENT = {"CCATUNE_VM_DEBUG": "1", "CCATUNE_REQUIRE_TIERS": "vm"}


def say(line: str) -> None:
    """At once: what comes next takes long."""
    print(line, flush=True)  # noqa: T201 - the campaign's output


def build() -> str:
    """The release of the kernel, built if need be; exits with the builder's status where it cannot be."""
    start_s = time.monotonic()
    done = subprocess.run([sys.executable, str(BUILDER)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    release = done.stdout.strip()
    say(f"kernel {release}, there after {time.monotonic() - start_s:.0f} s")
    return release


def test(words: list[str]) -> tuple[int, str]:
    """Run the tests; pytest's status and its last line."""
    files = () if any(word.endswith(".py") for word in words) else TESTS
    # A guest is bounded by its own time, which is longer than that of pytest's faulthandler.
    options = ("-v", "-n", "0", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0")
    command = [sys.executable, "-m", "pytest", *options, *files, *words]
    last = "(no output)"
    with subprocess.Popen(
        command, cwd=REPOSITORY, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True
    ) as running:
        for line in running.stdout or ():
            say(line.rstrip())
            last = line.strip() or last
    return running.returncode, last


def main() -> None:
    """Build, test, and say what was found last."""
    release = build()
    status, last = test(sys.argv[1:])
    say(f"{release}: {last}")
    sys.exit(status)


if __name__ == "__main__":
    main()
