#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Schemes whose two ends are one Go program: go_program.py FOLDER VERB ... (verbs: _scheme.py).

    gcc        Google Congestion Control (GCC) of the WebRTC library pion, for a synthetic encoder.
               programs/gcc/main.go describes the encoder and where it differs from a browser
    quic_go    Reno of the QUIC library quic-go. The library has code for CUBIC, but creates each connection with Reno
               and offers no setting for it

The program is in FOLDER of the folder of programs, and is called with `receiver PORT` or `sender IP PORT`. go.mod and
go.sum beside it pin every module by version and digest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.pantheon.wrappers import _scheme
else:
    import _scheme

GO = _scheme.Tool("go", ("version",), (1, 26), ("golang-go",), "install Go 1.26 or newer; Debian 12 has 1.19")
# The name of the scheme, and what its build is for, by the folder of its program.
SCHEMES = {"gcc": ("pion-gcc", "pion/interceptor 0.1.51"), "quic_go": ("quic-go-reno", "quic-go 0.65.0")}


def scheme(folder: str) -> _scheme.Scheme:
    """The scheme of the program in this folder."""
    name, purpose = SCHEMES[folder]
    source = _scheme.PROGRAMS / folder

    def make(work: Path, result: Path) -> None:
        command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(result / folder), "."]
        settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTMPDIR": str(work)}
        _scheme.run(command, folder=source, purpose=purpose, environment=settings)

    return _scheme.program_scheme(name, make, purpose=purpose, tools=[GO], source=source, program=folder)


if __name__ == "__main__":
    _scheme.main(scheme(sys.argv[1]), sys.argv[2:])
