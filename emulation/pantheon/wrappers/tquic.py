#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copa, BBR, BBRv3 and CUBIC of the QUIC library tquic: tquic.py ALGORITHM VERB ... (verbs: _scheme.py).

ALGORITHM is copa, bbr, bbr3 or cubic, with the parameters that the library has by default. Its Copa has a delta of
0.04 by default, and the paper one of 0.5: `copa-0.5` is Copa with the delta of the paper, and any other is given in
the same way.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.pantheon.wrappers import _scheme
else:
    import _scheme

SOURCE = _scheme.PROGRAMS / "tquic"
PURPOSE = "tquic 1.6.0"
ALGORITHM = re.compile(r"copa|copa-\d{1,4}(\.\d{1,6})?|bbr|bbr3|cubic")
ADVICE = "install Debian's cargo-web and rustc-web, or a newer toolchain"
TOOLS = (
    _scheme.Tool("cargo", ("--version",), (1, 88), ("cargo-web",), ADVICE),
    _scheme.Tool("rustc", ("--version",), (1, 88), ("rustc-web",), ADVICE),
    _scheme.Tool("cmake", ("--version",), (3, 16), ("cmake",), "install Debian's cmake"),
    _scheme.Tool("make", ("--version",), (4, 0), ("make",), "install Debian's make"),
    _scheme.Tool("g++", ("-dumpfullversion",), (9, 0), ("g++",), "install Debian's g++"),
)


def make(work: Path, result: Path) -> None:
    """Build the program from a copy of its sources, because cargo writes beside them."""
    shutil.copytree(SOURCE, work / "source")
    command = ["cargo", "build", "--release", "--quiet", "--target-dir", str(work / "build")]
    _scheme.run(command, folder=work / "source", purpose=PURPOSE)
    shutil.move(work / "build/release/ccatune-tquic", result / "ccatune-tquic")


def main(arguments: list[str]) -> None:
    """Do what a verb requires, for the algorithm of the first word."""
    algorithm = arguments[0] if arguments else "nothing"
    if not ALGORITHM.fullmatch(algorithm):
        _scheme.fail(f"tquic.py: expected copa, copa-DELTA, bbr, bbr3 or cubic before the verb, got {algorithm}")
    scheme = _scheme.program_scheme(
        f"tquic-{algorithm}", make, purpose=PURPOSE, tools=TOOLS, source=SOURCE, program="ccatune-tquic",
        leading=(algorithm,),
    )  # fmt: skip
    _scheme.main(scheme, arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
