# SPDX-License-Identifier: MIT
"""A scheme whose two ends are one Go program of `programs`, called with `receiver PORT` or `sender IP PORT`.

go.mod and go.sum beside the program pin every module by version and digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.pantheon.wrappers import _scheme
else:
    import _scheme

GO = _scheme.Tool("go", ("version",), (1, 26), ("golang-go",), "install Go 1.26 or newer; Debian 12 has 1.19")


def scheme(name: str, *, folder: str, purpose: str) -> _scheme.Scheme:
    """The scheme `name`, of the program in `folder` of the folder of programs."""
    source = _scheme.PROGRAMS / folder

    def target() -> Path:
        return _scheme.place(folder, *_scheme.sources(source))

    def make(work: Path, result: Path) -> None:
        command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(result / folder), "."]
        settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTMPDIR": str(work)}
        _scheme.run(command, folder=source, purpose=purpose, environment=settings)

    def program() -> Path:
        return _scheme.built(target(), scheme=name) / folder

    return _scheme.Scheme(
        name=name,
        packages=lambda: _scheme.missing_packages([GO]),
        require=lambda: _scheme.require(GO, purpose=purpose),
        target=target,
        make=make,
        receive=lambda port: _scheme.become(program(), "receiver", str(port)),
        send=lambda address, port: _scheme.become(program(), "sender", address, str(port)),
    )
